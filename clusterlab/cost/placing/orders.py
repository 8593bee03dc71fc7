"""Orders of hosts worth trying: neighbours in the network side by side, groups within one leaf. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from clusterlab.topology.fabric import Fabric
from clusterlab.topology.network_groups import network_of
from clusterlab.topology.routing.network import has_network


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
    """``hosts`` by pod (what spines join) and in it by leaves they share, orders kept. Hosts on no switch are
    a pod of their own.
    """
    tree = network_of(fabric)
    units = tree.tiers[0] if tree.tiers else ()
    unit_of = {host: i for i, unit in enumerate(units) for host in unit.hosts}
    pods = tree.tiers[1] if len(tree.tiers) > 1 else ()
    pod_of = {unit: i for i, pod in enumerate(pods) for unit in pod.below}
    found: dict[object, dict[object, list[str]]] = defaultdict(lambda: defaultdict(list))
    for host in hosts:
        unit = unit_of.get(host)
        pod = host if unit is None else pod_of.get(unit, ("alone", unit))
        found[pod][unit].append(host)
    return [list(pod.values()) for pod in found.values()]


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
