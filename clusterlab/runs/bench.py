"""``clusterlab bench`` as a story: who am I, what to measure, then local ranks or this one rank."""

from __future__ import annotations

import os

from clusterlab.core.errors import UsageError
from clusterlab.runs.plan import SweepConfig, resolve_config
from clusterlab.runs.request import BenchRequest

BACKENDS = ("auto", "gloo", "nccl")


def run_bench(request: BenchRequest) -> int:
    """Run the sweep; the exit code. A launcher's rank joins its job, anyone else starts local ranks."""
    from clusterlab.launch.join import arrive

    config = resolve(request)
    corrupt = parse_corrupt(request.corrupt)
    arrival = arrive(os.environ)
    if arrival is None:
        from clusterlab.runs.local_sweep import run_local_sweep

        return run_local_sweep(request, config, corrupt)
    from clusterlab.runs.launched_sweep import run_launched_sweep

    return run_launched_sweep(request, config, corrupt, arrival)


def resolve(request: BenchRequest) -> SweepConfig:
    """The sweep that ``request`` describes, on the backend that is there."""
    if request.backend not in BACKENDS:
        raise UsageError(f"{request.backend!r}", where="--backend", expected="auto, gloo or nccl")
    if request.ranks is not None and request.ranks < 1:
        raise UsageError(f"{request.ranks}", where="--ranks", expected="at least 1")
    backend = request.backend
    if backend == "auto":
        from clusterlab.launch.gpus import visible_gpus

        backend = "nccl" if visible_gpus() else "gloo"
    return resolve_config(
        collective_text=request.collective_text,
        begin=request.begin,
        end=request.end,
        factor=request.factor,
        step=request.step,
        dtype_text=request.dtype_text,
        op_text=request.op_text,
        root=request.root,
        place=request.place,
        iterations=request.iterations,
        warmup=request.warmup,
        check=request.check,
        backend=backend,
        deadline_s=request.deadline_s,
        fabric=request.fabric,
    )


def parse_corrupt(text: str | None) -> tuple[int, int] | None:
    """``RANK:INDEX`` as two numbers."""
    if text is None:
        return None
    rank, colon, index = text.partition(":")
    if not (colon and rank.isdecimal() and index.isdecimal()):
        raise UsageError(f"{text!r}", where="--corrupt", expected="RANK:INDEX, such as 1:17")
    return int(rank), int(index)
