"""One side of a comparison: the points of a run or of another tool's file, and what is known of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from clusterlab.core.collectives import COLLECTIVES, busbw_factor
from clusterlab.core.rows import Row
from clusterlab.core.sizes import human_size
from clusterlab.verdict.steady import scattered, wide

KEY = (
    "collective",
    "dtype",
    "op",
    "root",
    "in_place",
    "world_size",
    "ranks",
    "size_bytes",
    "timing",
    "beside",
    "uneven",
    "aggregated",
    "blocking",
)
"""What makes two points the same: what is moved, between whom, and how it is called and timed."""


@dataclass(frozen=True, slots=True)
class Timed:
    """One point's time (µs). ``low_us`` and ``high_us`` hold its median with 95 %; None: not stated.

    ``loop_us`` is the whole loop over its iterations, ``p50_us`` the median of single ones, None where only a
    loop was timed. ``steady``: its iterations did not stray (verdict/steady.py). ``dtype``, ``in_place`` and
    ``timing`` are None where a file does not say. ``attempt`` counts the passes over the same point;
    ``asked_bytes`` is its size before padding.
    """

    collective: str
    size_bytes: int
    world_size: int
    loop_us: float
    dtype: str | None = None
    op: str | None = None
    root: int | None = None
    in_place: bool | None = None
    ranks: tuple[int, ...] | None = None
    timing: str | None = None
    beside: str | None = None
    uneven: str | None = None
    aggregated: int = 1
    blocking: bool = False
    p50_us: float | None = None
    low_us: float | None = None
    high_us: float | None = None
    iterations: int | None = None
    wrong: int | None = None
    steady: bool = True
    attempt: int = 1
    asked_bytes: int | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """What makes it the same point as another."""
        return tuple(getattr(self, name) for name in KEY)

    @property
    def busbw_GBps(self) -> float:
        """nccl-tests' bus bandwidth of the loop's time."""
        factor = busbw_factor(self.collective, self.world_size)
        return self.size_bytes * factor / (self.loop_us * 1e3)

    def time_us(self, *, loops: bool) -> float:
        """The loop's time where the other side has only loops, else the median."""
        return self.loop_us if loops or self.p50_us is None else self.p50_us


@dataclass(frozen=True, slots=True)
class Side:
    """A run, or a file of measurements.

    ``points``: one a point, the latest; ``passes`` the earlier measurements of the same points. ``facts`` are
    plain values by group (configuration, versions, environment, placement, fabric). ``machine`` names the
    hardware of each rank, ``gpus`` its models, ``layout`` hosts by ranks (``2 × 8``), None where not known.
    ``problems``: why nothing can be concluded from it. ``missing``: planned points that were not measured;
    None: no plan is known. ``foreign``: another tool's.
    """

    name: str
    points: tuple[Timed, ...]
    passes: tuple[Timed, ...] = ()
    facts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    run_id: str | None = None
    machine: tuple[str, ...] | None = None
    gpus: tuple[str, ...] | None = None
    fabric: str | None = None
    layout: str | None = None
    backend: str | None = None
    missing: int | None = None
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    foreign: bool = False

    @property
    def wrong(self) -> tuple[Timed, ...]:
        """Points that delivered wrong elements."""
        return tuple(point for point in self.points if point.wrong)


MOST_US = 3.6e9
"""An hour: no call takes longer (16 GiB take 20 minutes at 0.1 Gb/s)."""


def is_time(time_us: float) -> bool:
    """Whether a call can have taken that long: not nothing, less than nothing, or for ever."""
    return 0 < time_us <= MOST_US


def timed(row: Row) -> Timed | None:
    """A row as a point; None for one without a time."""
    if not is_time(row.time_us_loop):
        return None
    known = is_time(row.time_us_p50)
    low, high = row.p50_low_us, row.p50_high_us
    around = known and low is not None and high is not None and 0 < low <= row.time_us_p50 <= high
    return Timed(
        collective=row.collective,
        size_bytes=row.size_bytes,
        world_size=row.world_size,
        loop_us=row.time_us_loop,
        dtype=row.dtype,
        op=row.op,
        root=row.root,
        in_place=row.in_place,
        ranks=row.ranks,
        timing=row.timing,
        beside=row.beside,
        uneven=row.uneven,
        aggregated=row.aggregated,
        blocking=row.blocking,
        p50_us=row.time_us_p50 if known else None,
        low_us=low if around else None,
        high_us=high if around else None,
        iterations=row.samples or row.iterations,
        wrong=row.wrong,
        steady=not wide(row) and not scattered(row),
        attempt=row.attempt,
        asked_bytes=row.requested_bytes,
    )


def normal(point: Timed) -> Timed:
    """``point`` with what other tools leave out as they mean it: the sum, root 0, out of place."""
    what = COLLECTIVES.get(point.collective)
    if what is None:
        return point
    return replace(
        point,
        op=(point.op or "sum") if what.reduces else None,
        root=max(0, point.root or 0) if what.rooted else None,
        in_place=bool(point.in_place),
    )


def split_passes(
    measured: Iterable[Timed],
) -> tuple[tuple[Timed, ...], tuple[Timed, ...], tuple[str, ...]]:
    """The latest pass of every point, the earlier ones, and what is wrong: a point that one pass holds
    twice with different figures. The same figures twice are one measurement, and two sizes that padding makes
    one are one point, of which the last counts.
    """
    passes: dict[tuple[object, ...], dict[int, Timed]] = {}
    twice: list[Timed] = []
    for point in measured:
        own = passes.setdefault((point.asked_bytes, *point.key), {})
        known = own.get(point.attempt)
        if known is not None and known != point:
            twice.append(point)
        own[point.attempt] = point
    latest = tuple(by_key(own[max(own)] for own in passes.values()).values())
    earlier = tuple(p for own in passes.values() for at, p in own.items() if at != max(own))
    problems = (
        (
            f"{len(twice)} points stand twice in one attempt with different figures, the first is "
            f"{label(twice[0])}",
        )
        if twice
        else ()
    )
    return latest, earlier, problems


def by_key(points: Iterable[Timed]) -> dict[tuple[object, ...], Timed]:
    """Points by what makes them the same."""
    return {point.key: point for point in points}


def label(point: Timed) -> str:
    """For people: ``all_reduce float32 1 MiB in place, graph``."""
    words = (point.collective, point.dtype, human_size(point.size_bytes))
    place = "in place" if point.in_place else "out of place"
    timing = f", {point.timing}" if point.timing else ""
    return f"{' '.join(w for w in words if w)} {place}{timing}"


def known_values(points: Iterable[Timed], name: str) -> tuple[Any, ...]:
    """The different values of a field, sorted by their text."""
    return tuple(sorted({getattr(point, name) for point in points}, key=str))
