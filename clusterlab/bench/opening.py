"""What a sweep needs before its first step: checks, groups, ways to call, memory; and its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from clusterlab.bench.buffers import Arena
from clusterlab.bench.check import checkable, expected_segments
from clusterlab.bench.common_clock import CommonClock, host_clock_id
from clusterlab.bench.conditions import open_gpu_state
from clusterlab.bench.control import Control
from clusterlab.bench.groups import Groups, check_steps, ranks_of
from clusterlab.bench.labels import point_label
from clusterlab.bench.memory import refuse_too_large
from clusterlab.bench.options import BenchOptions
from clusterlab.bench.step import Bench
from clusterlab.bench.support import refuse_ways
from clusterlab.bench.ways import open_ways
from clusterlab.bench.witness import Witness
from clusterlab.core.errors import UsageError
from clusterlab.core.rows import Point
from clusterlab.launch.identity import RankIdentity

if TYPE_CHECKING:
    import torch


def check_sweep(steps: Sequence[Sequence[Point]], options: BenchOptions, world_size: int) -> None:
    """Raise UsageError for what cannot be measured so, on the default process group's backend."""
    points = [point for step in steps for point in step]
    check_steps(steps, world_size)
    _refuse_unseen_corruption(points, options)
    refuse_ways(points, options, "nccl" if current_device().type == "cuda" else "gloo")


def open_bench(
    identity: RankIdentity,
    steps: Sequence[Sequence[Point]],
    options: BenchOptions,
    witness: Witness | None = None,
) -> Bench:
    """What stays the same for all of ``steps``, which have been checked. Collective.

    Raises UsageError, on every rank alike, for sizes beyond memory and a timing mode that cannot be had.
    """
    points = [point for step in steps for point in step]
    device = current_device()
    control = Control(device, identity.world_size)
    refuse_too_large(points, identity, control)
    groups = Groups(steps, identity.world_size)
    return Bench(
        identity,
        options,
        Arena(points, device, memory=options.memory),
        control,
        groups,
        open_ways(points, groups, control, options),
        CommonClock(control, host_clock_id()),
        open_gpu_state(device),
        witness,
    )


def close_bench(bench: Bench) -> None:
    """End communicators and groups. Collective; not after a failure, when peers may be gone."""
    for way in bench.ways.values():
        way.close()
    bench.groups.close()


def current_device() -> torch.device:
    """Where the default process group moves data: this rank's GPU under NCCL, else the CPU."""
    import torch
    import torch.distributed as dist

    if dist.get_backend() == "nccl":
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


def _refuse_unseen_corruption(points: Sequence[Point], options: BenchOptions) -> None:
    """A test's ``corrupt`` must hit an element that every point's check looks at on its rank, where that
    receives anything, or it proves nothing.
    """
    if options.corrupt is None or not options.check:
        return
    rank, index = options.corrupt
    held = [point for point in points if rank in ranks_of(point)]
    if not held:
        raise UsageError(f"no point has rank {rank}", where="corrupt")
    seen = 0
    for point in filter(checkable, held):
        segments = expected_segments(point, ranks_of(point).index(rank))
        if not any(segment.length for segment in segments):
            continue
        seen += 1
        if not any(s.offset <= index < s.offset + s.length for s in segments):
            raise UsageError(
                f"{point_label(point)} has no element {index} on rank {rank}", where="corrupt"
            )
    if not seen:
        raise UsageError(
            f"rank {rank} receives nothing that is checked", where="corrupt",
            expected="a rank that receives, as a root does",
        )  # fmt: skip
