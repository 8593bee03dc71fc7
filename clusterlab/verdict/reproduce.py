"""Whether a second run finds what the first one did: point by point, within the intervals they state. Pure.

The medians of a point may differ by both half-widths towards each other, joined in quadrature, and by FLOOR
on top: what passes minutes apart differ by on a quiet machine, which no interval within one run can know
(docs/decisions/017). With 95 % intervals one point in twenty may miss. More than chance explains, among
points that were steady in both runs, means that the figures do not reproduce; what only unsteady points miss,
or a noisy run, is no verdict. Nor do medians that agree show anything where most of them were allowed more
than LOOSE.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from clusterlab.core.rows import Row
from clusterlab.verdict.judge import too_many_outside
from clusterlab.verdict.steady import Quiet, quiet, unsteady

FLOOR = 0.02
LOOSE = 0.10
MISS_SHARE = 0.05
SIGNIFICANCE = 0.01


class Outcome(StrEnum):
    """What two runs say of each other. NOISY, NOTHING and UNFIT (rows that are missing or contradict each
    other, one run twice) are no verdict; INVALID: wrong data.
    """

    REPRODUCED = "reproduced"
    DIFFERENT = "different"
    INVALID = "invalid"
    NOISY = "noisy"
    NOTHING = "nothing_in_common"
    UNFIT = "no_verdict"


@dataclass(frozen=True, slots=True)
class Between:
    """One point of both runs. ``difference`` is second over first median, less 1; ``allowed`` how far from 0
    it may be. ``stated``: both runs state an interval, else only FLOOR is allowed.
    """

    first: Row
    second: Row
    difference: float
    allowed: float
    stated: bool
    steady: bool

    @property
    def within(self) -> bool:
        """Whether the two agree."""
        return abs(self.difference) <= self.allowed


@dataclass(frozen=True, slots=True)
class Reproduction:
    """Two runs beside each other. ``alone``: how many points only the first or only the second has."""

    outcome: Outcome
    reason: str
    points: tuple[Between, ...]
    alone: tuple[int, int]
    quiet: tuple[Quiet, Quiet]

    @property
    def share_within(self) -> float | None:
        """Of the points in common, those that agree; None without any."""
        if not self.points:
            return None
        return sum(point.within for point in self.points) / len(self.points)


def reproduce(first: Iterable[Row], second: Iterable[Row]) -> Reproduction:
    """Compare two runs of the same points (one row per point each)."""
    ours, theirs = _by_point(first), _by_point(second)
    points = tuple(_between(ours[key], theirs[key]) for key in ours if key in theirs)
    both = (quiet(tuple(ours.values())), quiet(tuple(theirs.values())))
    outcome, reason = _judge(points, both)
    alone = (len(ours.keys() - theirs.keys()), len(theirs.keys() - ours.keys()))
    return Reproduction(outcome, reason, points, alone, both)


def _by_point(rows: Iterable[Row]) -> dict[tuple[object, ...], Row]:
    """Rows with a time, by what makes them the same point measured in the same way."""
    return {
        (row.backend, row.aggregated, row.blocking, row.memory, *row.point.key): row
        for row in rows
        if 0 < row.time_us_p50 < math.inf
    }


def _between(first: Row, second: Row) -> Between:
    slow, fast = sorted((first, second), key=lambda row: -row.time_us_p50)
    down = None if slow.p50_low_us is None else slow.time_us_p50 - slow.p50_low_us
    up = None if fast.p50_high_us is None else fast.p50_high_us - fast.time_us_p50
    room_us = math.hypot(down or 0.0, up or 0.0)
    return Between(
        first=first,
        second=second,
        difference=second.time_us_p50 / first.time_us_p50 - 1,
        allowed=room_us / first.time_us_p50 + FLOOR,
        stated=down is not None and up is not None,
        steady=not unsteady(first) and not unsteady(second),
    )


def _judge(points: Sequence[Between], both: tuple[Quiet, Quiet]) -> tuple[Outcome, str]:
    if not points:
        return Outcome.NOTHING, "the two have no point in common"
    agree = sum(point.within for point in points)
    said = f"{agree} of {len(points)} medians agree"
    if not _too_many(points):
        loose = sum(point.allowed > LOOSE for point in points)
        if 2 * loose > len(points):
            wide = f"{loose} of {len(points)} may differ by more than {LOOSE:.0%}"
            return Outcome.NOISY, f"{said}, but {wide}: intervals that wide show nothing"
        return Outcome.REPRODUCED, said
    noisy = next((one for one in both if one.noisy and not one.few), None) or next(
        (one for one in both if one.noisy), None
    )
    if _too_many([point for point in points if point.steady]) and noisy is None:
        return Outcome.DIFFERENT, f"{said}; the machine was quiet in both runs"
    why = noisy.what if noisy else "what differs was unsteady while it was measured"
    return Outcome.NOISY, f"{said}; {why}"


def _too_many(points: Sequence[Between]) -> bool:
    outside = sum(not point.within for point in points)
    return bool(points) and too_many_outside(outside, [MISS_SHARE] * len(points), SIGNIFICANCE)
