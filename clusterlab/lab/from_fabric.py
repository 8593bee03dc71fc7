"""A fabric's network as the data network of a lab, with the fabric's own routing. Pure.

What a switch does with a packet is read off ``route_pairs``, the routing that `topo route` prints: for each
pair of NICs its path says by which cable each switch on it forwards. So lab and fabric agree on every
uplink by construction. Policy ``pinned`` (d-mod-k) depends on the destination alone, as an InfiniBand
forwarding table does; ``hash`` on the source too.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from clusterlab.lab.fabric_limits import check_can_be_a_lab
from clusterlab.lab.spec import nic_address, switch_address
from clusterlab.lab.wires import DataNetwork, Entry, Nic, Port, Wire
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.failures.faults import as_wired
from clusterlab.topology.parts import Link
from clusterlab.topology.routing.network import Network, network_of
from clusterlab.topology.routing.path_types import nic_of
from clusterlab.topology.routing.policy import policy_named
from clusterlab.topology.routing.updown import Routes, route_pairs

Ways = dict[tuple[str, str], dict[str, int]]
"""(switch, destination) → source → the cable by which it goes on."""


def data_network(fabric: Fabric, policy: str, broken: tuple[str, ...] = ()) -> DataNetwork:
    """The data network that stands for ``fabric``, routed by ``policy`` (pinned or hash).

    ``broken`` is kept for the record: ``fabric`` is the broken one. Raises UsageError for a fabric that
    cannot be a lab.
    """
    check_can_be_a_lab(fabric)
    network = network_of(fabric)
    nics = _nics(fabric, network)
    switches = {name: switch_address(i) for i, name in enumerate(network.nodes[: network.switches])}
    ways = _ways(network, nics, policy)
    by_source = any(len(set(cables.values())) > 1 for cables in ways.values())
    return DataNetwork(
        switches=switches,
        wires=tuple(_wire(fabric, network, cable) for cable in range(len(network.low))),
        nics=tuple(nics),
        entries=tuple(_entries(network, nics, switches, ways, by_source=by_source)),
        gpu_nics={host: _gpu_nics(fabric, host) for host in fabric.hosts},
        by_source=by_source,
        broken=broken,
    )


def _nics(fabric: Fabric, network: Network) -> list[Nic]:
    """The cabled NICs, host after host. Their index counts those without a cable too."""
    found = []
    for number, host in enumerate(fabric.hosts):
        for index, device in enumerate(fabric.on_host(host, "nic")):
            node = network.index.get(device.name)
            if node is not None:
                leaf = network.nodes[int(network.high[int(network.at(node)[0])])]
                name = device.name.partition("/")[2]
                found.append(Nic(host, index, name, nic_address(index, number), leaf))
    return found


def _gpu_nics(fabric: Fabric, host: str) -> tuple[str, ...]:
    """The NIC of each GPU. Where all are down its own: a rank must not slip out by the other network."""
    gpus, wired = [gpu.name for gpu in fabric.on_host(host, "gpu")], as_wired(fabric)
    names = (nic_of(fabric, gpu) or nic_of(wired, gpu) or "" for gpu in gpus)
    return tuple(name.partition("/")[2] for name in names)


def _wire(fabric: Fabric, network: Network, cable: int) -> Wire:
    up = bool(network.live[cable])
    low, high = (_port(fabric, network, cable, upward=upward) for upward in (True, False))
    return Wire(network.cable_name(cable), low, high, up)


def _port(fabric: Fabric, network: Network, cable: int, *, upward: bool) -> Port:
    """The end from which the cable leads up, or down. A node's interface is called as the NIC, a
    switch's by the number of the cable: names of two devices are longer than an interface's may be.
    """
    device = network.nodes[int((network.low if upward else network.high)[cable])]
    link = network.links[int((network.up_link if upward else network.down_link)[cable])]
    host = fabric.host_of(device)
    rate = round(_wire_GBps(link) * link.health * 8e9)
    return Port(host or device, device.partition("/")[2] if host else f"c{cable}", rate)


def _wire_GBps(link: Link) -> float:
    """What one cable signals: tbf counts frames, not payload."""
    rate = link.wire_GBps if link.wire_GBps is not None else link.GBps
    assert rate is not None, "fabric_limits refuses links of unknown rate"
    return rate


def _ways(network: Network, nics: list[Nic], policy: str) -> Ways:
    """Every decision of every switch on the path of any two NICs of different nodes."""
    live = [nic for nic in nics if network.live[_cable_of(network, nic)]]
    pairs = [(a, b) for a in live for b in live if a.node != b.node]
    src, dst = (np.array([_node(network, pair[end]) for pair in pairs], int) for end in (0, 1))
    routes = route_pairs(network, src, dst, policy_named(policy))
    ways: Ways = defaultdict(dict)
    for i, (a, b) in enumerate(pairs):
        for switch, cable in _decisions(network, routes, i):
            ways[switch, b.address][a.address] = cable
    return ways


def _node(network: Network, nic: Nic) -> int:
    return network.node(f"{nic.node}/{nic.name}")


def _cable_of(network: Network, nic: Nic) -> int:
    return int(network.at(_node(network, nic))[0])


def _decisions(network: Network, routes: Routes, pair: int) -> list[tuple[str, int]]:
    """(switch, cable) for each switch that the path of a pair crosses."""
    found = []
    at: int | None = None
    for hop in range(int(routes.length[pair])):
        cable = int(routes.cables[pair, hop])
        if at is not None:
            found.append((network.nodes[at], cable))
        at = int((network.low if routes.back[pair, hop] else network.high)[cable])
    return found


def _entries(
    network: Network, nics: list[Nic], switches: dict[str, str], ways: Ways, *, by_source: bool
) -> list[Entry]:
    """A line for every switch, destination (and source): where nothing leads, it says so."""
    addresses = [nic.address for nic in nics]
    found = []
    for switch in switches:
        for to in addresses:
            cables = ways.get((switch, to), {})
            for source in addresses if by_source else [""]:
                cable = cables.get(source) if by_source else next(iter(cables.values()), None)
                if cable is None:
                    found.append(Entry(switch, to, "", source=source))
                else:
                    via = switches.get(_other_end(network, cable, switch), "")
                    found.append(Entry(switch, to, f"c{cable}", via, source))
    return found


def _other_end(network: Network, cable: int, switch: str) -> str:
    low, high = (network.nodes[int(end[cable])] for end in (network.low, network.high))
    return high if low == switch else low
