"""Whether the machine was quiet while it was measured, by what the rows themselves say. Pure.

A point is unsteady when its median is not known to WIDE, or when more than MANY of its iterations stand out
and they spread by more than LEAST_CV. A run is noisy when a tenth of its points or more are unsteady, or were
measured on GPUs that were held back. Measured in docs/decisions/017. Fewer than FEW iterations may leave a
median that little known on the quietest machine: that is said as what it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from clusterlab.core.rows import Row

WIDE = 0.10
MANY, FEWEST, LEAST_CV = 0.05, 3, 0.05
NOISY_SHARE = 0.1
FEW = 50
WITH_INTERVAL = 6
"""Iterations from which on a median has a 95 % interval: 2 of 2^n orders miss it (docs/decisions/017)."""

_NOT_HELD_BACK = frozenset({"applications_clocks_setting", "display_clock_setting"})
"""Clocks that somebody set: the same in every run."""


@dataclass(frozen=True, slots=True)
class Quiet:
    """What ``rows`` say of their machine; ``reasons`` are why it was noisy, none when it was not. ``few``:
    all of them may be for want of iterations.
    """

    points: int
    unsteady: int
    reasons: tuple[str, ...]
    few: bool = False

    @property
    def noisy(self) -> bool:
        """Whether the figures may be of the machine's other work."""
        return bool(self.reasons)

    @property
    def what(self) -> str:
        """In words."""
        return "the iterations were too few" if self.few else "the machine was noisy"


def wide(row: Row) -> bool:
    """Whether the 95 % interval of its median is wider than WIDE of it; so few iterations as have none do not
    know it either.
    """
    if row.p50_low_us is None or row.p50_high_us is None:
        return row.samples is not None and 0 < row.samples < WITH_INTERVAL
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
    if not points or shaken < NOISY_SHARE * points:
        return Quiet(points, shaken, ())
    unknown = [row.samples or 0 for row in rows if wide(row)]
    little = [samples for samples in unknown if samples < FEW]
    held = Counter(word for row in rows for word in held_back(row))
    causes = {
        f"medians are not known to {WIDE:.0%}": len(unknown) - len(little),
        f"more than {MANY:.0%} of the iterations stand out": sum(map(scattered, rows)),
        **{f"GPUs were held back ({word})": count for word, count in held.most_common()},
    }
    few = not any(causes.values())
    if little:
        causes[f"{max(little)} iterations do not tell the median to {WIDE:.0%}"] = len(little)
    reasons = (f"at {count} of {points} points {what}" for what, count in causes.items() if count)
    return Quiet(points, shaken, tuple(reasons), few)
