"""Where a series of paces, one per run, stepped: by ``verdict/series.step_of``, asked of many windows.

``step_of`` knows one step, in the inner part of a series. So it is asked of the last 40, 80, 160, … runs,
which finds what began lately; and of windows of 64, 128, … that overlap by half, which finds what ended
again. Each of the two kinds has half of the chance of a false alarm, shared among its windows. The place is
then where the means before and after differ most, single strays smoothed away; and both parts are asked in
turn. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from clusterlab.verdict.series import step_of

if TYPE_CHECKING:
    from clusterlab.verdict.trend.model import Numbers

LEAST = 3
"""Runs on either side of a step: one that strays is none."""
SHORTEST = 12
"""Fewer runs prove no step by themselves: their ranks differ too little."""
_LAST, _INNER = 40, 64
_WORTH = 3.0
"""A window whose means differ by fewer standard errors is not asked."""
_MOST_ASKED = 8
_MOST_STEPS = 8

_Window = tuple[int, int]


def steps_of(paces: Numbers, significance: float) -> list[int]:
    """The first runs after each step, ascending."""
    found: set[int] = set()
    open_parts = [(0, len(paces))]
    while open_parts and len(found) < _MOST_STEPS:
        low, high = open_parts.pop()
        at = _one(paces[low:high], significance)
        if at is None:
            continue
        found.add(low + at)
        open_parts += [(low, low + at), (low + at, high)]
    return sorted(found)


def _one(paces: Numbers, significance: float) -> int | None:
    """The first run after the clearest step of a part; None where chance explains it."""
    n = len(paces)
    last = [(n - width, n) for width in (*_doubled(_LAST, n), n)]
    inner, worth = _worth(paces)
    asked = [(window, len(last)) for window in reversed(last)]
    asked += [(window, inner) for window in worth]
    for (low, high), windows in asked:
        if _steps(paces[low:high], significance / 2 / windows):
            return low + split(paces[low:high])
    return None


def _doubled(first: int, below: int) -> Iterator[int]:
    while first < below:
        yield first
        first *= 2


def _steps(part: Numbers, significance: float) -> bool:
    import numpy as np

    if len(part) < SHORTEST or not np.ptp(part):
        return False
    order = np.arange(len(part), dtype=np.float64)
    return step_of(order, part, significance) is not None


def _worth(paces: Numbers) -> tuple[int, list[_Window]]:
    """How many windows inside there are, and the few in which a step is likeliest: not all are asked."""
    import numpy as np

    n = len(paces)
    count, rated = 0, []
    for width in _doubled(_INNER, n):
        parts = np.lib.stride_tricks.sliding_window_view(paces, width)[:: width // 2]
        spread = parts.std(axis=1)
        rating = np.sqrt(_weighed(parts).max(axis=1)) / np.where(spread > 0, spread, np.inf)
        count += len(parts)
        lows = np.flatnonzero(rating > _WORTH) * (width // 2)
        rated += [(float(rating[2 * low // width]), low, low + width) for low in lows.tolist()]
    return count, [(low, high) for _, low, high in sorted(rated, reverse=True)[:_MOST_ASKED]]


def _weighed(part: Numbers) -> Numbers:
    """For each place k from 1 on: the square of the difference of means, times k (n - k) / n; of the last
    axis.
    """
    import numpy as np

    n = part.shape[-1]
    k = np.arange(1, n)
    sums = np.cumsum(part - part.mean(axis=-1, keepdims=True), axis=-1)[..., :-1]
    result: Numbers = sums**2 * n / (k * (n - k))
    return result


def split(paces: Numbers) -> int:
    """Where to divide a series so that its means before and after differ most; the first run after it. Of
    fewer than 2 × LEAST runs the middle.
    """
    import numpy as np

    n = len(paces)
    if n < 2 * LEAST:
        return n // 2
    neighbours = np.stack([np.roll(paces, 1), paces, np.roll(paces, -1)])[:, 1:-1]
    smooth = np.concatenate([paces[:1], np.median(neighbours, axis=0), paces[-1:]])
    weighed = _weighed(smooth)
    weighed[: LEAST - 1] = weighed[n - LEAST :] = -1
    return int(np.argmax(weighed)) + 1
