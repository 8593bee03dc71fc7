"""Whether the machine was quiet while it was measured, by what the rows themselves say. Pure.

A point is unsteady when its median is not known to WIDE, or when more than MANY of its iterations stand out
and they spread by more than LEAST_CV. A run is noisy when a tenth of its points or more are unsteady, or were
measured on GPUs that were held back. Measured in docs/decisions/017.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from clusterlab.core.rows import Row

WIDE = 0.10
MANY, FEWEST, LEAST_CV = 0.05, 2, 0.05
NOISY_SHARE = 0.1

_NOT_HELD_BACK = frozenset({"applications_clocks_setting", "display_clock_setting"})
"""Clocks that somebody set: the same in every run."""


@dataclass(frozen=True, slots=True)
class Quiet:
    """What ``rows`` say of their machine; ``reasons`` are why it was noisy, none when it was not."""

    points: int
    unsteady: int
    reasons: tuple[str, ...]

    @property
    def noisy(self) -> bool:
        """Whether the figures may be of the machine's other work."""
        return bool(self.reasons)


def wide(row: Row) -> bool:
    """Whether the 95 % interval of its median is wider than WIDE of it."""
    if row.p50_low_us is None or row.p50_high_us is None:
        return False
    return row.p50_high_us - row.p50_low_us > WIDE * row.time_us_p50


def scattered(row: Row) -> bool:
    """Whether so many of its iterations stand out that it is not about single ones."""
    if row.outliers is None or not row.samples or row.outliers < FEWEST:
        return False
    return row.outliers > MANY * row.samples and row.cv > LEAST_CV


def held_back(row: Row) -> tuple[str, ...]:
    """Why its GPUs ran slower than they might."""
    words = (row.throttled or "").split(",")
    return tuple(word.strip() for word in words if word.strip() not in ("", *_NOT_HELD_BACK))


def unsteady(row: Row) -> bool:
    """Whether another run cannot be expected to find the same."""
    return wide(row) or scattered(row) or bool(held_back(row))


def quiet(rows: Sequence[Row]) -> Quiet:
    """Whether the run of ``rows`` (one per point) was noisy, and why."""
    points = len(rows)
    shaken = sum(unsteady(row) for row in rows)
    reasons = []
    if points and shaken >= NOISY_SHARE * points:
        causes = (
            (sum(map(wide, rows)), f"medians are not known to {WIDE:.0%}"),
            (sum(map(scattered, rows)), f"more than {MANY:.0%} of the iterations stand out"),
        )
        reasons += [f"at {count} of {points} points {what}" for count, what in causes if count]
        held = Counter(word for row in rows for word in held_back(row))
        reasons += [
            f"at {count} of {points} points GPUs were held back ({word})"
            for word, count in held.most_common()
        ]
    return Quiet(points, shaken, tuple(reasons))
