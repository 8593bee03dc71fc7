"""One point against its prediction's interval, and how many misses are more than chance.

Every threshold is the prediction's own interval. An interval that is known to hold for a share c of all
points must be left by about 1 - c of them, so misses accuse only when there are more of them than that
share makes plausible. A point whose own time is known too little to say on which side of the interval's end
it lies has no verdict, nor has one for which the interval was not made.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from clusterlab.core.findings import Verdict
from clusterlab.core.rows import Row
from clusterlab.verdict.steady import FEW, WITH_INTERVAL, scattered

NO_PREDICTION = "no prediction"


class Why(StrEnum):
    """Why a point or a run has no verdict."""

    NO_TIME = "no_time"
    NO_PREDICTION = "no_prediction"
    NO_INTERVAL = "no_interval"
    DOUBTED = "prediction_does_not_hold_here"  # outside the calibration, ranks elsewhere
    FEW_ITERATIONS = "too_few_iterations"
    NOISE = "noise"
    TOO_FEW_POINTS = "too_few_points"
    MISSING = "rows_missing"
    DAMAGED = "rows_contradict"  # twice in one attempt, several schemas
    NOTHING = "nothing_measured"


@dataclass(frozen=True, slots=True)
class Judged:
    """What can be said of a point or of a group, and why; ``why`` classes it where that is nothing."""

    verdict: Verdict
    reason: str
    why: Why | None = None

    @property
    def unsure(self) -> bool:
        """Whether another measurement may tell."""
        return self.why in {Why.FEW_ITERATIONS, Why.NOISE}


def judge_row(row: Row) -> Judged:
    """The verdict of one point: its loop time against the interval of its own prediction."""
    if row.wrong:
        return Judged(Verdict.INVALID, f"{row.wrong} wrong elements")
    low, high, time = row.predicted_low_us, row.predicted_high_us, row.time_us_loop
    unfit = _unjudgeable(row)
    if unfit is not None:
        return unfit
    if low is None or high is None:
        return _nothing("the prediction states no interval", Why.NO_INTERVAL)
    span = f"{time:.4g} µs, expected {low:.4g} to {high:.4g} µs"
    unsure = _unsure(row, low, high)
    if unsure is not None:
        return unsure
    if low <= time <= high:
        return Judged(Verdict.PASS, span)
    return Judged(Verdict.FAST_UNEXPECTED if time < low else Verdict.SLOW, span)


def _unsure(row: Row, low: float, high: float) -> Judged | None:
    """Why a time is known too little for the interval ``low`` to ``high``; None where it is known enough.

    The loop's time is taken to be as uncertain as the median: by the 95 % interval of that.
    """
    time, few = row.time_us_loop, row.samples is not None and row.samples < FEW
    why = Why.FEW_ITERATIONS if few else Why.NOISE
    word = f"too few iterations ({row.samples})" if few else "noise"
    if row.p50_low_us is None or row.p50_high_us is None:
        if row.samples is not None and 0 < row.samples < WITH_INTERVAL:
            return _nothing(f"{word}: their median has no interval", why)
        return None
    if row.time_us_p50 <= 0:
        return None
    least, most = (time * end / row.time_us_p50 for end in (row.p50_low_us, row.p50_high_us))
    expected = f"expected {low:.4g} to {high:.4g} µs"
    apart = most < low or least > high
    across = not (low <= time <= high)
    if not apart and (across or most - least > high - low):
        return _nothing(f"{word}: {least:.4g} to {most:.4g} µs, {expected}", why)
    if across and scattered(row) and low <= row.time_us_p50 <= high:
        return _nothing(
            f"noise: {row.outliers} of {row.samples} iterations stand out, their median "
            f"{row.time_us_p50:.4g} µs is inside; {expected}",
            Why.NOISE,
        )
    return None


def _nothing(reason: str, why: Why) -> Judged:
    return Judged(Verdict.NO_VERDICT, reason, why)


def judge_rows(rows: Iterable[Row]) -> dict[int, Judged]:
    """What can be said of each row, by the row's identity (``id``): they are many, and asked for often."""
    return {id(row): judge_row(row) for row in rows}


def miss_share(row: Row) -> float:
    """The share of points that leaves such an interval when the model is right. An interval that
    states no coverage claims to hold always.
    """
    coverage = 1.0 if row.predicted_coverage is None else row.predicted_coverage
    return min(1.0, max(0.0, 1.0 - coverage))


def _unjudgeable(row: Row) -> Judged | None:
    if not 0 < row.time_us_loop < math.inf:
        return _nothing("no time was measured", Why.NO_TIME)
    if row.predicted_time_us is None:
        return _nothing(NO_PREDICTION, Why.NO_PREDICTION)
    if row.predicted_doubt is not None:
        return _nothing(f"the prediction may not hold here: {row.predicted_doubt}", Why.DOUBTED)
    return None


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
