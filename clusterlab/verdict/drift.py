"""What a series of passes says: does it drift, did it step, does it swing, and how well can that be known.

Three tests share one chance of a false alarm (FALSE_ALARM), a third each. An effect is reported when its
test rejects *and* it is at least ``tolerance`` of the median: on a quiet machine a drift of a thousandth
is certain and does not matter. Where nothing is found, the interval of the drift says whether the series
was long enough to have seen ``tolerance``. Pure; times in seconds and µs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterlab.core.findings import Verdict
from clusterlab.verdict.series import Step, Swing, Trend, blocks, step_of, swing_of, trend_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LEAST_PASSES = 30
"""Fewer say nothing of a drift."""

FALSE_ALARM = 0.03
"""The chance that a series which does not change is said to, over all three tests and all points of a run."""

TESTS = 3
TREND_BLOCKS = 300
SLOW_MADS = 5.0
"""A pass is slow from so many scales (1.4826 median absolute deviations) above the median on."""

MOST_MORE_HOURS = 24.0
"""More than so much longer is no advice."""

WINDOW = 20
"""Passes that are looked at together for the worst window."""


@dataclass(frozen=True, slots=True)
class Window:
    """The slowest stretch of WINDOW passes: when it began and ended (s), its median over the series'."""

    start_s: float
    end_s: float
    ratio: float


@dataclass(frozen=True, slots=True)
class Drift:
    """What one series says. Shares are of its median: ``drift`` over the whole series, ``per_hour``.

    ``low`` to ``high`` hold ``drift`` with 95 %. ``step`` and ``swing`` are there when found. ``verdict``:
    slow (found, for the worse), fast_unexpected (found, for the better), pass, or no_verdict (too short).
    """

    passes: int
    hours: float
    median_us: float
    cv: float
    drift: float
    low: float
    high: float
    per_hour: float
    per_hour_low: float
    per_hour_high: float
    trend_found: bool
    step: Step | None
    swing: Swing | None
    slow_share: float
    worst: Window
    verdict: Verdict
    reason: str


def analyse(
    times_s: Sequence[float],
    medians_us: Sequence[float],
    *,
    tolerance: float = 0.03,
    false_alarm: float = FALSE_ALARM,
) -> Drift:
    """What the passes that ended at ``times_s`` say with their medians; at least one, in order of time."""
    import numpy as np

    t, y = np.asarray(times_s, dtype=np.float64), np.asarray(medians_us, dtype=np.float64)
    middle = float(np.median(y))
    hours = float(t[-1] - t[0]) / 3600
    shares = y / middle - 1.0 if middle > 0 else np.zeros_like(y)
    trend, step, swing = _found(t, shares, false_alarm / TESTS)
    scale = 1.0 / hours if hours > 0 else 0.0
    trend_found = trend.rejects and abs(trend.total) >= tolerance
    step = step if step is not None and abs(step.size) >= tolerance else None
    swing = swing if swing is not None and swing.size >= tolerance else None
    verdict, reason = _verdict(
        len(y), hours, trend, trend_found, (step, swing), tolerance=tolerance
    )
    return Drift(
        passes=len(y),
        hours=hours,
        median_us=middle,
        cv=float(np.std(y) / np.mean(y)) if middle > 0 else 0.0,
        drift=trend.total,
        low=trend.low,
        high=trend.high,
        per_hour=trend.total * scale,
        per_hour_low=trend.low * scale,
        per_hour_high=trend.high * scale,
        trend_found=trend_found,
        step=step,
        swing=swing,
        slow_share=_slow_share(shares),
        worst=_worst_window(t, shares),
        verdict=verdict,
        reason=reason,
    )


_Jumps = tuple[Step | None, Swing | None]


def _found(
    t: NDArray[np.float64], shares: NDArray[np.float64], significance: float
) -> tuple[Trend, Step | None, Swing | None]:
    if len(shares) < LEAST_PASSES:
        return Trend(0.0, -math.inf, math.inf, False), None, None
    block_t, block_y = blocks(t, shares, TREND_BLOCKS)
    return (
        trend_of(block_t, block_y, significance),
        step_of(block_t, block_y, significance),
        swing_of(t, shares, significance),
    )


def _verdict(
    passes: int, hours: float, trend: Trend, trend_found: bool, jumps: _Jumps, *, tolerance: float
) -> tuple[Verdict, str]:
    if passes < LEAST_PASSES:
        return Verdict.NO_VERDICT, f"fewer than {LEAST_PASSES} passes cannot tell"
    step, swing = jumps
    said = []
    if trend_found:
        said.append(f"drifted by {_interval(trend)} over the run")
    if step is not None:
        said.append(f"stepped by {step.size:+.1%} after {_clock(step.at_s)}")
    if swing is not None:
        said.append(f"swings by {swing.size:.1%} about every {_clock(swing.period_s)}")
    worse = (trend_found and trend.total > 0) or (step is not None and step.size > 0) or swing
    if said:
        return (Verdict.SLOW if worse else Verdict.FAST_UNEXPECTED), "; ".join(said)
    half = (trend.high - trend.low) / 2
    if half > tolerance:
        known = f"a drift of {tolerance:.1%} could not be told: it is known to ±{half:.1%}"
        # An interval narrows with the root of the passes.
        more_hours = hours * ((half / tolerance) ** 2 - 1)
        if more_hours > MOST_MORE_HOURS:
            what = "it is too noisy here; a larger --tolerance or a quieter machine"
        else:
            what = f"about {_clock(3600 * more_hours)} more"
        return Verdict.NO_VERDICT, f"{known}; {what} would do"
    return Verdict.PASS, f"steady: drift {_interval(trend)} over the run"


def _interval(trend: Trend) -> str:
    return f"{trend.total:+.1%} ({trend.low:+.1%} to {trend.high:+.1%})"


def _clock(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.3g} s"
    minutes = seconds / 60
    return f"{minutes:.3g} min" if minutes < 120 else f"{minutes / 60:.3g} h"


def _slow_share(shares: NDArray[np.float64]) -> float:
    import numpy as np

    scale = 1.4826 * float(np.median(np.abs(shares)))
    return float(np.mean(shares > SLOW_MADS * max(scale, 0.001)))


def _worst_window(t: NDArray[np.float64], shares: NDArray[np.float64]) -> Window:
    import numpy as np

    width = min(WINDOW, len(shares))
    views = np.lib.stride_tricks.sliding_window_view(shares, width)
    at = int(np.argmax(np.median(views, axis=1)))
    return Window(float(t[at]), float(t[at + width - 1]), 1.0 + float(np.median(views[at])))


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Spearman's; None for fewer than ten pairs or where one of the two never changes."""
    import numpy as np
    from scipy.stats import rankdata

    if len(first) < 10 or len(set(first)) < 2 or len(set(second)) < 2:
        return None
    return float(np.corrcoef(rankdata(first), rankdata(second))[0, 1])
