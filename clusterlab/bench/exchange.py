"""What the groups of a step tell each other between two passes: of every group its slowest rank's figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from clusterlab.bench.common_clock import CommonClock
from clusterlab.bench.control import Control
from clusterlab.bench.statistics import Summary, median, summarise
from clusterlab.bench.timing import Samples


@dataclass(frozen=True, slots=True)
class GroupSamples:
    """Iteration by iteration of one group, in µs: its slowest rank, its fastest, last arrival less first.

    ``unsure_us``: by how much an arrival may be wrong, for ranks on several hosts.
    """

    slowest_us: list[float]
    fastest_us: list[float]
    arrival_us: list[float]
    unsure_us: float = 0.0

    def summary(self) -> Summary:
        """The slowest rank's times in short."""
        return summarise(self.slowest_us)

    @property
    def rank_skew_us(self) -> float:
        """Median over iterations of the slowest rank's time less the fastest's."""
        pairs = zip(self.slowest_us, self.fastest_us, strict=True)
        return median([slow - fast for slow, fast in pairs])

    @property
    def arrival_skew_us(self) -> float | None:
        """Median over iterations of the last rank's call less the first's; None where the clocks of its
        hosts are not known well enough to see it.
        """
        skew_us = median(self.arrival_us)
        return skew_us if skew_us >= self.unsure_us else None

    def extended(self, more: GroupSamples) -> GroupSamples:
        """These iterations and then ``more``."""
        return GroupSamples(
            self.slowest_us + more.slowest_us,
            self.fastest_us + more.fastest_us,
            self.arrival_us + more.arrival_us,
            max(self.unsure_us, more.unsure_us),
        )


NOTHING = GroupSamples([], [], [])


@dataclass(frozen=True, slots=True)
class Exchange:
    """Exchanges of a step of ``groups`` points; this rank is in the one called ``slot``, or waits (None).

    All ranks make the same calls, those that wait too, and all learn the same.
    """

    control: Control
    clock: CommonClock
    groups: int
    slot: int | None

    def slowest(self, value: float, *, counts: bool = True) -> list[float]:
        """Of every group the largest value of the ranks whose clock ``counts``."""
        return [row[0] for row in self._largest([value] if counts else None, 1)]

    def samples(
        self, mine: Samples | None, iterations: int, spent_s: float, *, counts: bool = True
    ) -> tuple[list[GroupSamples], float]:
        """Every group's iterations, and the longest time that any rank spent on them."""
        values = None
        if mine is not None:
            times, begun = mine.times_us, [self.clock.common(t) for t in mine.begun_us]
            host = float(self.clock.host)
            unclocked = [-math.inf] * (2 * iterations)
            clocked = [*times, *(-t for t in times)] if counts else unclocked
            values = [*clocked, *begun, *(-t for t in begun)]
            values += [host, -host, self.clock.unsure_us, spent_s]
        told = self._largest(values, 4 * iterations + 4)
        return [_group_samples(row, iterations) for row in told], max(row[-1] for row in told)

    def _largest(self, mine: Sequence[float] | None, width: int) -> list[list[float]]:
        rows = [-math.inf] * (width * self.groups)
        if mine is not None and self.slot is not None:
            rows[self.slot * width : (self.slot + 1) * width] = mine
        told = self.control.largest(rows)
        return [told[i * width : (i + 1) * width] for i in range(self.groups)]


def _group_samples(row: Sequence[float], n: int) -> GroupSamples:
    last, first = row[2 * n : 3 * n], row[3 * n : 4 * n]
    highest, lowest, unsure_us = row[4 * n : 4 * n + 3]
    one_host = highest == -lowest
    return GroupSamples(
        list(row[:n]),
        [-value for value in row[n : 2 * n]],
        [a + b for a, b in zip(last, first, strict=True)],  # first is negative
        0.0 if one_host else 2 * unsure_us,
    )
