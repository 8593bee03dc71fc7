"""The way of gloo's bytes: from the sender's own NIC to the receiver's own NIC, one way for each pair.

gloo binds a rank to one interface and opens one TCP connection to each other rank. Switches keep a
connection on one of several equally good cables, by a hash (ECMP) or by its destination (tables of
InfiniBand), however full that cable is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from clusterlab.core.errors import UsageError
from clusterlab.cost.estimate import Ways
from clusterlab.cost.flows.crossing import Routing
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import Link
from clusterlab.topology.routing.fluid import ACCELERATOR_LINKS, Crossing, route
from clusterlab.topology.routing.network import Network, has_network, network_of
from clusterlab.topology.routing.path_types import nic_of
from clusterlab.topology.routing.policy import policy_named
from clusterlab.topology.routing.updown import Routes, route_pairs


def gloo_ways(fabric: Fabric, pairs: Sequence[tuple[str, str]], routing: Routing) -> Ways:
    """Of every pair of ranks' devices. ``adaptive`` spreads over equal cables, the others choose one.

    Between devices of one host, and where a host has no NICs on a switch, it is the nearest way (``fluid``).
    Raises UsageError where none leads.
    """
    known: dict[tuple[str, str], tuple[Crossing, ...]] = fabric.memo.setdefault(
        ("gloo ways", routing), {}
    )
    new = [pair for pair in dict.fromkeys(pairs) if pair not in known]
    nics = _own_nics(fabric, {device for pair in new for device in pair})
    apart = []
    for src, dst in new:
        if src in nics and dst in nics and fabric.host_of(src) != fabric.host_of(dst):
            apart.append((src, dst))
        else:
            known[src, dst] = route(fabric, src, dst, avoid=ACCELERATOR_LINKS)
    if apart:
        known.update(_by_nics(fabric, apart, nics, routing))
    return known


def _own_nics(fabric: Fabric, devices: Iterable[str]) -> dict[str, str]:
    """The NIC next to each device, of those that have one on a switch."""
    if not has_network(fabric):
        return {}
    cabled = network_of(fabric).index
    nics = {device: nic_of(fabric, device) for device in devices}
    return {device: nic for device, nic in nics.items() if nic is not None and nic in cabled}


def _by_nics(
    fabric: Fabric,
    pairs: Sequence[tuple[str, str]],
    nics: Mapping[str, str],
    routing: Routing,
) -> Ways:
    ends = [(nics[src], nics[dst]) for src, dst in pairs]
    if routing == "adaptive":
        between = [route(fabric, a, b, avoid=ACCELERATOR_LINKS) for a, b in ends]
    else:
        between = _chosen(network_of(fabric), ends, routing)
    return {
        (src, dst): (
            *route(fabric, src, nics[src], avoid=ACCELERATOR_LINKS),
            *network,
            *route(fabric, nics[dst], dst, avoid=ACCELERATOR_LINKS),
        )
        for (src, dst), network in zip(pairs, between, strict=True)
    }


def _chosen(
    network: Network, ends: Sequence[tuple[str, str]], routing: Routing
) -> list[tuple[Crossing, ...]]:
    src, dst = (np.array([network.node(pair[i]) for pair in ends], dtype=int) for i in (0, 1))
    routes = route_pairs(network, src, dst, policy_named(routing))
    if not routes.reached.all():
        a, b = ends[int(np.argmin(routes.reached))]
        raise UsageError(
            f"no path from {a} to {b}",
            where=f"fabric {network.name}",
            expected="links that are up between all ranks",
        )
    return [_crossings(network, routes, i) for i in range(len(ends))]


def _crossings(network: Network, routes: Routes, pair: int) -> tuple[Crossing, ...]:
    length = int(routes.length[pair])
    cables, back = routes.cables[pair, :length].tolist(), routes.back[pair, :length].tolist()
    return tuple(
        Crossing(_cable(network, c, down=b), 1.0) for c, b in zip(cables, back, strict=True)
    )


def _cable(network: Network, cable: int, *, down: bool) -> Link:
    """One cable as a link of its own: the fabric's may stand for several that are parallel."""
    known: dict[tuple[int, bool], Link] = network.memo.setdefault("cables as links", {})
    if (cable, down) not in known:
        link = network.links[int((network.down_link if down else network.up_link)[cable])]
        known[cable, down] = replace(link, multiplicity=1, health=float(network.health[cable]))
    return known[cable, down]
