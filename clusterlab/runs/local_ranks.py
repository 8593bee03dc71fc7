"""How many ranks to start on this machine, over which backend: asked before anything heavy is imported."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from clusterlab.core.errors import UsageError
from clusterlab.launch.gpus import visible_gpus
from clusterlab.runs.sweeping.job import JOIN_TIMEOUT_S, START_S

if TYPE_CHECKING:
    from torch.distributed import Store

    from clusterlab.launch.identity import RankIdentity
    from clusterlab.launch.local_rank import OpenStore

BACKENDS = ("auto", "gloo", "nccl")

DEFAULT_LOCAL_RANKS = 4
"""Ranks on a machine without GPUs when nobody says how many."""

MOST_RANKS_PER_CORE = 64
"""More than this on one machine is a typo, and takes its memory before it fails."""


def check_typed(ranks: int | None, backend: str) -> None:
    """Raise UsageError for a backend that is none and for no ranks at all. Imports no torch."""
    if backend not in BACKENDS:
        raise UsageError(f"{backend!r}", where="--backend", expected="auto, gloo or nccl")
    if ranks is not None and ranks < 1:
        raise UsageError(f"{ranks}", where="--ranks", expected="at least 1")


def backend_here(backend: str) -> str:
    """``backend``, or for auto the one of this machine."""
    if backend != "auto":
        return backend
    return "nccl" if visible_gpus() else "gloo"


def local_world_size(ranks: int | None, backend: str) -> int:
    """As many as asked for; under NCCL at most the GPUs that this process sees."""
    if backend != "nccl":
        most = MOST_RANKS_PER_CORE * len(os.sched_getaffinity(0))
        if (ranks or 1) > most:
            raise UsageError(
                f"{ranks} ranks on {len(os.sched_getaffinity(0))} cores",
                where="--ranks",
                expected=f"at most {most} ({MOST_RANKS_PER_CORE} per core)",
            )
        return ranks or DEFAULT_LOCAL_RANKS
    gpus = visible_gpus()
    if not 0 < (ranks or gpus) <= gpus:
        raise UsageError(
            f"{ranks or 'no'} ranks and {gpus} visible GPUs",
            where="--backend nccl",
            expected="a GPU for each rank",
            fix="use --backend gloo, or look at CUDA_VISIBLE_DEVICES and nvidia-smi",
        )
    return ranks or gpus


def meet_here(identity: RankIdentity, open_store: OpenStore) -> Store:
    """The job's store, on a rank forked here. One that is stopped before it serves it ends all (START_S)."""
    from clusterlab.bench.watchdog import Watchdog

    # Rank 0, which serves it, waits for nobody here.
    reaching = None if identity.rank == 0 else lambda: None
    start = Watchdog(identity, START_S, None, starting_on=reaching)
    with start as watchdog, watchdog.guard(0, "start of the run"):
        return open_store(JOIN_TIMEOUT_S)
