"""What a run in progress still has to do, and how long that takes by what it has done."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import pairwise
from typing import Any

from clusterlab.core.errors import ClusterlabError
from clusterlab.core.rows import Point, Row
from clusterlab.records.documents import read_placement
from clusterlab.records.run_dir import RunDir
from clusterlab.report.console.progress import describe
from clusterlab.report.console.watching import Left

_RECENT = 200
"""Points (or steps) whose times stand for what is to come."""

Steps = tuple[tuple[Point, ...], ...]
_MOST_PLANNED = 10_000_000
"""Points; a plan of more takes minutes to be made again."""


def planned_steps(run: RunDir) -> Steps | None:
    """The points of the sweep in ``run``, those measured at the same time together; None where the run is
    none or its plan cannot be made again here.
    """
    from clusterlab.bench.support import unsupported_reason
    from clusterlab.runs.sweeping.plan import make_plan
    from clusterlab.runs.sweeping.resume import sweep_of

    planned = run.info.planned_points
    if "measures" in run.info.configuration or not planned or planned > _MOST_PLANNED:
        return None
    try:
        config, world_size = sweep_of(run)
        if config.of_pairs and world_size * (world_size - 1) // 2 > planned:
            return None
        placement = read_placement(run.path) if config.of_groups else None
        if config.of_groups and placement is None:
            return None
        backend = partial(unsupported_reason, config.backend, world_size)
        plan = make_plan(config, world_size, backend, placement)
    except (ClusterlabError, TypeError, ValueError, LookupError, ArithmeticError, AttributeError):
        # of another release, or by hand
        return None
    return plan.steps if len(plan.points) == run.info.planned_points else None


def in_flight(steps: Steps, done: Collection[Point]) -> str:
    """What is measured now: the first of ``steps`` that is not done."""
    for step in steps:
        waiting = [point for point in step if point not in done]
        if waiting:
            more = f" and {len(waiting) - 1} beside it" if len(waiting) > 1 else ""
            return describe(waiting[0]) + more
    return ""


def left_of_points(
    rows: Sequence[Row], missing: int, steps: Steps | None, done: Collection[Point]
) -> Left | None:
    """How long ``missing`` points take, by the times that points of their size took from row to row."""
    took: dict[int, list[float]] = {}
    recent = rows[-_RECENT:]
    for before, row in pairwise(recent):
        seconds = between(before.time_utc, row.time_utc)
        if before.attempt == row.attempt and seconds is not None:
            took.setdefault(row.size_bytes, []).append(max(0.0, seconds))
    if not took or missing <= 0:
        return None
    mean = statistics.fmean(s for each in took.values() for s in each)
    if steps is None:
        return Left(missing * mean)
    of_size = {size: statistics.fmean(each) for size, each in took.items()}
    largest = max(of_size)
    waiting = [p.size_bytes for step in steps for p in step if p not in done]
    seconds = sum(
        of_size.get(size, of_size[largest] if size > largest else mean) for size in waiting
    )
    unknown = any(size > largest for size in waiting)
    # Of sizes that nobody has measured yet "at least 0 s" would say nothing.
    return None if unknown and seconds < 1 else Left(seconds, at_least=unknown)


def left_of_steps(times_utc: Sequence[str], missing: int) -> Left | None:
    """How long ``missing`` training steps take, by when the latest ended."""
    recent = times_utc[-_RECENT:]
    if len(recent) < 2 or missing <= 0:
        return None
    seconds = between(recent[0], recent[-1])
    return None if seconds is None else Left(max(0.0, seconds) / (len(recent) - 1) * missing)


def between(first_utc: str, second_utc: str) -> float | None:
    """Seconds from one moment to another, ISO 8601; None where either is none."""
    try:
        return (
            datetime.fromisoformat(second_utc) - datetime.fromisoformat(first_utc)
        ).total_seconds()
    except (ValueError, TypeError):
        return None


def whole(configuration: Mapping[str, Any], *names: str) -> Any:
    """What ``configuration`` holds at the nested ``names``; None where it does not."""
    found: Any = configuration
    for name in names:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found
