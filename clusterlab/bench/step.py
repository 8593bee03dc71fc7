"""Measure one step: warm up, loop, time each, check. Ranks in no point wait, and learn the same."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field, replace

from clusterlab.bench.buffers import Arena
from clusterlab.bench.check import Found, check_call, checkable, reset
from clusterlab.bench.control import Control
from clusterlab.bench.exchange import NOTHING, Exchange, GroupSamples
from clusterlab.bench.groups import Seat, ranks_of, seat_of
from clusterlab.bench.ops import Call, Operation
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
from clusterlab.bench.timing import Samples
from clusterlab.bench.ways import Way
from clusterlab.core.rows import Measurement, Point, WrongElement
from clusterlab.launch.identity import RankIdentity


@dataclass(frozen=True, slots=True)
class Bench:
    """What stays the same for all points of one sweep. ``warm``: the classes of points met so far."""

    identity: RankIdentity
    options: BenchOptions
    arena: Arena
    control: Control
    ways: dict[str, Way]
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
    exchange = Exchange(bench.control, len(step), seat.slot if seat else None)
    way = bench.ways[step[0].timing]
    warmup = _warmup(bench, step)
    with way.inside():
        mine = _Part(bench, way, seat) if seat is not None else _Waiting()
        call_us = max(exchange.slowest(mine.warm_up(warmup), counts=mine.counts))
        pace = choose_pace(bench.options, step[0].timing, call_us)
        mine.prepare(pace)
        bench.control.barrier()
        loops_us = exchange.slowest(mine.loop_us(pace), counts=mine.counts)
        passes = _time_each(bench, exchange, mine, pace, loops_us)
        found = mine.check()
        told = bench.control.gather([float(value) for value in astuple(found)])
    measured = []
    for point, loop_us, samples in zip(step, loops_us, passes.groups, strict=True):
        measurement = _measurement(bench.options, loop_us, samples, pace)
        wrong, first = _wrong(point, told) if bench.options.check else (None, None)
        measurement = replace(
            measurement, warmup=warmup, wrong=wrong, first_wrong=first, stopped_by=passes.stopped_by
        )
        measured.append(Measured(point, measurement, samples.slowest_us))
    return measured, passes.own_us


@dataclass(frozen=True, slots=True)
class _Passes:
    groups: list[GroupSamples]
    own_us: list[float]
    stopped_by: str


def _time_each(
    bench: Bench, exchange: Exchange, mine: _Part | _Waiting, pace: Pace, loops_us: Sequence[float]
) -> _Passes:
    """Time units one by one, in batches, until enough is known; all ranks decide alike."""
    groups, own_us, spent_s = [NOTHING] * exchange.groups, [], 0.0
    unit_us = max(loops_us) * (pace.per_graph or 1) * bench.options.aggregated
    began = time.monotonic()
    while True:
        done = len(groups[0].slowest_us)
        batch = next_batch(bench.options, pace, done, unit_us, spent_s)
        samples = mine.each(batch, pace)
        more, spent_s = exchange.samples(
            samples, batch, time.monotonic() - began, counts=mine.counts
        )
        groups = [known.extended(new) for known, new in zip(groups, more, strict=True)]
        own_us += samples.times_us if samples is not None else []
        why = stopped(bench.options, pace, [group.summary() for group in groups], spent_s)
        if why is not None:
            return _Passes(groups, own_us, why)


class _Waiting:
    """A rank that no point of the step needs."""

    counts = False

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
        self._buffers = bench.arena.buffers(seat.point, seat.rank)
        self._operation: Operation = way.bind(seat, self._buffers)
        self._unit: Call = self._operation.call
        # The time of a ping-pong is half its round trip, by the clock of the rank that begins it.
        ping_pong = seat.point.collective == "ping_pong"
        self._messages = 2 if ping_pong else 1
        self.counts = not ping_pong or seat.rank == 0

    def warm_up(self, calls: int) -> float:
        """Call ``calls`` times; about how long one takes in µs, by the later half."""
        reset(self._seat.point, self._buffers, self._seat.rank)
        self._operation.stage()
        first = calls // 2
        for _ in range(first):
            self._operation.call()
        self._way.timer.finish()
        if calls == first:
            return 0.0
        began = time.monotonic()
        for _ in range(calls - first):
            self._operation.call()
        self._way.timer.finish()
        return (time.monotonic() - began) * 1e6 / (calls - first)

    def prepare(self, pace: Pace) -> None:
        self._unit = self._way.unit(self._operation.call, pace.per_graph)
        self._way.timer.finish()

    def loop_us(self, pace: Pace) -> float:
        return self._way.timer.loop_us(self._unit, pace.loop) / self._calls(pace)

    def each(self, count: int, pace: Pace) -> Samples | None:
        samples = self._way.timer.each(self._unit, count)
        calls = self._calls(pace)
        return Samples([time_us / calls for time_us in samples.times_us], samples.begun_us)

    def check(self) -> Found:
        if not self._options.check:
            return Found()
        rank, index = self._options.corrupt or (None, None)
        mine = index if rank == self._identity.rank else None
        found = check_call(
            self._seat.point, self._buffers, self._operation, self._seat.rank, corrupt=mine
        )
        self._way.timer.finish()
        return found

    def _calls(self, pace: Pace) -> int:
        return (pace.per_graph or 1) * self._options.aggregated * self._messages


def _warmup(bench: Bench, step: Sequence[Point]) -> int:
    """Untimed calls of every point of ``step``; more where its class is new. The same on every rank."""
    classes = {
        (p.collective, p.dtype, p.op, p.ranks, p.timing, size_class(p.size_bytes)) for p in step
    }
    fresh = not classes <= bench.warm
    bench.warm.update(classes)
    if bench.options.warmup is not None:
        return bench.options.warmup
    return max(warmup_calls(point.size_bytes) for point in step) if fresh else AGAIN


def _wrong(point: Point, told: Sequence[Sequence[float]]) -> tuple[int | None, WrongElement | None]:
    """Wrong elements over the point's ranks, and the first of the lowest rank that has any."""
    if not checkable(point):
        return None, None
    found = {rank: told[rank][:4] for rank in sorted(ranks_of(point))}
    first = next(
        (WrongElement(r, int(i), want, got) for r, (n, i, want, got) in found.items() if n), None
    )
    return int(sum(row[0] for row in found.values())), first


def _measurement(
    options: BenchOptions, loop_us: float, samples: GroupSamples, pace: Pace
) -> Measurement:
    summary = samples.summary()
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
        calls_per_graph=pace.per_graph,
        aggregated=options.aggregated,
        blocking=options.blocking,
    )
