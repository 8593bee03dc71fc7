"""What the network beyond the NICs leaves of their rate, for groups that run at once. Pure.

NCCL does not know: its model ends at the port. Every host hands what it sends evenly to its NICs, NICs of one
lane (rail) talk to each other, and switches spread over all equally short ways by capacity (adaptive routing,
or a hash of many flows). All flows of a group carry the same bytes, so that under max-min sharing the group
ends when its fullest cable does: the flows on that cable have the least fair share of all, from the first
byte to the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from clusterlab.core.errors import UsageError
from clusterlab.cost.flows.contracted import Contracted, contracted
from clusterlab.cost.flows.ends import NONE, Ends, ends_of
from clusterlab.cost.flows.lanes import LaneFlows, lane_flows
from clusterlab.cost.flows.patterns import Floats, Pattern
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.routing.fluid_load import fluid_load
from clusterlab.topology.routing.load import cable_load
from clusterlab.topology.routing.network import Network, has_network, network_of
from clusterlab.topology.routing.policy import Pinned, Policy, StaticHash
from clusterlab.topology.routing.updown import route_pairs

Routing = Literal["adaptive", "hash", "pinned"]
"""How switches choose among equal ways: by capacity, a flow's hash (ECMP), or the destination alone."""

ROUTINGS: tuple[Routing, ...] = get_args(Routing)


@dataclass(frozen=True, slots=True)
class Crossing:
    """``share`` (up to 1] of the NICs' rate that the network passes on; ``cable`` is the fullest one where
    that is less than 1 (``leaf3/spine0``), None where the NICs are. By a hash ``share`` is the expected one
    and ``worst`` the least of the hashes tried; else they are equal.
    """

    share: float
    cable: str | None = None
    worst: float = 1.0


UNHINDERED = Crossing(1.0)
_SEEDS = range(8)


def crossings(
    fabric: Fabric,
    groups: Sequence[Sequence[str]],
    pattern: Pattern,
    routing: Routing = "adaptive",
) -> tuple[Crossing, ...]:
    """Of each group of devices, in rank order, all talking by ``pattern`` at once. Kept by the fabric.

    Raises UsageError where the network is cut in two between them.
    """
    key = ("crossings", pattern, routing, tuple(map(tuple, groups)))
    if key not in fabric.memo:
        fabric.memo[key] = _crossings(fabric, groups, pattern, routing)
    found: tuple[Crossing, ...] = fabric.memo[key]
    return found


def _crossings(
    fabric: Fabric, groups: Sequence[Sequence[str]], pattern: Pattern, routing: Routing
) -> tuple[Crossing, ...]:
    if not has_network(fabric):
        return (UNHINDERED,) * len(groups)
    network = network_of(fabric)
    every = [ends_of(fabric, network, devices) for devices in groups]
    if routing == "hash":
        tried = [_shared(network, every, pattern, StaticHash(seed)) for seed in _SEEDS]
        return tuple(map(_expected, zip(*tried, strict=True)))
    return _shared(network, every, pattern, Pinned() if routing == "pinned" else None)


def _expected(tried: Sequence[Crossing]) -> Crossing:
    """Of one group by several hashes: the mean of the times, the cable that is worst."""
    worst = min(tried, key=lambda c: c.share)
    mean = float(np.mean([1 / c.share for c in tried]))
    return UNHINDERED if worst.cable is None else Crossing(1 / mean, worst.cable, worst.share)


def _shared(
    network: Network, every: Sequence[Ends], pattern: Pattern, policy: Policy | None
) -> tuple[Crossing, ...]:
    """By one policy; None: spread by capacity."""
    found = [UNHINDERED] * len(every)
    traffic = {
        g: _traffic(network, ends, pattern, policy)
        for g, ends in enumerate(every)
        if len(ends.hosts) > 1
    }
    if traffic:
        full = _fullness(network, *_together(list(traffic.values())))
        for g, mine in traffic.items():
            found[g] = _crossing(network, mine, full)
    return tuple(found)


@dataclass(frozen=True, eq=False)
class _Traffic:
    """What one group puts on cables between switches (``inner`` [2, cables], up and down; 0 on NICs' own)
    and on end points (``ports`` [2, nodes], sent and taken).
    """

    inner: Floats
    ports: Floats


def _together(traffic: Sequence[_Traffic]) -> tuple[Floats, Floats]:
    inner, ports = traffic[0].inner.copy(), traffic[0].ports.copy()
    for other in traffic[1:]:
        inner += other.inner
        ports += other.ports
    return inner, ports


def _traffic(network: Network, ends: Ends, pattern: Pattern, policy: Policy | None) -> _Traffic:
    present = ends.nics != NONE
    nodes = ends.nics[present].astype(np.int64)
    if policy is not None and (pattern != "all" or len(ends.hosts) * len(nodes) <= _MOST_FLOWS):
        kind = ends.nics.astype(np.int64)
        flows = lane_flows(pattern, ends, kind)
        inner = _chosen_load(network, flows, ends, policy)
    else:
        small = contracted(network, nodes)
        kind = np.full(ends.nics.shape, NONE, dtype=np.int64)
        kind[present] = small.kind
        flows = lane_flows(pattern, ends, kind)
        inner = _spread_load(network, small, flows, ends)
    ports = np.zeros((2, len(network.nodes)))
    ports[0, nodes], ports[1, nodes] = flows.sends[present], flows.takes[present]
    return _Traffic(inner, ports)


_MOST_FLOWS = 1 << 21
"""More than these even out: they are spread as a fluid."""

_FLOWS_OF_A_PAIR = 2
"""Connections between two NICs: NCCL opens two channels a NIC on most machines, a queue pair each."""


def _chosen_load(network: Network, flows: LaneFlows, ends: Ends, policy: Policy) -> Floats:
    """Every flow on the cables that switches choose for it."""
    times = _FLOWS_OF_A_PAIR
    routes = route_pairs(
        network,
        np.repeat(flows.src, times).astype(np.int32),
        np.repeat(flows.dst, times).astype(np.int32),
        policy,
        labels=np.tile(np.arange(times), len(flows.src)),
    )
    if not routes.reached.all():
        raise _cut_in_two(network, ends)
    load = cable_load(network, routes, np.repeat(flows.amount / times, times))
    load[:, network.low >= network.switches] = 0.0
    return load


def _cut_in_two(network: Network, ends: Ends) -> UsageError:
    return UsageError(
        f"the network is cut in two between the {len(ends.hosts)} hosts of a group",
        where=f"fabric {network.name}",
        expected="links that are up between all ranks",
    )


def _spread_load(network: Network, small: Contracted, flows: LaneFlows, ends: Ends) -> Floats:
    """Flows spread by capacity; from one of a kind to another of it: from first node to second."""
    first = small.network.switches + 2 * flows.src
    second = small.network.switches + 2 * flows.dst + (flows.src == flows.dst)
    spread = fluid_load(small.network, first, second, flows.amount)
    if spread.lost > 1e-9 * flows.amount.sum():
        raise _cut_in_two(network, ends)
    within = np.flatnonzero(network.low < network.switches)
    load = np.zeros((2, len(network.low)))
    load[:, within] = spread.load[:, : len(within)]
    return load


def _fullness(network: Network, inner: Floats, ports: Floats) -> _Traffic:
    """Load over capacity of every cable and end point; 0 where no rate is known."""
    capacity = network.GBps * network.health
    at_ends = network.low >= network.switches
    rate = np.bincount(
        network.low[at_ends], weights=capacity[at_ends], minlength=len(network.nodes)
    ).astype(np.float64)
    return _Traffic(_over(inner, capacity), _over(ports, rate))


def _over(load: Floats, capacity: Floats) -> Floats:
    known = ~np.isnan(capacity) & (capacity > 0)
    return np.divide(load, capacity, out=np.zeros_like(load), where=known)


def _crossing(network: Network, mine: _Traffic, full: _Traffic) -> Crossing:
    alone = _fullness(network, mine.inner, mine.ports)
    by_nics = float(alone.ports.max())
    on_cables = np.where(mine.inner > 0, full.inner, 0.0)
    cables = float(on_cables.max(initial=0.0))
    shared = float(np.where(mine.ports > 0, full.ports, 0.0).max())
    most = max(cables, shared)
    if by_nics <= 0 or most <= by_nics * (1 + 1e-12):
        return UNHINDERED
    if shared >= cables:
        node = int(np.argmax(np.where(mine.ports > 0, full.ports, 0.0).max(axis=0)))
        return Crossing(by_nics / most, network.nodes[node], by_nics / most)
    cable = network.cable_name(int(np.argmax(on_cables.max(axis=0))))
    return Crossing(by_nics / most, cable, by_nics / most)
