"""How far every switch is from every destination by up-down paths, and which cables go on.

Destinations are the switches that end points hang on. Those with the same switches above them and none
below are alike to all others, so distances are kept per group of them: a 131,072-GPU fabric has 4,096
leaves, but a few dozen groups while it is whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

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
    groups]: going down only. ``total``: going up first where that is needed; the least.
    """

    group: Ints
    down: Bytes
    total: Bytes


def reach_of(network: Network) -> Reach:
    """Distances over the live cables of ``network``, kept in its memo."""
    known = network.memo.get("reach")
    if known is None:
        known = network.memo["reach"] = _reach(network)
    reach: Reach = known
    return reach


def _reach(network: Network) -> Reach:
    low, high = _joined(network)
    group, groups, first_above = _groups(network, low, high)
    down = np.full((network.switches, max(1, groups)), FAR, dtype=np.int8)
    for g, (destination, above) in enumerate(first_above):
        if destination is not None:
            down[destination, g] = 0
        down[above, g] = 1
    tiers = sorted(set(network.tier[: network.switches].tolist()))
    for tier in tiers[1:]:
        _relax(down, high, low, network.tier[high] == tier)
    total = down.copy()
    for tier in reversed(tiers[:-1]):
        _relax(total, low, high, network.tier[low] == tier)
    return Reach(group, down, total)


def _joined(network: Network) -> tuple[Ints, Ints]:
    """Pairs of switches with a live cable between them, each once, sorted by the lower."""
    between = network.live & (network.low < network.switches)
    pairs = np.unique(
        network.low[between].astype(np.int64) * network.switches + network.high[between]
    )
    return (pairs // network.switches).astype(np.int32), (pairs % network.switches).astype(np.int32)


def _groups(
    network: Network, low: Ints, high: Ints
) -> tuple[Ints, int, list[tuple[int | None, Ints]]]:
    """(group of each switch, how many, for each: its only switch or None, and the switches above)."""
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
    return group, len(parts), parts


def _relax(distance: Bytes, of: Ints, via: Ints, chosen: Bools) -> None:
    """distance[of] = min(distance[of], 1 + distance[via]) over the chosen pairs."""
    order = np.flatnonzero(chosen)
    order = order[np.argsort(of[order], kind="stable")]
    if not len(order):
        return
    rows, starts = np.unique(of[order], return_index=True)
    width = max(1, _CELLS // len(order))
    for at in range(0, distance.shape[1], width):
        block = distance[via[order], at : at + width]
        nearest = np.minimum.reduceat(block, starts, axis=0)
        nearest = np.minimum(nearest + 1, FAR).astype(np.int8)
        distance[rows, at : at + width] = np.minimum(distance[rows, at : at + width], nearest)


@dataclass(frozen=True, eq=False)
class Candidates:
    """For each asked (switch, group): the live cables that go on, cables[start[i]:start[i+1]]."""

    start: NDArray[np.int64]
    cables: Ints

    @property
    def count(self) -> NDArray[np.int64]:
        """How many each has."""
        return np.diff(self.start)


def candidates(
    network: Network, reach: Reach, switch: Ints, group: Ints, *, upward: bool
) -> Candidates:
    """Cables of ``network`` that bring one nearer by ``reach``: upward, or downward (never to the last).

    The two may differ: tables of before a failure, cables of after it.
    """
    start, cables = network.up if upward else network.down
    far_end = network.high if upward else network.low
    table = reach.total if upward else reach.down
    degree = (start[switch + 1] - start[switch]).astype(np.int64)
    counts = [np.zeros(1, dtype=np.int64)]
    found = [np.zeros(0, dtype=np.int32)]
    for part in _parts(degree):
        rows = np.repeat(np.arange(part.start, part.stop), degree[part])
        before = np.concatenate(([0], np.cumsum(degree[part])[:-1]))
        offset = np.repeat(start[switch[part]] - before, degree[part])
        mine = cables[np.arange(len(rows)) + offset]
        end = far_end[mine]
        good = network.live[mine] & (end < network.switches)
        rows, mine, end = rows[good], mine[good], end[good]
        nearer = table[end, group[rows]] + 1 == table[switch[rows], group[rows]]
        found.append(mine[nearer])
        counts.append(np.bincount(rows[nearer] - part.start, minlength=part.stop - part.start))
    return Candidates(np.cumsum(np.concatenate(counts)), np.concatenate(found))


def _parts(degree: NDArray[np.int64]) -> list[slice]:
    """Cut the rows so that each part expands to about _CELLS / 4 cells."""
    ends = np.cumsum(degree)
    if not len(ends):
        return []
    marks = np.searchsorted(ends, np.arange(_CELLS // 4, int(ends[-1]), _CELLS // 4)) + 1
    edges = sorted({0, *marks.tolist(), len(degree)})
    return [slice(a, b) for a, b in pairwise(edges)]


def keyed(switch: Ints, group: Ints, groups: int) -> tuple[Ints, Ints, NDArray[np.int64]]:
    """The different (switch, group) pairs and, for each asked one, which of them it is."""
    key = switch.astype(np.int64) * groups + group
    size = int(key.max(initial=-1)) + 1
    if size > _CELLS:
        every, row = np.unique(key, return_inverse=True)
    else:  # a table of all keys instead of a sort
        seen = np.zeros(size, dtype=bool)
        seen[key] = True
        every = np.flatnonzero(seen)
        place = np.zeros(size, dtype=np.int64)
        place[every] = np.arange(len(every))
        row = place[key]
    return (every // groups).astype(np.int32), (every % groups).astype(np.int32), row
