"""``clusterlab bench``: from what was typed to a sweep."""

from __future__ import annotations

from clusterlab.core.errors import UsageError
from clusterlab.runs.directory import given_or_new_run
from clusterlab.runs.pairs import resolve_pairs, wants_pairs
from clusterlab.runs.plan import SweepConfig, resolve_config
from clusterlab.runs.request import BenchRequest
from clusterlab.runs.sweep import SweepStart, run_sweep

BACKENDS = ("auto", "gloo", "nccl")


def run_bench(request: BenchRequest) -> int:
    """Run the sweep that was typed; the exit code."""
    config = resolve(request)
    return run_sweep(
        SweepStart(
            config=config,
            ranks=request.ranks,
            open_run=lambda: given_or_new_run(request.name or name_of(config)),
            as_json=request.as_json,
            strict_table=request.strict_table,
            corrupt=parse_corrupt(request.corrupt),
        )
    )


def name_of(config: SweepConfig) -> str:
    """What a run is called when nobody says."""
    if config.of_pairs:
        return "pairs"
    return config.collectives[0] if len(config.collectives) == 1 else "sweep"


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
    if wants_pairs(request):
        return resolve_pairs(request, backend)
    if request.one_by_one:
        raise UsageError("is for pairs of ranks", where="--one-by-one", expected="bench pairs")
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
