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
from functools import partial
from typing import Literal, get_args

import numpy as np

from clusterlab.cost.flows.ends import ends_of
from clusterlab.cost.flows.patterns import Pattern
from clusterlab.cost.flows.traffic import Fullness, fullness
from clusterlab.cost.recall import recalled, recalled_groups
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.routing.network import Network, has_network, network_of
from clusterlab.topology.routing.policy import Pinned, Policy, StaticHash

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


def crossings(
    fabric: Fabric,
    groups: Sequence[Sequence[str]],
    pattern: Pattern,
    routing: Routing = "adaptive",
) -> tuple[Crossing, ...]:
    """Of each group of devices, in rank order, all talking by ``pattern`` at once. Kept by the fabric.

    Raises UsageError where the network is cut in two between them.
    """
    return recalled_groups(
        fabric,
        ("crossings", pattern, routing),
        groups,
        lambda those: _crossings(fabric, those, pattern, routing),
    )


def _crossings(
    fabric: Fabric, groups: Sequence[Sequence[str]], pattern: Pattern, routing: Routing
) -> tuple[Crossing, ...]:
    if not has_network(fabric):
        return (UNHINDERED,) * len(groups)
    network = network_of(fabric)
    every = [
        recalled(fabric, "ends", devices, partial(ends_of, fabric, network)) for devices in groups
    ]
    several = [g for g, ends in enumerate(every) if len(ends.hosts) > 1]
    found = [UNHINDERED] * len(groups)
    if several:
        full = fullness(network, [every[g] for g in several], pattern, _POLICIES[routing])
        for g, tried in zip(several, zip(*full, strict=True), strict=True):
            found[g] = _expected([_crossing(network, one) for one in tried])
    return tuple(found)


_POLICIES: dict[Routing, tuple[Policy, ...]] = {
    "adaptive": (),
    "hash": tuple(StaticHash(seed) for seed in range(8)),
    "pinned": (Pinned(),),
}
"""By a hash: eight of them, that the expected one and the worst may be told apart."""


def _expected(tried: Sequence[Crossing]) -> Crossing:
    """Of one group by each policy tried: the mean of the times, the cable that is worst."""
    worst = min(tried, key=lambda c: c.share)
    mean = float(np.mean([1 / c.share for c in tried]))
    return UNHINDERED if worst.cable is None else Crossing(1 / mean, worst.cable, worst.share)


def _crossing(network: Network, full: Fullness) -> Crossing:
    most = max(full.cables, full.nics)
    if full.alone <= 0 or most <= full.alone * (1 + 1e-12):
        return UNHINDERED
    share = full.alone / most
    by_nics = full.nics >= full.cables
    name = network.nodes[full.node] if by_nics else network.cable_name(full.cable)
    return Crossing(share, name, share)
