"""What a sample of times says: quantiles, how well its median is known, what stands out of it. Pure.

Plain Python: samples have tens to thousands of times, and numpy is not loaded for them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from clusterlab.bench.correlation import effective_size, widened

CONFIDENCE = 0.95
"""With which ``median_interval`` holds the median."""

FAR = 3.5
_NORMAL = 1.4826
_LEAST_SCALE = 0.005
"""See ``outliers``."""


@dataclass(frozen=True, slots=True)
class Summary:
    """One sample of times, in µs. ``cv``: standard deviation over mean.

    ``low_us`` to ``high_us`` hold the median of whatever the times are drawn from with 95 %, counting times
    that follow each other as no more independent than they are (see ``correlation``); None for fewer than
    six times, which cannot say so. ``outliers`` are in all of the other figures.
    """

    p50_us: float
    min_us: float
    max_us: float
    p95_us: float
    p99_us: float
    cv: float
    low_us: float | None
    high_us: float | None
    outliers: int

    def within(self, share: float) -> bool:
        """Whether the median's interval is no wider than ``share`` of the median."""
        if self.low_us is None or self.high_us is None:
            return False
        return self.high_us - self.low_us <= share * self.p50_us


def summarise(samples_us: Sequence[float]) -> Summary:
    """The Summary of at least one time, in the order they were taken. ``cv`` divides by n - 1 and is 0 for a
    single time.
    """
    times = sorted(samples_us)
    mean = math.fsum(times) / len(times)
    spread = 0.0
    if len(times) > 1:
        spread = math.sqrt(math.fsum((t - mean) ** 2 for t in times) / (len(times) - 1))
    p50_us = quantile(times, 0.5)
    place = _place(samples_us, p50_us)
    return Summary(
        p50_us=p50_us,
        min_us=times[0],
        max_us=times[-1],
        p95_us=quantile(times, 0.95),
        p99_us=quantile(times, 0.99),
        cv=spread / mean if mean > 0 else 0.0,
        low_us=None if place is None else times[place[0]],
        high_us=None if place is None else times[place[1]],
        outliers=outliers(times),
    )


def _place(samples_us: Sequence[float], p50_us: float) -> tuple[int, int] | None:
    """Where the median's interval ends, among the times in ascending order."""
    n = len(samples_us)
    if median_interval(n) is None:
        return None
    effective = math.floor(effective_size(samples_us, p50_us))
    place = median_interval(effective)
    return (0, n - 1) if place is None else widened(place, effective, n)


def quantile(ordered: Sequence[float], share: float) -> float:
    """The ``share`` quantile (0 to 1) of ascending values, linear between neighbours (numpy's default)."""
    at = share * (len(ordered) - 1)
    below = math.floor(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (at - below)


def median(values: Sequence[float]) -> float:
    """The median of at least one value."""
    return quantile(sorted(values), 0.5)


@lru_cache(maxsize=256)
def median_interval(n: int) -> tuple[int, int] | None:
    """Places (from 0, in ascending order) of the times between which the median lies with CONFIDENCE.

    The narrowest that is symmetric. Of n independent times, the number below the median is binomial(n, ½),
    whatever the distribution: the k-th smallest and the k-th largest hold the median between them with
    P(k ≤ B ≤ n - k). (David and Nagaraja, Order Statistics, 3rd edition, section 7.1; Hoefler and Belli,
    Scientific Benchmarking of Parallel Computing Systems, SC 2015, rule 5.) None where even the whole
    sample does not: fewer than six times.
    """
    # from the centre out, so that no term underflows: exact to rounding for every n
    k = n // 2
    term = math.exp(
        math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) - n * math.log(2)
    )
    holds = term if n % 2 == 0 else 2 * term
    while holds < CONFIDENCE and k > 0:
        term *= k / (n - k + 1)
        k -= 1
        holds += 2 * term
    return (k - 1, n - k) if k > 0 else None


def outliers(ordered: Sequence[float]) -> int:
    """How many ascending times lie FAR scales or more from their median.

    The scale is 1.4826 times the median absolute deviation, which is the standard deviation of a normal
    sample, and 3.5 of it the usual limit (Iglewicz and Hoaglin, How to Detect and Handle Outliers, 1993).
    It is half a percent of the median at least: times that agree so well have a deviation of one tick of
    the clock, or of none.
    """
    centre = quantile(ordered, 0.5)
    scale = max(
        _NORMAL * median([abs(time - centre) for time in ordered]), _LEAST_SCALE * abs(centre)
    )
    return sum(abs(time - centre) > FAR * scale for time in ordered)
