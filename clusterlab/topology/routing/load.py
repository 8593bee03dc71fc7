"""What many flows put on every cable, and how unevenly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clusterlab.topology.routing.network import Floats, Ints, Network
from clusterlab.topology.routing.policy import expected_collisions
from clusterlab.topology.routing.updown import Routes

TIER_NAMES = ("end point", "leaf", "spine", "core")


def cable_load(network: Network, routes: Routes, rate: Floats | None = None) -> Floats:
    """[2, cables] what crosses each cable up (row 0) and down (row 1): flows, or the sum of their rates.

    ``rate`` [pairs] in any unit (GB/s). Pairs that were not reached load nothing.
    """
    width = routes.cables.shape[1]
    used = routes.cables >= 0
    each = None if rate is None else np.repeat(np.asarray(rate, dtype=np.float64), width)
    slot = np.where(used, routes.cables.astype(np.int64) + routes.back * len(network.low), -1)
    flat = slot.ravel()
    kept = flat >= 0
    load = np.bincount(
        flat[kept],
        weights=None if each is None else each[kept],
        minlength=2 * len(network.low),
    )
    return load.astype(np.float64).reshape(2, len(network.low))


@dataclass(frozen=True, slots=True)
class TierLoad:
    """Cables between two tiers in one direction. ``between``: ``leaf-spine up``, ``leaf-leaf one way``.

    ``mean`` is over live cables, ``worst`` the fullest one (``cable``), both in the load's unit;
    ``worst_share`` is its load over the capacity left (None: rate unknown, or the load is in flows).
    """

    between: str
    cables: int
    mean: float
    worst: float
    cable: str
    worst_share: float | None

    @property
    def imbalance(self) -> float:
        """Worst over mean: 1 when all cables carry the same; 0 when nothing flows."""
        return self.worst / self.mean if self.mean else 0.0


def load_by_tier(network: Network, load: Floats, *, in_GBps: bool) -> tuple[TierLoad, ...]:
    """The load of ``cable_load`` or ``fluid_load``, tier by tier, up before down. Empty tiers left out."""
    found = []
    tiers = network.tier[network.low].astype(np.int64) * 4 + network.tier[network.high]
    for pair in np.unique(tiers[network.live]).tolist():
        mine = np.flatnonzero(network.live & (tiers == pair))
        level = pair // 4 == pair % 4
        for way, name in enumerate(("one way", "other way") if level else ("up", "down")):
            worst = mine[np.argmax(load[way, mine])]
            capacity = network.GBps[worst] * network.health[worst]
            share = load[way, worst] / capacity if in_GBps and not np.isnan(capacity) else None
            found.append(
                TierLoad(
                    between=f"{TIER_NAMES[pair // 4]}-{TIER_NAMES[pair % 4]} {name}",
                    cables=len(mine),
                    mean=float(load[way, mine].mean()),
                    worst=float(load[way, worst]),
                    cable=network.cable_name(int(worst)),
                    worst_share=None if share is None else float(share),
                )
            )
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Collisions:
    """Flows that share an uplink. ``shared``: flows beyond the first on a cable, ``worst`` the most on one.

    ``expected`` is what a uniform hash gives the same flows: the sum over switches of
    ``policy.expected_collisions`` (flows that go up there, its live uplinks).
    """

    flows: int
    shared: int
    expected: float
    worst: int


def collisions(network: Network, routes: Routes, tier: int = 1) -> Collisions:
    """Who shares an uplink of the switches of ``tier`` (1: leaf to spine)."""
    load = cable_load(network, routes)[0]
    uplinks = np.flatnonzero(
        network.live
        & ~network.level
        & (network.tier[network.low] == tier)
        & (network.low < network.switches)
    )
    flows = load[uplinks].astype(np.int64)
    at, of = np.unique(network.low[uplinks], return_inverse=True)
    going = np.bincount(of, weights=flows, minlength=len(at))
    cables = np.bincount(of, minlength=len(at))
    return Collisions(
        flows=int(flows.sum()),
        shared=int(np.maximum(flows - 1, 0).sum()),
        expected=sum(
            expected_collisions(int(f), int(c)) for f, c in zip(going, cables, strict=True)
        ),
        worst=int(flows.max(initial=0)),
    )


def demand(
    network: Network, src: NDArray[np.integer], dst: NDArray[np.integer], GBps: Floats | float
) -> tuple[Ints, Ints, Floats]:
    """The same pairs with their rates as arrays, pairs of one node with itself left out."""
    moving = src != dst
    rate = np.broadcast_to(np.asarray(GBps, dtype=np.float64), src.shape)[moving]
    return src[moving].astype(np.int32), dst[moving].astype(np.int32), rate
