"""Orders of hosts worth trying: neighbours in the network side by side, groups within one leaf. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from clusterlab.topology.fabric import Fabric
from clusterlab.topology.routing.network import Network, has_network, network_of


def host_orders(
    fabric: Fabric, hosts: Sequence[str], spans: Sequence[int]
) -> Iterator[tuple[str, ...]]:
    """``hosts`` in promising orders, the given one first, each once. ``spans`` are how many hosts the groups
    of the job's axes take.
    """
    seen = set()
    for order in _orders(fabric, tuple(hosts), spans):
        if order not in seen:
            seen.add(order)
            yield order


def _orders(
    fabric: Fabric, hosts: tuple[str, ...], spans: Sequence[int]
) -> Iterator[tuple[str, ...]]:
    yield hosts
    number = {host: i for i, host in enumerate(fabric.hosts)}
    sorted_hosts = tuple(sorted(hosts, key=lambda host: number[host]))
    yield sorted_hosts
    if not has_network(fabric):
        return
    near = neighbourhoods(fabric, sorted_hosts)
    by_size = sorted(near, key=lambda pod: -sum(map(len, pod)))
    yield tuple(h for pod in by_size for leaf in sorted(pod, key=len, reverse=True) for h in leaf)
    for span in sorted(set(spans)):
        if 1 < span < len(hosts):
            yield _in_blocks(by_size, span)


def neighbourhoods(fabric: Fabric, hosts: Sequence[str]) -> list[list[list[str]]]:
    """``hosts`` by pod (leaves that spines join without a core) and in it by leaf, orders kept. Hosts on no
    switch are a leaf of their own.
    """
    network = network_of(fabric)
    leaf_of = _leaf_of(network)
    pod_of = _pod_of(network)
    pods: dict[object, dict[object, list[str]]] = defaultdict(lambda: defaultdict(list))
    for host in hosts:
        leaves = tuple(
            sorted(
                {leaf for nic in fabric.on_host(host, "nic") for leaf in leaf_of.get(nic.name, ())}
            )
        )
        pods[pod_of[leaves[0]] if leaves else host][leaves or host].append(host)
    return [list(leaves.values()) for leaves in pods.values()]


def _leaf_of(network: Network) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for low, high in zip(network.low.tolist(), network.high.tolist(), strict=True):
        if low >= network.switches:
            found[network.nodes[low]].append(high)
    return found


def _pod_of(network: Network) -> list[int]:
    """Switch → number of its part of the network, cores left out."""
    import networkx as nx

    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(network.switches))
    core = network.tier >= 3
    for low, high in zip(network.low.tolist(), network.high.tolist(), strict=True):
        if low < network.switches and not core[high]:
            graph.add_edge(low, high)
    pod = [0] * network.switches
    for number, part in enumerate(nx.connected_components(graph)):
        for switch in part:
            pod[switch] = number
    return pod


def _in_blocks(pods: Sequence[Sequence[Sequence[str]]], span: int) -> tuple[str, ...]:
    """Whole blocks of ``span`` hosts of one leaf first, then of one pod, then of what is left."""
    whole: list[str] = []
    rest: list[str] = []
    for pod in pods:
        over: list[str] = []
        for leaf in sorted(pod, key=len, reverse=True):
            full = len(leaf) // span * span
            whole += leaf[:full]
            over += leaf[full:]
        full = len(over) // span * span
        whole += over[:full]
        rest += over[full:]
    return (*whole, *rest)
