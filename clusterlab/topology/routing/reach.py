"""How far every switch is from every destination by up-down paths.

Destinations are the switches that end points hang on. Those with the same switches above them and none
below are alike to all others, so distances are kept per group of them: a 131,072-GPU fabric has 4,096
leaves, but a few dozen groups while it is whole.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clusterlab.topology.routing.network import Bools, Ints, Network

FAR = 64
"""Distance of what cannot be reached (a path has at most 6 cables)."""

_CELLS = 1 << 23
"""Cells worked on at a time: bounds memory."""

Bytes = NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class Reach:
    """Numbers of cables from a switch to a group of destinations; FAR where there is no way.

    ``group`` [switches]: the group a destination belongs to, -1 for other switches. ``down`` [switches,
    groups]: going down only. ``total``: going up first where that is needed; the least. ``any_up``:
    whether every cable up from there brings one nearer. above[above_start[g]:above_start[g + 1]] are the
    switches right above the destinations of group g. ``network`` is what they were made from.
    """

    group: Ints
    down: Bytes
    total: Bytes
    any_up: Bools
    above_start: NDArray[np.int64]
    above: Ints
    network: Network


def reach_of(network: Network) -> Reach:
    """Distances over the live cables of ``network``, kept in its memo."""
    known = network.memo.get("reach")
    if known is None:
        known = network.memo["reach"] = _reach(network)
    reach: Reach = known
    return reach


def _reach(network: Network) -> Reach:
    low, high = _joined(network)
    group, parts = _groups(network, low, high)
    down = np.full((network.switches, max(1, len(parts))), FAR, dtype=np.int8)
    for g, (destination, above) in enumerate(parts):
        if destination is not None:
            down[destination, g] = 0
        down[above, g] = 1
    tiers = sorted(set(network.tier[: network.switches].tolist()))
    for tier in tiers[1:]:
        _relax(down, high, low, network.tier[high] == tier)
    total, any_up = down.copy(), np.zeros(down.shape, dtype=bool)
    for tier in reversed(tiers[:-1]):
        _relax(total, low, high, network.tier[low] == tier, alike=any_up)
    sizes = [len(above) for _, above in parts]
    return Reach(
        group,
        down,
        total,
        any_up=any_up,
        above_start=np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
        above=np.concatenate([np.zeros(0, np.int32), *(above for _, above in parts)]),
        network=network,
    )


def _joined(network: Network) -> tuple[Ints, Ints]:
    """Pairs of switches with a live cable between them, each once, sorted by the lower."""
    between = network.live & ~network.level & (network.low < network.switches)
    pairs = np.unique(
        network.low[between].astype(np.int64) * network.switches + network.high[between]
    )
    return (pairs // network.switches).astype(np.int32), (pairs % network.switches).astype(np.int32)


def _groups(network: Network, low: Ints, high: Ints) -> tuple[Ints, list[tuple[int | None, Ints]]]:
    """(group of each switch; for each group its only switch or None, and the switches above)."""
    ends = network.live & (network.low >= network.switches)
    destinations = np.unique(network.high[ends])
    start = np.searchsorted(low, np.arange(network.switches + 1))
    has_below = np.zeros(network.switches, dtype=bool)
    has_below[high] = True
    group = np.full(network.switches, -1, dtype=np.int32)
    seen: dict[tuple[int | None, bytes], int] = {}
    parts: list[tuple[int | None, Ints]] = []
    for destination in destinations.tolist():
        above = high[start[destination] : start[destination + 1]]
        alone = destination if has_below[destination] else None
        g = seen.setdefault((alone, above.tobytes()), len(parts))
        if g == len(parts):
            parts.append((alone, above))
        group[destination] = g
    return group, parts


def _relax(
    distance: Bytes, of: Ints, via: Ints, chosen: Bools, *, alike: Bools | None = None
) -> None:
    """distance[of] = min(distance[of], 1 + distance[via]) over the chosen pairs.

    ``alike`` becomes True where all of them are equally near.
    """
    order = np.flatnonzero(chosen)
    order = order[np.argsort(of[order], kind="stable")]
    if not len(order):
        return
    rows, starts = np.unique(of[order], return_index=True)
    width = max(1, _CELLS // len(order))
    for at in range(0, distance.shape[1], width):
        block = distance[via[order], at : at + width]
        nearest = np.minimum.reduceat(block, starts, axis=0)
        if alike is not None:
            alike[rows, at : at + width] = nearest == np.maximum.reduceat(block, starts, axis=0)
        nearest = np.minimum(nearest + 1, FAR).astype(np.int8)
        distance[rows, at : at + width] = np.minimum(distance[rows, at : at + width], nearest)
