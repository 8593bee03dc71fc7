"""Sizes against memory, before anything is allocated."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from clusterlab.bench.buffers import block_bytes
from clusterlab.bench.control import Control
from clusterlab.core.errors import UsageError
from clusterlab.core.rows import Point
from clusterlab.core.sizes import human_size
from clusterlab.launch.identity import RankIdentity

USABLE_SHARE = 0.9
"""Of the memory that is free now. The rest is for whatever else runs, and for the check's tables."""

GLOO_SCRATCH = 1
"""gloo works on a copy of the buffer in reduce_scatter and reduce: one more block per rank."""


def bytes_per_rank(point: Point, backend: str) -> int:
    """Memory that one rank needs to measure ``point``."""
    first, second = block_bytes(point)
    return first + second + (GLOO_SCRATCH * max(first, second) if backend == "gloo" else 0)


def oversize_error(
    points: Sequence[Point], backend: str, ranks: int, available_bytes: float, memory: str
) -> UsageError | None:
    """The error when ``ranks`` ranks that share ``available_bytes`` cannot hold the largest point.

    ``memory`` names whose memory it is. Names the largest of the points' sizes that would fit.
    """
    budget = int(available_bytes * USABLE_SHARE) // ranks
    worst = max(points, key=lambda p: bytes_per_rank(p, backend))
    need = bytes_per_rank(worst, backend)
    if need <= budget:
        return None
    fits = [p.requested_bytes for p in points if bytes_per_rank(p, backend) <= budget]
    limit = worst.requested_bytes * budget // need
    return UsageError(
        f"{worst.collective} of {human_size(worst.requested_bytes)} needs {human_size(need)} on each of "
        f"{ranks} ranks, and {human_size(available_bytes)} of {memory} is free",
        where="size",
        expected=f"at most {human_size(limit)}",
        fix=f"of the sizes asked for, {human_size(max(fits))} is the largest that fits"
        if fits
        else None,
    )


def refuse_too_large(points: Sequence[Point], identity: RankIdentity, control: Control) -> None:
    """Raise UsageError, on every rank alike, when some rank's memory cannot hold the points.

    A collective call: all ranks look at their free memory before any of them allocates.
    """
    on_gpu = control.device.type == "cuda"
    ranks = 1 if on_gpu else identity.local_world_size
    free = gpu_free_bytes() if on_gpu else host_free_bytes()
    # the least free memory per rank decides; largest() of the negative is the smallest
    (negative,) = control.largest([-free / ranks])
    error = oversize_error(
        points,
        "nccl" if on_gpu else "gloo",
        ranks,
        -negative * ranks,
        "GPU memory" if on_gpu else "memory",
    )
    if error is not None:
        raise error


def gpu_free_bytes() -> int:
    """Free memory of the current GPU."""
    import torch

    return int(torch.cuda.mem_get_info()[0])


def host_free_bytes() -> int:
    """Memory this process can still get: the host's, or its cgroup's where that is less."""
    import psutil

    free = int(psutil.virtual_memory().available)
    cgroup = cgroup_free_bytes()
    return free if cgroup is None else min(free, cgroup)


def cgroup_free_bytes(
    membership: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")
) -> int | None:
    """Memory left under this process's cgroup (v2) limits; None without one.

    Containers and Slurm limit memory so; the host's free memory does not show it. A limit on any
    ancestor counts.
    """
    try:
        line = next(x for x in membership.read_text().splitlines() if x.startswith("0::"))
    except (OSError, StopIteration):
        return None
    folder = root / line.removeprefix("0::").lstrip("/")
    left = []
    for level in (folder, *folder.parents):
        if not level.is_relative_to(root):
            break
        limit = _number(level / "memory.max")
        used = _number(level / "memory.current")
        if limit is not None and used is not None:
            left.append(max(0, limit - used + _page_cache(level / "memory.stat")))
    return min(left, default=None)


def _page_cache(path: Path) -> int:
    """Bytes of unused file pages, which count as used until somebody else needs the memory."""
    try:
        fields = dict(line.split(maxsplit=1) for line in path.read_text().splitlines())
    except OSError:
        return 0
    return int(fields.get("inactive_file", 0))


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # absent, or "max"
        return None
