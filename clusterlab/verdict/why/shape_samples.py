"""Two modes in the times of one size, and in repeated rows of many. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import fmean, median

from clusterlab.verdict.why.shape_curve import is_time

LEAST_SAMPLES = 10
LEAST_RATIO = 1.1
LEAST_SHARE = 0.15
"""Fewer samples than this in the smaller mode are stragglers, no mode."""

_APART, _APART_OF_FEW = 4.0, 60.0
"""Least distance of two modes over the spread within them (Ashman, Bird and Zepf, Astron. J. 108 (1994)
2348, call 2 clearly separated); of n samples 60/n more. What the best split of one flat mode, which is the
hardest, exceeds once in 1,000: 11.8 of 10 samples, 7.0 of 20, 5.5 of 40, 4.4 of 100."""


@dataclass(frozen=True, slots=True)
class Modes:
    """Two levels (µs), and the share of the samples at the slower one."""

    fast_us: float
    slow_us: float
    slow_share: float

    @property
    def ratio(self) -> float:
        """Slower over faster level."""
        return self.slow_us / self.fast_us


def modes_of(times_us: Sequence[float | None]) -> Modes | None:
    """The two modes of one size's samples; None where they have one. What is no time is left out."""
    logs = sorted(math.log(t) for t in times_us if is_time(t))
    n = len(logs)
    least = max(3, math.ceil(LEAST_SHARE * n))
    if n < LEAST_SAMPLES or n < 2 * least:
        return None
    cut = _best_cut(logs, least)
    low, high = logs[:cut], logs[cut:]
    fast, slow = fmean(low), fmean(high)
    within = math.sqrt((_variance(low, fast) + _variance(high, slow)) / 2)
    if slow - fast < max(math.log(LEAST_RATIO), (_APART + _APART_OF_FEW / n) * within):
        return None
    return Modes(math.exp(median(low)), math.exp(median(high)), len(high) / n)


def _best_cut(logs: Sequence[float], least: int) -> int:
    """Where a cut leaves the least variance within both parts (Otsu, 1979), each at least so long."""
    sums = [0.0, *accumulate(logs)]
    n = len(logs)

    def between(cut: int) -> float:
        low, high = sums[cut] / cut, (sums[n] - sums[cut]) / (n - cut)
        return cut * (n - cut) * (high - low) ** 2

    return max(range(least, n - least + 1), key=between)


def _variance(values: Sequence[float], mean: float) -> float:
    return sum((v - mean) ** 2 for v in values) / (len(values) - 1)
