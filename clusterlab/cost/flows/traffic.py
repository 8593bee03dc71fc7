"""The load that groups of hosts put on the network, and how full that makes what each of them uses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clusterlab.core.errors import UsageError
from clusterlab.cost.flows.contracted import contracted
from clusterlab.cost.flows.ends import NONE, Ends
from clusterlab.cost.flows.lanes import LaneFlows, lane_flows
from clusterlab.cost.flows.patterns import Pattern
from clusterlab.cost.flows.rates import carried, counted
from clusterlab.topology.routing.fluid_load import fluid_load
from clusterlab.topology.routing.load import cable_load
from clusterlab.topology.routing.network import Floats, Network
from clusterlab.topology.routing.options import Longs
from clusterlab.topology.routing.policy import Policy
from clusterlab.topology.routing.updown import Routes, route_pairs

_APART = 8
"""Groups up to which each is spread by itself, to know its own cables; of more all share the fullest one."""

MOST_FLOWS = 1 << 21
"""More flows than these even out: they are spread, whatever the policy."""

_FLOWS_OF_A_PAIR = 2
"""Connections between two NICs: NCCL opens two channels a NIC on most machines, a queue pair each."""


@dataclass(frozen=True, slots=True)
class Fullness:
    """Of one group, load over rate: of its NICs by its own traffic at the rate NCCL counts on (``alone``) and
    by all groups' at what they carry (``nics``, the fullest one's ``node``), and of the fullest cable between
    switches that it uses (number ``cable``).
    """

    alone: float
    nics: float
    node: int
    cables: float
    cable: int


def fullness(
    network: Network, every: Sequence[Ends], pattern: Pattern, policies: Sequence[Policy]
) -> list[tuple[Fullness, ...]]:
    """Of groups of several hosts each, all at once, by each policy; without one: spread by capacity over all
    equal ways. Raises UsageError where no way leads between hosts of a group.
    """
    nodes = np.unique(np.concatenate([ends.nics[ends.nics != NONE] for ends in every])).astype(
        np.int64
    )
    spread = not policies or (
        pattern == "all" and sum(len(e.hosts) * e.nics.size for e in every) > MOST_FLOWS
    )
    number = np.full(len(network.nodes) + 1, NONE, dtype=np.int64)
    if spread:
        small = contracted(network, nodes)
        number[nodes] = small.kind
    else:
        number[nodes] = nodes
    flows = [lane_flows(pattern, ends, number[ends.nics]) for ends in every]
    if spread:
        cables = [_spread(network, small.network, flows, every)]
    else:
        cables = [_chosen(network, flows, every, policy) for policy in policies]
    nics = _nics(network, every, flows)
    return [
        tuple(Fullness(*own, *inner) for own, inner in zip(nics, of_one, strict=True))
        for of_one in cables
    ]


def _nics(
    network: Network, every: Sequence[Ends], flows: Sequence[LaneFlows]
) -> list[tuple[float, float, int]]:
    rate, port = (_of_nodes(network, cables) for cables in (carried(network), counted(network)))
    total = np.zeros((2, len(network.nodes)))
    mine = []
    for group, flow in zip(every, flows, strict=True):
        present = group.nics != NONE
        at = group.nics[present]
        load = np.stack([flow.sends[present], flow.takes[present]])
        for way in (0, 1):
            np.add.at(total[way], at, load[way])
        mine.append((at, float(_over(load, port[at]).max(initial=0.0))))
    full = _over(total, rate).max(axis=0)
    found = []
    for at, alone in mine:
        node = int(at[np.argmax(full[at])])
        found.append((alone, float(full[node]), node))
    return found


def _of_nodes(network: Network, cables: Floats) -> Floats:
    """[nodes] the sum of each end point's own cables."""
    ends = network.low >= network.switches
    return np.bincount(
        network.low[ends], weights=cables[ends], minlength=len(network.nodes)
    ).astype(np.float64)


def _spread(
    network: Network, small: Network, flows: Sequence[LaneFlows], every: Sequence[Ends]
) -> list[tuple[float, int]]:
    """Fullest cable of each group when all equal ways are used by their capacity."""
    within = np.flatnonzero(network.low < network.switches)
    capacity = carried(network)[within]
    if len(flows) > _APART:
        load = _fluid(small, flows, every)[:, : len(within)]
        return [_fullest(_over(load, capacity).max(axis=0), within)] * len(flows)
    loads = [
        _fluid(small, [flow], [ends])[:, : len(within)]
        for flow, ends in zip(flows, every, strict=True)
    ]
    full = _over(np.sum(loads, axis=0), capacity)
    return [_fullest(np.where(load > 0, full, 0.0).max(axis=0), within) for load in loads]


def _fluid(small: Network, flows: Sequence[LaneFlows], every: Sequence[Ends]) -> Floats:
    """From one of a kind to another of it: from the kind's first node to its second."""
    src = np.concatenate([f.src for f in flows])
    dst = np.concatenate([f.dst for f in flows])
    amount = np.concatenate([f.amount for f in flows])
    spread = fluid_load(
        small, small.switches + 2 * src, small.switches + 2 * dst + (src == dst), amount
    )
    if spread.lost > 1e-9 * amount.sum():
        raise _cut_in_two(small, every)
    return spread.load


def _chosen(
    network: Network, flows: Sequence[LaneFlows], every: Sequence[Ends], policy: Policy
) -> list[tuple[float, int]]:
    """Fullest cable of each group when every flow keeps to the cables that switches choose for it."""
    times = _FLOWS_OF_A_PAIR
    src = np.repeat(np.concatenate([f.src for f in flows]), times)
    routes = route_pairs(
        network,
        src.astype(np.int32),
        np.repeat(np.concatenate([f.dst for f in flows]), times).astype(np.int32),
        policy,
        labels=np.tile(np.arange(times), len(src) // times),
    )
    if not routes.reached.all():
        raise _cut_in_two(network, every)
    load = cable_load(
        network, routes, np.repeat(np.concatenate([f.amount for f in flows]) / times, times)
    )
    full = _over(load, carried(network))
    full[:, network.low >= network.switches] = 0.0
    sizes = [len(f.src) * times for f in flows]
    return _fullest_on_paths(routes, full, np.repeat(np.arange(len(flows)), sizes), len(flows))


def _fullest_on_paths(
    routes: Routes, full: Floats, group: Longs, groups: int
) -> list[tuple[float, int]]:
    used = routes.cables >= 0
    on_path = np.where(used, full[routes.back.astype(np.int8), routes.cables], 0.0)
    step = on_path.argmax(axis=1)
    rows = np.arange(len(step))
    most, cable = on_path[rows, step], routes.cables[rows, step]
    found = []
    for g in range(groups):
        mine = np.flatnonzero(group == g)
        best = mine[np.argmax(most[mine])]
        found.append((float(most[best]), int(cable[best])))
    return found


def _fullest(full: Floats, within: NDArray[np.integer]) -> tuple[float, int]:
    if not len(full):
        return 0.0, NONE
    at = int(np.argmax(full))
    return float(full[at]), int(within[at])


def _over(load: Floats, capacity: Floats) -> Floats:
    """0 where no rate is known."""
    known = ~np.isnan(capacity) & (capacity > 0)
    return np.divide(load, capacity, out=np.zeros_like(load), where=known)


def _cut_in_two(network: Network, every: Sequence[Ends]) -> UsageError:
    hosts = max(len(ends.hosts) for ends in every)
    return UsageError(
        f"the network is cut in two between the {hosts} hosts of a group",
        where=f"fabric {network.name}",
        expected="links that are up between all ranks",
    )
