"""Which live cables a switch may choose among: upward, down to the last switch, and into it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from clusterlab.topology.routing.network import Ints, Network
from clusterlab.topology.routing.reach import Reach

Longs = NDArray[np.int64]

_CELLS = 1 << 21
"""Cells worked on at a time: bounds memory."""


@dataclass(frozen=True, eq=False)
class Options:
    """For each row that was asked: cables[start[row]:start[row + 1]], in order of cable numbers."""

    start: Longs
    cables: Ints

    @property
    def count(self) -> Longs:
        """How many each row has."""
        return np.diff(self.start)


def keyed(first: Ints, second: Ints, seconds: int) -> tuple[Ints, Ints, Longs]:
    """The different (first, second) pairs, seconds below ``seconds``, and which of them each one is."""
    key = first.astype(np.int64) * seconds + second
    size = int(key.max(initial=-1)) + 1
    if size > 4 * _CELLS:
        every, row = np.unique(key, return_inverse=True)
    else:  # a table of all keys instead of a sort
        seen = np.zeros(size, dtype=bool)
        seen[key] = True
        every = np.flatnonzero(seen)
        place = np.zeros(size, dtype=np.int64)
        place[every] = np.arange(len(every))
        row = place[key]
    return (every // seconds).astype(np.int32), (every % seconds).astype(np.int32), row


def all_up(network: Network) -> Options:
    """The live cables up of every switch; the row is the switch. Kept in the network's memo."""
    known = network.memo.get("all_up")
    if known is None:
        live = np.flatnonzero(
            network.live & ~network.level & (network.low < network.switches)
        ).astype(np.int32)
        start = np.searchsorted(network.low[live], np.arange(network.switches + 1))
        known = network.memo["all_up"] = Options(start.astype(np.int64), live)
    options: Options = known
    return options


def up(network: Network, reach: Reach, switch: Ints, group: Ints) -> Options:
    """Cables up that bring one nearer to ``group`` [rows] from ``switch`` [rows]."""
    every = all_up(network)
    degree = every.count[switch]
    counts, found = [np.zeros(1, dtype=np.int64)], [np.zeros(0, dtype=np.int32)]
    for part in _parts(degree):
        row, place = expanded(degree[part])
        mine = every.cables[every.start[switch[part]][row] + place]
        end, towards = network.high[mine], group[part][row]
        nearer = reach.total[end, towards] + 1 == reach.total[switch[part][row], towards]
        found.append(mine[nearer])
        counts.append(np.bincount(row[nearer], minlength=part.stop - part.start))
    return Options(np.cumsum(np.concatenate(counts)), np.concatenate(found))


def down(network: Network, reach: Reach, switch: Ints, group: Ints) -> Options:
    """Cables down from ``switch`` [rows] to the switches right above the destinations of ``group``.

    Between a switch and a destination two below it there is exactly one tier: those switches.
    """
    degree = np.diff(reach.above_start)[group]
    row, place = expanded(degree)
    middle = reach.above[reach.above_start[group][row] + place]
    pairs = between(network, middle, switch[row])
    counts = np.bincount(row, weights=pairs.count, minlength=len(switch)).astype(np.int64)
    return Options(_ends(counts), pairs.cables)


def between(network: Network, lower: Ints, upper: Ints) -> Options:
    """The live cables between ``lower`` and ``upper`` [rows]."""
    live, keys = _live_pairs(network)
    asked = lower.astype(np.int64) * len(network.nodes) + upper
    begin = np.searchsorted(keys, asked, side="left")
    count = np.searchsorted(keys, asked, side="right") - begin
    row, place = expanded(count)
    return Options(_ends(count), live[begin[row] + place])


def _live_pairs(network: Network) -> tuple[Ints, Longs]:
    """Live cables between switches and their (low, high) as one sorted number."""
    known = network.memo.get("live_pairs")
    if known is None:
        live = all_up(network).cables
        key = network.low[live].astype(np.int64) * len(network.nodes) + network.high[live]
        known = network.memo["live_pairs"] = (live, key)
    pairs: tuple[Ints, Longs] = known
    return pairs


def _ends(counts: Longs) -> Longs:
    return np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(counts)))


def expanded(counts: Longs) -> tuple[Longs, Longs]:
    """(row, place within it) of every cell of rows with so many cells."""
    row = np.repeat(np.arange(len(counts)), counts)
    return row, np.arange(len(row)) - (np.cumsum(counts) - counts)[row]


def _parts(degree: Longs) -> list[slice]:
    """Cut the rows so that each part expands to about _CELLS cells."""
    ends = np.cumsum(degree)
    if not len(ends):
        return []
    marks = np.searchsorted(ends, np.arange(_CELLS, int(ends[-1]), _CELLS)) + 1
    edges = sorted({0, *marks.tolist(), len(degree)})
    return [slice(a, b) for a, b in pairwise(edges)]
