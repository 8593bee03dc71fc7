"""How many independent times a series is worth: neighbours share what the machine is doing meanwhile. Pure.

A busy neighbour, a clock that steps down or a daemon slows a stretch of iterations, not single ones. Counting
those as independent makes a median look known far better than it is (docs/decisions/017 has figures).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

LEAST = 0.05
"""A correlation below this, or below what independent times show by chance (1 / √n), ends the sum: an initial
sequence (Geyer 1992, Statistical Science 7:473).
"""

MOST_LAGS = 100
"""Lags looked at; a series that is still alike so far apart is worth so few times that more do not matter."""


def effective_size(series: Sequence[float], median: float) -> float:
    """How many independent values would know their median as well as ``series``, in order of time, does.

    n / (1 + 2 Σ ρ), ρ the autocorrelation of being above ``median`` or not: that, and not the size of a
    value, is what a median's error hangs on. From 1 to n.
    """
    n = len(series)
    # One bit for each value: the sums below are counts of bits, over all values at once.
    above = int("".join("1" if value > median else "0" for value in series), 2)
    share = above.bit_count() / n
    variance = share * (1 - share)
    if variance == 0 or n < 4:
        return float(n)
    total = 1.0
    for lag in range(1, min(n // 4, MOST_LAGS) + 1):
        both = (above & (above >> lag)).bit_count()
        ends = (above >> (n - lag)).bit_count() + (above & ((1 << lag) - 1)).bit_count()
        # Σ (aᵢ - share)(aᵢ₊ₖ - share) over the n - k pairs, written out in counts
        pairs = n - lag
        covariance = both - share * (2 * share * n - ends) + share * share * pairs
        rho = covariance / (n * variance)
        if rho < max(LEAST, n**-0.5):
            break
        total += 2 * rho
    return min(float(n), max(1.0, n / total))


def widened(places: tuple[int, int], effective: int, n: int) -> tuple[int, int]:
    """``places`` among ``effective`` ascending values, as those of the same shares among ``n``."""
    scale = (n - 1) / max(1, effective - 1)
    # 7 * (29 / 7) is more than 29 in floating point
    return math.floor(places[0] * scale), min(n - 1, math.ceil(places[1] * scale))
