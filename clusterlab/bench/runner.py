"""Measure steps of points on an initialised process group, each with its data check."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from clusterlab.bench.control import Control
from clusterlab.bench.groups import seat_of
from clusterlab.bench.labels import point_label
from clusterlab.bench.memory import refuse_too_large
from clusterlab.bench.opening import check_sweep, close_bench, current_device, open_bench
from clusterlab.bench.options import BenchOptions
from clusterlab.bench.step import measure_step
from clusterlab.bench.watchdog import Aftermath, Watchdog
from clusterlab.bench.witness import Witness
from clusterlab.core.measurement import Measurement
from clusterlab.core.rows import Point
from clusterlab.launch.identity import RankIdentity

if TYPE_CHECKING:
    from torch.distributed import Store

OnMeasured = Callable[[Point, Measurement, list[float]], None]
"""Rank 0 only: the point, what it took, and each iteration's time (µs) on its slowest rank."""

OnSamples = Callable[[Point, list[float]], None]
"""Every rank of a point: the point and this rank's own time (µs) of each iteration."""


def measure_steps(
    identity: RankIdentity,
    steps: Sequence[Sequence[Point]],
    options: BenchOptions,
    on_measured: OnMeasured,
    *,
    store: Store | None = None,
    on_samples: OnSamples | None = None,
    aftermath: Aftermath | None = None,
    witness: Witness | None = None,
) -> None:
    """Measure ``steps`` in order; all ranks of the default process group pass the same list.

    The points of a step run at the same time, on ranks (``Point.ranks``) of which none is in two of them;
    ranks in none wait. Two ranks' sends and receives go over the default group, anything else of some ranks
    over a group of theirs. Times are those of the point's slowest rank, of a ping-pong those of its first.

    Under NCCL each rank must have chosen its GPU (``torch.cuda.set_device``) before. ``store`` is the
    job's store: with it, a passed deadline names the ranks that did not arrive; ``aftermath`` is what then
    becomes of that. ``witness``, opened before the process group was made, on all ranks or on none, says
    what the library does at each point. The first step with wrong data is the last, on all ranks alike,
    unless ``options.keep_going``.

    Raises UsageError, on all ranks alike and before allocating, for sizes beyond memory and for a timing
    mode that this backend does not have; DeadlineError when the connection to another rank is lost. A step
    that outlasts ``options.deadline_s`` ends the process with exit code 4 (see watchdog).
    """
    points = [point for step in steps for point in step]
    if not points:
        return
    check_sweep(steps, options, identity.world_size)
    with Watchdog(identity, options.deadline_s, store, aftermath) as watchdog:
        with watchdog.guard(0, "start of the sweep"):
            bench = open_bench(identity, steps, options, witness)
        for number, step in enumerate(steps, start=1):
            seat = seat_of(step, identity.rank)
            label = point_label(seat.point if seat else step[0])
            with watchdog.guard(number, label if seat else f"waiting for {label}"):
                measured, own_us = measure_step(bench, step)
            if seat is not None and on_samples is not None:
                on_samples(seat.point, own_us)
            if identity.rank == 0:
                for one in measured:
                    on_measured(one.point, one.measurement, one.slowest_us)
            if not options.keep_going and any(one.measurement.wrong for one in measured):
                break
        with watchdog.guard(len(steps) + 1, "end of the sweep"):
            close_bench(bench)


def measure_points(
    identity: RankIdentity,
    points: Sequence[Point],
    options: BenchOptions,
    on_measured: OnMeasured,
    *,
    store: Store | None = None,
    on_samples: OnSamples | None = None,
    aftermath: Aftermath | None = None,
) -> None:
    """``measure_steps`` of one point after the other."""
    measure_steps(
        identity,
        [(point,) for point in points],
        options,
        on_measured,
        store=store,
        on_samples=on_samples,
        aftermath=aftermath,
    )


def refuse_oversize(identity: RankIdentity, points: Sequence[Point]) -> None:
    """Raise UsageError, on every rank alike, when memory cannot hold ``points``. A collective call.

    ``measure_steps`` looks by itself; this is for whoever does something long before it.
    """
    if points:
        control = Control(current_device(), identity.world_size)
        refuse_too_large(points, identity, control)
