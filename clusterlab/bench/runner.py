"""Measure a list of points on an initialised process group, each with its data check."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterlab.bench.buffers import Arena, shape_of
from clusterlab.bench.check import check_point, reset
from clusterlab.bench.control import Control
from clusterlab.bench.memory import refuse_too_large
from clusterlab.bench.ops import bind
from clusterlab.bench.options import BenchOptions
from clusterlab.bench.timing import Timer, summarise, timer_for
from clusterlab.bench.watchdog import Arrivals, Watchdog
from clusterlab.core.errors import UsageError
from clusterlab.core.pairs import between
from clusterlab.core.rows import Measurement, Point, WrongElement
from clusterlab.launch.identity import RankIdentity

if TYPE_CHECKING:
    import torch
    from torch.distributed import Store

OnMeasured = Callable[[Point, Measurement, list[float]], None]
"""Rank 0 only: the point, what it took, and each iteration's time (µs) on its slowest rank."""

OnSamples = Callable[[Point, list[float]], None]
"""Every rank: the point and this rank's own time (µs) of each iteration."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What stays the same for all points of one sweep."""

    identity: RankIdentity
    options: BenchOptions
    arena: Arena
    control: Control
    timer: Timer


def measure_points(
    identity: RankIdentity,
    points: Sequence[Point],
    options: BenchOptions,
    on_measured: OnMeasured,
    *,
    store: Store | None = None,
    on_samples: OnSamples | None = None,
) -> None:
    """Measure ``points`` in order over the default process group; all ranks pass the same list.

    Under NCCL each rank must have chosen its GPU (``torch.cuda.set_device``) before. ``store`` is the
    job's store: with it, a passed deadline names the ranks that did not arrive. Wrong data does not
    stop the sweep, it is in the Measurement.

    Raises UsageError for sizes beyond memory (on all ranks alike, before allocating) and
    DeadlineError when the connection to another rank is lost. A point that outlasts
    ``options.deadline_s`` ends the process with exit code 4 (see watchdog).
    """
    if not points:
        return
    _refuse_unseen_corruption(points, options)
    device = current_device()
    control = Control(device, identity.world_size)
    arrivals = Arrivals(store, identity.rank, identity.world_size)
    with Watchdog(options.deadline_s, identity.rank, arrivals) as watchdog:
        with watchdog.guard(0, "start of the sweep"):
            refuse_too_large(points, identity, control)
        bench = Bench(identity, options, Arena(points, device), control, timer_for(device))
        for number, point in enumerate(points, start=1):
            with watchdog.guard(number, point_label(point)):
                measurement, own_us, slowest_us = _measure(bench, point)
            if on_samples is not None:
                on_samples(point, own_us)
            if identity.rank == 0:
                on_measured(point, measurement, slowest_us)


def refuse_oversize(identity: RankIdentity, points: Sequence[Point]) -> None:
    """Raise UsageError, on every rank alike, when memory cannot hold ``points``. A collective call.

    ``measure_points`` looks by itself; this is for whoever does something long before it.
    """
    if points:
        control = Control(current_device(), identity.world_size)
        refuse_too_large(points, identity, control)


def point_label(point: Point) -> str:
    """A point in a few words, for messages: ``all_reduce float32 sum 4194304 B in place``, or
    ``send float32 65536 B rank 0 → 3``.
    """
    if point.ranks is not None:
        pair = between(point.collective, point.ranks)
        return f"{point.collective} {point.dtype} {point.size_bytes} B rank {pair}"
    parts = [point.collective, point.dtype]
    parts += [point.op] if point.op else []
    parts += [f"root {point.root}"] if point.root is not None else []
    place = "in place" if point.in_place else "out of place"
    return " ".join([*parts, f"{point.size_bytes} B", place])


def _refuse_unseen_corruption(points: Sequence[Point], options: BenchOptions) -> None:
    """A test's ``corrupt`` must hit an element that every point has, or the test proves nothing."""
    if options.corrupt is None:
        return
    rank, index = options.corrupt
    for point in points:
        if not 0 <= rank < point.world_size or not 0 <= index < shape_of(point).recv_elements:
            raise UsageError(
                f"{point_label(point)} has no element {index} on rank {rank}", where="corrupt"
            )


def current_device() -> torch.device:
    """Where the default process group moves data: this rank's GPU under NCCL, else the CPU."""
    import torch
    import torch.distributed as dist

    if dist.get_backend() == "nccl":
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


def _measure(bench: Bench, point: Point) -> tuple[Measurement, list[float], list[float]]:
    """The Measurement, this rank's own iteration times and those of the slowest rank."""
    options, control, timer = bench.options, bench.control, bench.timer
    rank = bench.identity.rank
    buffers = bench.arena.buffers(point, rank)
    operation = bind(point, buffers, rank)
    reset(point, buffers, rank)
    operation.stage()
    for _ in range(options.warmup):
        operation.call()
    timer.finish()

    control.barrier()
    own_loop_us = timer.loop_us(operation.call, options.iterations)
    control.barrier()
    own_us = timer.each_us(operation.call, options.iterations)
    loop_us, *slowest_us = control.largest([own_loop_us, *own_us])

    outcome = None
    if options.check:
        outcome = check_point(point, buffers, operation, rank, control, corrupt=options.corrupt)
    wrong, first = (outcome.wrong, outcome.first) if outcome else (None, None)
    return measurement_of(options, loop_us, slowest_us, wrong, first), own_us, slowest_us


def measurement_of(
    options: BenchOptions,
    loop_us: float,
    slowest_us: Sequence[float],
    wrong: int | None,
    first_wrong: WrongElement | None,
) -> Measurement:
    """The Measurement from a loop's time per call, every iteration's time, and the data check."""
    summary = summarise(slowest_us)
    return Measurement(
        iterations=options.iterations,
        warmup=options.warmup,
        time_us_loop=loop_us,
        time_us_p50=summary.p50_us,
        time_us_min=summary.min_us,
        time_us_max=summary.max_us,
        time_us_p95=summary.p95_us,
        cv=summary.cv,
        wrong=wrong,
        first_wrong=first_wrong,
    )
