"""Tests on one series: a trend, a step, a swing; each allows for noise that hangs together. Pure.

Real noise is not white: a slow pass is followed by another. So all tests first estimate how far the noise
hangs together and count that many fewer independent values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Values = NDArray[np.float64]

_STEP_EDGE = 0.1
"""A step is looked for between this share of the series from either end: so much is needed on both sides."""

_CORRELATED_FROM = 1.645


@dataclass(frozen=True, slots=True)
class Trend:
    """Change from the first to the last value, its 95 % interval, whether the test rejects "none"."""

    total: float
    low: float
    high: float
    rejects: bool


@dataclass(frozen=True, slots=True)
class Step:
    """``size``: the median after ``at_s`` (s from the first pass) less the median before."""

    at_s: float
    size: float


@dataclass(frozen=True, slots=True)
class Swing:
    """A wave of ``period_s``; ``size`` is from its fast to its slow side."""

    period_s: float
    size: float


def blocks(t: Values, y: Values, most: int) -> tuple[Values, Values]:
    """At most ``most`` means of equally many neighbours, outliers trimmed: a long series at a fixed cost."""
    import numpy as np
    from scipy.stats import trim_mean

    width = -(-len(y) // most)
    if width == 1:
        return t, y
    n = len(y) // width * width
    return t[:n].reshape(-1, width).mean(axis=1), np.asarray(
        trim_mean(y[:n].reshape(-1, width), 0.1, axis=1)
    )


def inflation(residual: Values) -> float:
    """How many values count as one (1: all are independent), from the residual's autocorrelation.

    The initial positive sequence of lags (Geyer, Practical Markov Chain Monte Carlo, 1992), begun only
    where the first lag is more than chance makes of white noise.
    """
    import numpy as np

    n = len(residual)
    ranked = _normal_scores(residual)
    total = float(ranked @ ranked)
    if n < 10 or total == 0:
        return 1.0
    factor = 1.0
    for lag in range(1, n // 4):
        r = float(ranked[:-lag] @ ranked[lag:]) / total
        if r <= (_CORRELATED_FROM / math.sqrt(n) if lag == 1 else 0.0):
            break
        factor += 2 * (1 - lag / n) * r
    return float(np.clip(factor, 1.0, n / 4))


def trend_of(t: Values, y: Values, significance: float) -> Trend:
    """Theil and Sen's slope over the whole of ``t``; Kendall's test, and Sen's interval with 95 %.

    Sen, JASA 63 (1968) 1379; the variance grows by ``inflation`` of the residuals, as in Hamed and Rao,
    J. Hydrology 204 (1998) 182.
    """
    import numpy as np

    n, span = len(y), float(t[-1] - t[0])
    first, second = np.triu_indices(n, 1)
    gaps = t[second] - t[first]
    slopes = np.sort((y[second] - y[first])[gaps > 0] / gaps[gaps > 0])
    if not len(slopes):
        return Trend(0.0, -math.inf, math.inf, False)
    slope = float(np.median(slopes))
    spread = math.sqrt(n * (n - 1) * (2 * n + 5) / 18 * inflation(y - slope * (t - t[0])))
    score = float(np.sign(y[second] - y[first]).sum())
    z = max(0.0, abs(score) - 1) / spread
    half = NormalDist().inv_cdf(0.975) * spread / 2
    low = float(slopes[max(0, math.floor(len(slopes) / 2 - half))])
    high = float(slopes[min(len(slopes) - 1, math.ceil(len(slopes) / 2 + half))])
    return Trend(
        slope * span, low * span, high * span, z > NormalDist().inv_cdf(1 - significance / 2)
    )


def step_of(t: Values, y: Values, significance: float) -> Step | None:
    """The one place where ranks before and after differ most, when chance does not explain it.

    Pettitt's statistic (Applied Statistics 28 (1979) 126) over the inner part of the series, against the
    largest of a Brownian bridge there.
    """
    import numpy as np

    n = len(y)
    scores = _normal_scores(y)
    sums = np.cumsum(scores)[:-1]
    k = np.arange(1, n)
    inside = (k >= _STEP_EDGE * n) & (k <= (1 - _STEP_EDGE) * n)
    share = k / n
    weighed = np.abs(sums) / np.sqrt(n * share * (1 - share)) * inside
    at = int(np.argmax(weighed))
    before, after = y[: at + 1], y[at + 1 :]
    residual = np.concatenate([before - np.median(before), after - np.median(after)])
    statistic = float(weighed[at]) / math.sqrt(inflation(residual))
    if statistic <= _bridge_limit(significance):
        return None
    return Step(float(t[at] - t[0]), float(np.median(after) - np.median(before)))


def _bridge_limit(significance: float) -> float:
    """What the largest standardised value of a Brownian bridge between _STEP_EDGE and 1 - _STEP_EDGE
    exceeds with probability ``significance``.

    Miller and Siegmund (Biometrics 38 (1982) 1011), equation for two-sided maximally selected statistics.
    """
    edge = math.log((1 - _STEP_EDGE) ** 2 / _STEP_EDGE**2)

    def tail(b: float) -> float:
        density = NormalDist().pdf(b)
        return 4 * density / b + density * (b - 1 / b) * edge

    low, high = 1.5, 10.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle) > significance else (low, middle)
    return high


def swing_of(t: Values, y: Values, significance: float) -> Swing | None:
    """The strongest wave, when it stands out of the noise by more than chance explains.

    The spectrum of the series without its slow changes, over that of noise whose each value is
    correlated with the one before (a red spectrum), and Fisher's test of its largest line (Proc. Royal
    Society A 125 (1929) 54, by its first term, an upper limit).
    """
    import numpy as np

    n = len(y)
    spread = 1.4826 * float(np.median(np.abs(y - np.median(y))))
    scores = np.clip(y - np.median(y), -5 * spread, 5 * spread) if spread > 0 else y - np.median(y)
    slow = np.polyval(np.polyfit(np.arange(n), scores, 1), np.arange(n))
    scores = scores - slow
    if not float(scores @ scores):
        return None
    power = np.abs(np.fft.rfft(scores)[1 : (n - 1) // 2 + 1]) ** 2
    lag = float(scores[:-1] @ scores[1:]) / float(scores @ scores)
    lag = max(0.0, lag) if lag > _CORRELATED_FROM / math.sqrt(n) else 0.0
    frequency = np.arange(1, len(power) + 1) / n
    red = 1 / (1 + lag**2 - 2 * lag * np.cos(2 * np.pi * frequency))
    # Fewer than four waves are slow changes: a trend or a step.
    lines = (power / red)[3:]
    share = float(lines.max() / lines.sum())
    if len(lines) * (1 - share) ** (len(lines) - 1) >= significance:
        return None
    at = int(lines.argmax()) + 4
    phase = (np.arange(n) * at / n) % 1
    near = [np.abs((phase - c + 0.5) % 1 - 0.5) < _NEAR for c in _CENTRES]
    levels = [float(np.median(y[some])) for some in near if some.any()]
    return Swing(float(t[-1] - t[0]) / at, max(levels) - min(levels))


_NEAR = 0.125
_CENTRES = tuple(i / 16 for i in range(16))


def _normal_scores(y: Values) -> Values:
    """The values' ranks as a normal sample has them, mean 0, variance 1: an outlier is only the largest."""
    import numpy as np
    from scipy.special import ndtri
    from scipy.stats import rankdata

    scores = ndtri((rankdata(y) - 0.5) / len(y))
    spread = float(np.std(scores))
    result: Values = (scores - scores.mean()) / spread if spread > 0 else scores * 0.0
    return result
