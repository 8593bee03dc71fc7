"""Measure one step: warm up, loop, time each, check. Ranks in no point wait, and learn the same."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace

from clusterlab.bench.buffers import Arena
from clusterlab.bench.check import Found, check_call, checkable, reset
from clusterlab.bench.common_clock import CommonClock
from clusterlab.bench.conditions import GpuState, conditions_of, read_state
from clusterlab.bench.control import Control
from clusterlab.bench.exchange import NOTHING, Exchange, GroupSamples
from clusterlab.bench.groups import Groups, Seat, ranks_of, seat_of
from clusterlab.bench.options import BenchOptions
from clusterlab.bench.pace import (
    AGAIN,
    Pace,
    choose_pace,
    next_batch,
    size_class,
    stopped,
    warmup_calls,
)
from clusterlab.bench.saying import said_of_each
from clusterlab.bench.starting import begin_together
from clusterlab.bench.statistics import Summary
from clusterlab.bench.timing import Samples
from clusterlab.bench.ways import Bound, Way
from clusterlab.bench.witness import Witness
from clusterlab.core.measurement import UNSAID, Measurement, WrongElement
from clusterlab.core.rows import Point
from clusterlab.launch.identity import RankIdentity


@dataclass(frozen=True, slots=True)
class Bench:
    """What stays the same for all points of one sweep.

    ``witness`` learns what the library does; all ranks have one or none has. ``warm``: the classes of points
    met so far.
    """

    identity: RankIdentity
    options: BenchOptions
    arena: Arena
    control: Control
    groups: Groups
    ways: dict[str, Way]
    clock: CommonClock
    gpu: GpuState | None = None
    witness: Witness | None = None
    warm: set[tuple[object, ...]] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Measured:
    """One point of a step: what it took, and each iteration's time (µs) on its slowest rank."""

    point: Point
    measurement: Measurement
    slowest_us: list[float]


def measure_step(bench: Bench, step: Sequence[Point]) -> tuple[list[Measured], list[float]]:
    """What every point of ``step`` took, on all ranks alike, and this rank's own iteration times (µs)."""
    seat = seat_of(step, bench.identity.rank)
    bench.clock.renew(bench.control)
    exchange = Exchange(bench.control, bench.clock, len(step), seat.slot if seat else None)
    way = bench.ways[step[0].timing]
    warmup = _warmup(bench, step, way)
    with way.inside():
        mine = _Part(bench, way, seat) if seat is not None else _Waiting()
        call_us = max(exchange.slowest(mine.warm_up(warmup), counts=mine.counts))
        pace = choose_pace(bench.options, step[0].timing, call_us)
        mine.prepare(pace)
        before = read_state(bench.gpu)
        begin_together(bench.control, bench.clock)
        loops_us = exchange.slowest(mine.loop_us(pace), counts=mine.counts)
        passes = _time_each(bench, exchange, mine, pace, loops_us)
        after = read_state(bench.gpu)
        found = mine.check()
        told = bench.control.gather([*map(float, astuple(found)), *before, *after])
    said = [mine.said] * len(step)
    if bench.witness is not None:
        said = said_of_each(bench.control, step, mine.said)
    measured = []
    for slot, point in enumerate(step):
        loop_us, samples = loops_us[slot], passes.groups[slot]
        rows = {rank: told[rank] for rank in sorted(ranks_of(point))}
        wrong, first = _wrong(point, rows) if bench.options.check else (None, None)
        measurement = replace(
            _measurement(bench.options, pace, loop_us, passes.summaries[slot], samples),
            warmup=warmup,
            wrong=wrong,
            first_wrong=first,
            stopped_by=passes.stopped_by,
            memory=bench.arena.memory,
            conditions=conditions_of([row[4:] for row in rows.values()]),
            said=said[slot],
        )
        measured.append(Measured(point, measurement, samples.slowest_us))
    return measured, passes.own_us


@dataclass(frozen=True, slots=True)
class _Passes:
    groups: list[GroupSamples]
    summaries: list[Summary]
    own_us: list[float]
    stopped_by: str


def _time_each(
    bench: Bench, exchange: Exchange, mine: _Part | _Waiting, pace: Pace, loops_us: Sequence[float]
) -> _Passes:
    """Time units one by one, in batches, until enough is known; all ranks decide alike."""
    groups, own_us, spent_s, done = [NOTHING] * exchange.groups, [], 0.0, 0
    unit_us = max(loops_us) * (pace.per_graph or 1) * bench.options.aggregated
    began = time.monotonic()
    while True:
        batch = next_batch(bench.options, pace, done, unit_us, spent_s)
        begin_together(bench.control, bench.clock)
        samples = mine.each(batch, pace)
        more, spent_s = exchange.samples(
            samples, batch, time.monotonic() - began, counts=mine.counts
        )
        groups = [known.extended(new) for known, new in zip(groups, more, strict=True)]
        own_us += samples.times_us if samples is not None else []
        done += batch
        summaries = [group.summary() for group in groups]
        why = stopped(bench.options, pace, summaries, done, spent_s)
        if why is not None:
            return _Passes(groups, summaries, own_us, why)


class _Waiting:
    """A rank that no point of the step needs."""

    counts = False
    said = UNSAID

    def warm_up(self, _calls: int) -> float:
        return 0.0

    def prepare(self, pace: Pace) -> None:
        pass

    def loop_us(self, _pace: Pace) -> float:
        return 0.0

    def each(self, _count: int, _pace: Pace) -> Samples | None:
        return None

    def check(self) -> Found:
        return Found()


class _Part:
    """This rank's part in its point of the step."""

    def __init__(self, bench: Bench, way: Way, seat: Seat) -> None:
        self._options = bench.options
        self._way = way
        self._seat = seat
        self._identity = bench.identity
        arena, point = bench.arena, seat.point
        places = [arena.buffers(point, seat.rank, at) for at in range(arena.places(point))]
        self._buffers = places[0]
        self._bound: Bound = way.bind(seat, places)
        # The time of a ping-pong is half its round trip, by the clock of the rank that begins it.
        ping_pong = seat.point.collective == "ping_pong"
        self._messages = 2 if ping_pong else 1
        self.counts = not ping_pong or seat.rank == 0
        self._witness = bench.witness
        self.said = UNSAID

    def warm_up(self, calls: int) -> float:
        """Call ``calls`` times; about how long one takes in µs, by the later half."""
        reset(self._seat.point, self._buffers, self._seat.rank)
        operation, timer = self._bound.operation, self._way.timer
        operation.stage()
        first = (calls + 1) // 2
        if self._witness is not None:
            self.said = self._witness.saw(self._seat.point, self._finished_call)
            first, calls = first - 1, calls - 1
        for _ in range(first):
            operation.call()
        timer.finish()
        began = time.monotonic()
        for _ in range(calls - first):
            operation.call()
        timer.finish()
        return (time.monotonic() - began) * 1e6 / max(calls - first, 1)

    def _finished_call(self) -> None:
        self._bound.operation.call()
        self._way.timer.finish()

    def prepare(self, pace: Pace) -> None:
        self._bound = self._way.fix(self._bound, pace.per_graph)
        self._way.timer.finish()

    def loop_us(self, pace: Pace) -> float:
        return self._way.timer.loop_us(self._bound.timed, pace.loop) / self._calls(pace)

    def each(self, count: int, pace: Pace) -> Samples | None:
        samples = self._way.timer.each(self._bound.timed, count)
        calls = self._calls(pace)
        return Samples([time_us / calls for time_us in samples.times_us], samples.begun_us)

    def check(self) -> Found:
        if not self._options.check:
            return Found()
        rank, index = self._options.corrupt or (None, None)
        mine = index if rank == self._identity.rank else None
        found = check_call(
            self._seat.point, self._buffers, self._bound.checked, self._seat.rank, corrupt=mine
        )
        self._way.timer.finish()
        return found

    def _calls(self, pace: Pace) -> int:
        return (pace.per_graph or 1) * self._options.aggregated * self._messages


def _warmup(bench: Bench, step: Sequence[Point], way: Way) -> int:
    """Untimed calls of every point of ``step``; more where its class is new. The same on every rank."""
    # After the call that a witness looks at, one more undoes what that changed; automatic iterations need to
    # know about how long a call takes, and the first one connects.
    looked_at = bench.witness is not None or bench.options.iterations is None
    least = max(way.least_warmup, 2 if looked_at else 0)
    classes = {
        (p.collective, p.dtype, p.op, p.ranks, p.timing, size_class(p.size_bytes)) for p in step
    }
    fresh = not classes <= bench.warm
    bench.warm.update(classes)
    if bench.options.warmup is not None:
        return max(bench.options.warmup, least)
    calls = max(warmup_calls(point.size_bytes) for point in step) if fresh else AGAIN
    return max(calls, least)


def _wrong(
    point: Point, told: Mapping[int, Sequence[float]]
) -> tuple[int | None, WrongElement | None]:
    """Wrong elements over the point's ranks, and the first of the lowest rank that has any."""
    if not checkable(point):
        return None, None
    first = next(
        (WrongElement(r, int(row[1]), row[2], row[3]) for r, row in told.items() if row[0]), None
    )
    return int(sum(row[0] for row in told.values())), first


def _measurement(
    options: BenchOptions, pace: Pace, loop_us: float, summary: Summary, samples: GroupSamples
) -> Measurement:
    return Measurement(
        iterations=pace.calls,
        warmup=0,
        time_us_loop=loop_us,
        time_us_p50=summary.p50_us,
        time_us_min=summary.min_us,
        time_us_max=summary.max_us,
        time_us_p95=summary.p95_us,
        time_us_p99=summary.p99_us,
        cv=summary.cv,
        wrong=None,
        p50_low_us=summary.low_us,
        p50_high_us=summary.high_us,
        samples=len(samples.slowest_us),
        outliers=summary.outliers,
        rank_skew_us=samples.rank_skew_us,
        arrival_skew_us=samples.arrival_skew_us,
        calls_per_graph=pace.per_graph,
        aggregated=options.aggregated,
        blocking=options.blocking,
    )
