"""One point against its prediction's interval, and how many misses are more than chance.

Every threshold is the prediction's own interval. An interval that is known to hold for a share c of all
points must be left by about 1 - c of them, so misses accuse only when there are more of them than that
share makes plausible.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from clusterlab.core.findings import Verdict
from clusterlab.core.rows import Row

NO_PREDICTION = "no prediction"


@dataclass(frozen=True, slots=True)
class Judged:
    """What can be said of a point or of a group of points, and why."""

    verdict: Verdict
    reason: str


def judge_row(row: Row) -> Judged:
    """The verdict of one point: its loop time against the interval of its own prediction."""
    if row.wrong:
        return Judged(Verdict.INVALID, f"{row.wrong} wrong elements")
    low, high, time = row.predicted_low_us, row.predicted_high_us, row.time_us_loop
    why_not = _unjudgeable(row)
    if why_not or low is None or high is None:
        return Judged(Verdict.NO_VERDICT, why_not or "the prediction states no interval")
    span = f"{time:.4g} µs, expected {low:.4g} to {high:.4g} µs"
    if low <= time <= high:
        return Judged(Verdict.PASS, span)
    return Judged(Verdict.FAST_UNEXPECTED if time < low else Verdict.SLOW, span)


def miss_share(row: Row) -> float:
    """The share of points that leaves such an interval when the model is right. An interval that
    states no coverage claims to hold always.
    """
    coverage = 1.0 if row.predicted_coverage is None else row.predicted_coverage
    return min(1.0, max(0.0, 1.0 - coverage))


def _unjudgeable(row: Row) -> str | None:
    if not 0 < row.time_us_loop < math.inf:
        return "no time was measured"
    return NO_PREDICTION if row.predicted_time_us is None else None


def too_many_outside(outside: int, miss_shares: Sequence[float], significance: float) -> bool:
    """Whether ``outside`` points beyond one side of their intervals are more than chance explains.

    ``miss_shares``: for every judged point, the share of such points that lies outside. The number
    outside is then at most Binomial(n, mean share) distributed in its upper tail (Hoeffding 1956,
    Ann. Math. Stat. 27:713), also when all misses fall on one side.
    """
    if outside == 0:
        return False
    share = statistics.fmean(miss_shares)
    return outside > share * len(miss_shares) and (
        _binomial_tail(outside, len(miss_shares), share) < significance
    )


def _binomial_tail(k: int, n: int, p: float) -> float:
    """P(X >= k) for X ~ Binomial(n, p)."""
    if p <= 0.0 or p >= 1.0:
        return float(p >= 1.0 or k <= 0)
    log_p, log_q = math.log(p), math.log1p(-p)
    return math.fsum(
        math.exp(
            math.lgamma(n + 1)
            - math.lgamma(i + 1)
            - math.lgamma(n - i + 1)
            + i * log_p
            + (n - i) * log_q
        )
        for i in range(k, n + 1)
    )
