"""A factor on the time by size: what is left of the errors of one collective on one system."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass

KNOTS_BYTES = tuple(1 << exponent for exponent in range(9, 31, 3))
"""Sizes at which a factor is fitted: 512 B to 1 GiB by factors of eight."""


@dataclass(frozen=True, slots=True)
class Correction:
    """Factors at ``sizes_bytes`` (rising), the first and last also beyond; between them by log of both."""

    sizes_bytes: tuple[int, ...] = ()
    factors: tuple[float, ...] = ()

    def at(self, size_bytes: float) -> float:
        """The factor at one size; 1 without any."""
        sizes, factors = self.sizes_bytes, self.factors
        above = bisect_right(sizes, size_bytes)
        if not sizes:
            return 1.0
        if above in (0, len(sizes)):
            return factors[max(0, above - 1)]
        share = math.log(size_bytes / sizes[above - 1]) / math.log(sizes[above] / sizes[above - 1])
        return float(factors[above - 1] ** (1 - share) * factors[above] ** share)


NONE = Correction()
