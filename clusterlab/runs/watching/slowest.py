"""Which rank is the slowest, while a sweep runs: from the raw times that every rank appends."""

from __future__ import annotations

import statistics
from collections import Counter
from pathlib import Path

from clusterlab.core.errors import ClusterlabError
from clusterlab.core.placement import Placement
from clusterlab.core.rows import Point
from clusterlab.core.stepping import StepLine
from clusterlab.records.samples import new_samples, samples_path
from clusterlab.report.console.watching import Slowest

MOST_RANKS = 64
"""Of more ranks not every look opens every file: rows say how far ranks are apart, ``report`` the rest."""

MOST_BYTES = 1 << 20
"""What was there before in one rank's file, above which only what comes from now on is read."""


class SlowestRank:
    """Reads what the ranks of the run in ``folder`` append to their samples."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ends: dict[int, int] = {}
        self._open: dict[tuple[int, Point], dict[int, float]] = {}
        self._slowest: Counter[int] = Counter()
        self._ratios: dict[int, list[float]] = {}

    def look(self, world_size: int, placement: Placement | None) -> Slowest | None:
        """By all points whose ranks have all said what they took."""
        if not 1 < world_size <= MOST_RANKS:
            return None
        for rank in range(world_size):
            self._read(rank, world_size)
        return slowest(self._slowest, self._ratios, placement)

    def _read(self, rank: int, world_size: int) -> None:
        path = samples_path(self._folder, rank)
        if rank not in self._ends:
            try:
                size = path.stat().st_size
            except OSError:  # not there yet, or nothing that may be looked into
                size = 0
            self._ends[rank] = size if size > MOST_BYTES else 0
        try:
            found, self._ends[rank] = new_samples(path, self._ends[rank])
        except ClusterlabError:  # samples are worth less than the run: `report` says what is wrong
            return
        for one in found:
            if not one.times_us:
                continue
            key = (one.attempt, one.point)
            took = self._open.setdefault(key, {})
            took[rank] = statistics.median(one.times_us)
            if len(took) == (len(one.point.ranks) if one.point.ranks else world_size):
                self._count(self._open.pop(key))

    def _count(self, took: dict[int, float]) -> None:
        if len(took) < 2:
            return
        last = max(took, key=lambda rank: took[rank])
        middle = statistics.median(took.values())
        self._slowest[last] += 1
        if middle > 0:
            self._ratios.setdefault(last, []).append(took[last] / middle)


def slowest(
    times: Counter[int], ratios: dict[int, list[float]], placement: Placement | None
) -> Slowest | None:
    """The rank that most ``times`` name."""
    if not times:
        return None
    rank, count = times.most_common(1)[0]
    known = ratios.get(rank)
    host = None
    if placement is not None and rank < placement.world_size:
        host = placement.ranks[rank].host
    return Slowest(rank, host, count, times.total(), statistics.median(known) if known else None)


def slowest_of_steps(steps: list[StepLine], placement: Placement | None) -> Slowest | None:
    """Of training steps, which say it themselves."""
    return slowest(Counter(step.slowest_rank for step in steps), {}, placement)
