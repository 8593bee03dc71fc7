"""How often to call: before a point is timed, and from batch to batch until enough is known. Pure.

A *unit* is what is timed as one: a call, a group of ``aggregated`` calls, or a replay of a graph of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from clusterlab.bench.options import BenchOptions
from clusterlab.bench.statistics import Summary

LOOP_US = 50_000.0
"""How long a loop lasts when nobody says how many iterations."""

LEAST_LOOP, MOST_LOOP = 5, 2000

REPLAY_US = 2_000.0
"""How long one replay of a graph lasts, if MOST_PER_GRAPH calls do. Beginning a replay costs about 4 µs (20
and 200 calls of 5.5 µs differ by 0.22 µs each): then that is 0.2 %.
"""

MOST_PER_GRAPH = 200
LEAST_REPLAYS = 20
"""Replays timed one by one where -G asks for fewer: one or two say nothing about spread."""

FIRST_BATCH = 10
LEAST_BATCH, MOST_BATCH = 3, 2000
MOST_SAMPLES = 20_000
"""Times of one point that are kept and told: with so many, what moves the median is no longer chance."""


@dataclass(frozen=True, slots=True)
class Pace:
    """What one point's passes consist of: units in the loop, graph calls per unit, timed units if fixed."""

    loop: int
    per_graph: int | None
    timed: int | None

    @property
    def calls(self) -> int:
        """Calls in the loop; a group of aggregated calls is one."""
        return self.loop * (self.per_graph or 1)


def choose_pace(options: BenchOptions, timing: str, call_us: float) -> Pace:
    """For calls that take about ``call_us``; every rank must pass the same.

    In a graph, ``-n`` with ``-G`` is as in nccl-tests (src/common.cu): the graph has ``-n`` calls, the loop
    ``-G`` replays. Without ``-G``, ``-n`` replays are made.
    """
    call_us = max(call_us, 0.1)
    if timing != "graph":
        loop = options.iterations or _loop(call_us)
        return Pace(loop, None, options.iterations)
    if options.graph_launches is not None and options.iterations is not None:
        return Pace(
            options.graph_launches,
            options.iterations,
            max(options.graph_launches, LEAST_REPLAYS),
        )
    per_graph = min(max(math.ceil(REPLAY_US / call_us), 1), MOST_PER_GRAPH)
    loop = options.graph_launches or options.iterations or _loop(call_us * per_graph)
    return Pace(loop, per_graph, options.iterations)


def _loop(unit_us: float) -> int:
    return min(max(math.ceil(LOOP_US / unit_us), LEAST_LOOP), MOST_LOOP)


def next_batch(options: BenchOptions, pace: Pace, done: int, unit_us: float, spent_s: float) -> int:
    """How many units to time next, ``done`` units having taken ``spent_s``: as many as were timed so far.

    Fewer where the budget would not hold them, but never fewer than LEAST_BATCH.
    """
    if pace.timed is not None:
        return pace.timed
    fits = (options.budget_s - spent_s) * 1e6 / max(unit_us, 0.1)
    return max(min(done or FIRST_BATCH, math.floor(fits), MOST_BATCH), LEAST_BATCH)


def stopped(
    options: BenchOptions, pace: Pace, summaries: Sequence[Summary], done: int, spent_s: float
) -> str | None:
    """Why no more is timed after ``done`` units, when that is so: all medians are known well enough, or the
    budget is spent (of seconds, or of MOST_SAMPLES).
    """
    if pace.timed is not None:
        return "count"
    if all(summary.within(options.median_within) for summary in summaries):
        return "confident"
    return "budget" if spent_s >= options.budget_s or done >= MOST_SAMPLES else None


def warmup_calls(size_bytes: int) -> int:
    """Untimed calls before the first point of a size class: small sizes settle slowly, huge ones at once."""
    return (20, 10, 5, 3)[size_class(size_bytes)]


AGAIN = 2
"""Untimed calls where the size class is warm already: for this size's own first call."""

_CLASSES = (64 << 10, 8 << 20, 256 << 20)


def size_class(size_bytes: int) -> int:
    """0 to 3: up to 64 KiB, 8 MiB, 256 MiB, and more.

    They are roughly NCCL's: LL, LL128 and simple protocols with few channels, then with all, then sizes at
    which one call outlasts anything that has to settle.
    """
    return sum(size_bytes > limit for limit in _CLASSES)
