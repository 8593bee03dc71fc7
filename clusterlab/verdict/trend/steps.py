"""Where a series of paces, one per run, stepped: by ``verdict/series.step_of``, and once more in parts.

``step_of`` looks at the inner part of a series only. So that a step in the last runs of many is found too, it
is asked of the last 40, 80, 160, … and of all, sharing one chance of a false alarm; the place is then where
ranks before and after differ most, up to LEAST runs from either end. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterlab.verdict.series import step_of

if TYPE_CHECKING:
    from clusterlab.verdict.trend.model import Numbers

LEAST = 3
"""Runs on either side of a step: one that strays is none."""
SHORTEST = 12
"""Fewer runs prove no step by themselves: their ranks differ too little."""
_FIRST_WINDOW = 40
_MOST_STEPS = 8


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
    import numpy as np

    n = len(paces)
    widths = []
    width = _FIRST_WINDOW
    while width < n:
        widths.append(width)
        width *= 2
    widths.append(n)
    for width in reversed(widths):
        part = paces[n - width :]
        if width < SHORTEST or not np.ptp(part):
            continue
        order = np.arange(width, dtype=np.float64)
        if step_of(order, part, significance / len(widths)) is not None:
            return n - width + split(part)
    return None


def split(paces: Numbers) -> int:
    """Where to divide a series so that ranks before and after differ most; the first run after it. Of fewer
    than 2 × LEAST runs the middle.
    """
    import numpy as np
    from scipy.stats import rankdata

    n = len(paces)
    if n < 2 * LEAST:
        return n // 2
    scores = rankdata(paces) - (n + 1) / 2
    k = np.arange(1, n)
    weighed = np.abs(np.cumsum(scores)[:-1]) / np.sqrt(k * (n - k))
    weighed[: LEAST - 1] = weighed[n - LEAST :] = -1
    return int(np.argmax(weighed)) + 1
