"""Measure steps of points on an initialised process group, each with its data check."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from clusterlab.bench.buffers import Arena, shape_of
from clusterlab.bench.control import Control
from clusterlab.bench.groups import Groups, check_steps, is_transfer, ranks_of, seat_of
from clusterlab.bench.memory import refuse_too_large
from clusterlab.bench.options import BenchOptions
from clusterlab.bench.step import Bench, measure_step
from clusterlab.bench.support import refuse_ways
from clusterlab.bench.watchdog import Aftermath, Watchdog
from clusterlab.bench.ways import open_ways
from clusterlab.core.errors import UsageError
from clusterlab.core.pairs import between
from clusterlab.core.rows import Measurement, Point
from clusterlab.launch.identity import RankIdentity

if TYPE_CHECKING:
    import torch
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
) -> None:
    """Measure ``steps`` in order; all ranks of the default process group pass the same list.

    The points of a step run at the same time, on ranks (``Point.ranks``) of which none is in two of them;
    ranks in none wait. Two ranks' sends and receives go over the default group, anything else of some ranks
    over a group of theirs. Times are those of the point's slowest rank, of a ping-pong those of its first.

    Under NCCL each rank must have chosen its GPU (``torch.cuda.set_device``) before. ``store`` is the
    job's store: with it, a passed deadline names the ranks that did not arrive; ``aftermath`` is what then
    becomes of that. The first step with wrong data is the last, on all ranks alike, unless
    ``options.keep_going``.

    Raises UsageError, on all ranks alike and before allocating, for sizes beyond memory and for a timing
    mode that this backend does not have; DeadlineError when the connection to another rank is lost. A step
    that outlasts ``options.deadline_s`` ends the process with exit code 4 (see watchdog).
    """
    points = [point for step in steps for point in step]
    if not points:
        return
    check_steps(steps, identity.world_size)
    _refuse_unseen_corruption(points, options)
    device = current_device()
    refuse_ways(points, options, "nccl" if device.type == "cuda" else "gloo")
    control = Control(device, identity.world_size)
    with Watchdog(identity, options.deadline_s, store, aftermath) as watchdog:
        with watchdog.guard(0, "start of the sweep"):
            refuse_too_large(points, identity, control)
            groups = Groups(steps, identity.world_size)
            ways = open_ways(points, groups, device, options)
        bench = Bench(identity, options, Arena(points, device), control, ways)
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
            for way in ways.values():
                way.close()
            groups.close()


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


def point_label(point: Point) -> str:
    """A point in a few words, for messages: ``all_reduce float32 sum 4194304 B in place``, or
    ``send float32 65536 B rank 0 → 3``.
    """
    if is_transfer(point) and point.ranks is not None:
        pair = between(point.collective, point.ranks)
        return f"{point.collective} {point.dtype} {point.size_bytes} B rank {pair}"
    parts = [point.collective, point.dtype]
    parts += [point.op] if point.op else []
    parts += [f"root {point.root}"] if point.root is not None else []
    place = "in place" if point.in_place else "out of place"
    parts += [f"{point.size_bytes} B", place]
    parts += [f"ranks {','.join(map(str, point.ranks))}"] if point.ranks is not None else []
    return " ".join(parts)


def _refuse_unseen_corruption(points: Sequence[Point], options: BenchOptions) -> None:
    """A test's ``corrupt`` must hit an element that every point of its rank has, or it proves nothing."""
    if options.corrupt is None:
        return
    rank, index = options.corrupt
    held = [point for point in points if rank in ranks_of(point)]
    if not held:
        raise UsageError(f"no point has rank {rank}", where="corrupt")
    for point in held:
        if not 0 <= index < shape_of(point).recv_elements:
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
