"""``clusterlab bench``: from what was typed to a sweep."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from clusterlab.bench.options import MEMORIES, TIMING_MODES
from clusterlab.core.errors import UsageError
from clusterlab.core.suggest import unknown
from clusterlab.runs.directory import given_or_new_run
from clusterlab.runs.local_ranks import backend_here, check_typed
from clusterlab.runs.sweeping.pairs import resolve_pairs, wants_pairs
from clusterlab.runs.sweeping.plan import SweepConfig, count_or_auto, resolve_config
from clusterlab.runs.sweeping.predicting import given_calibration
from clusterlab.runs.sweeping.request import BenchRequest
from clusterlab.runs.sweeping.sweep import SweepStart, run_sweep
from clusterlab.runs.sweeping.typed_groups import pattern_typed, uneven_typed

_WITH_BARRIERS = (
    ": nccl-tests then has a barrier after each call and leaves it out of the time; here ranks never wait "
    "for each other between timed calls"
)


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
            tests_json=None if request.output_file is None else Path(request.output_file),
            per_iteration=request.per_iteration,
        )
    )


def name_of(config: SweepConfig) -> str:
    """What a run is called when nobody says."""
    if config.of_pairs:
        return "pairs"
    if config.of_groups:
        return config.pattern.partition(":")[0].removesuffix("_one_by_one") + "-sweep"
    return config.collectives[0] if len(config.collectives) == 1 else "sweep"


def resolve(request: BenchRequest) -> SweepConfig:
    """The sweep that ``request`` describes, on the backend that is there."""
    check_typed(request.ranks, request.backend)
    backend = backend_here(request.backend)
    given_calibration(request.calibration, backend)  # refused before ranks start
    _refuse(request, backend)
    config = resolve_pairs(request, backend) if wants_pairs(request) else _of_all(request, backend)
    if request.output_file is not None and (config.of_pairs or config.of_groups):
        raise UsageError(
            "nccl-tests has no file of pairs or groups of ranks", where="-J",
            fix="--json, or records.jsonl in the run directory",
        )  # fmt: skip
    return replace(
        config,
        timings=timings(request.timing, request.graph_launches, backend),
        graph_launches=request.graph_launches or None,
        aggregated=request.aggregated,
        blocking=request.blocking > 0,
        median_within=request.median_within,
        budget_s=request.budget_s,
        keep_going=request.keep_going,
        uneven=uneven_typed(request.uneven),
        calibration=request.calibration,
        memory=request.memory,
    )


def _refuse(request: BenchRequest, backend: str) -> None:
    """Raises UsageError naming the option, before a run directory is made and ranks start."""
    if request.aggregated < 1:
        raise UsageError(f"{request.aggregated}", where="-m", expected="at least 1")
    if request.aggregated > 1 and backend == "gloo":
        raise UsageError(
            f"{request.aggregated}: gloo has no groups of calls",
            where="-m", expected="1, or --backend nccl on GPUs",
        )  # fmt: skip
    if request.aggregated > 1 and wants_pairs(request):
        raise UsageError(
            f"{request.aggregated}: the calls of a ping-pong wait for each other, those of a group do not",
            where="-m", expected="1 with pairs",
        )  # fmt: skip
    if request.memory not in MEMORIES:
        raise unknown("memory", request.memory, MEMORIES)
    if not 0 <= request.blocking <= 2:
        raise UsageError(
            f"{request.blocking}" + (_WITH_BARRIERS if request.blocking == 3 else ""),
            where="-z",
            expected="0, 1 or 2",
        )
    if not 0 < request.median_within < 1:
        raise UsageError(
            f"{request.median_within:g}", where="--within", expected="a share from 0 to 1"
        )
    if not 0 < request.budget_s < 1e9:
        raise UsageError(f"{request.budget_s:g}", where="--budget", expected="seconds above 0")
    if request.output_file is not None and not request.output_file.strip():
        raise UsageError(
            f"{request.output_file!r}", where="-J", expected="the name of a file",
            fix="leave -J out; a variable of a script may be empty",
        )  # fmt: skip
    if request.corrupt is not None and not request.check:
        raise UsageError("nothing would see it with -c 0", where="--corrupt", expected="-c 1")


def _of_all(request: BenchRequest, backend: str) -> SweepConfig:
    """A sweep of all ranks, or of groups of them."""
    pattern = pattern_typed(request.pattern, one_by_one=request.one_by_one)
    config = resolve_config(
        collective_text=request.collective_text,
        begin=request.begin,
        end=request.end,
        factor=request.factor,
        step=request.step,
        dtype_text=request.dtype_text,
        op_text=request.op_text,
        root=request.root,
        place=request.place,
        iterations=count_or_auto(request.iterations, "-n"),
        warmup=count_or_auto(request.warmup, "-w"),
        check=request.check,
        backend=backend,
        deadline_s=request.deadline_s,
        fabric=request.fabric,
    )
    return replace(config, pattern=pattern)


def timings(text: str | None, graph_launches: int, backend: str) -> tuple[str, ...]:
    """The timing modes that were typed, in order; without a word, graph where -G asks for it, else eager.

    Raises UsageError for an unknown mode, and for one that the backend does not have.
    """
    if graph_launches < 0:
        raise UsageError(f"{graph_launches}", where="-G", expected="0 (no graph) or more")
    has = TIMING_MODES if backend == "nccl" else TIMING_MODES[:1]
    if text is None:
        text = "graph" if graph_launches else "eager"
    words = [word.strip().lower() for word in text.split(",")]
    if words == ["all"]:
        return has
    for word in words:
        if word not in TIMING_MODES:
            raise unknown("--timing", word, TIMING_MODES)
        if word not in has:
            raise UsageError(
                f"{word}: {backend} has no CUDA graphs and no calls of NCCL's own",
                where="-G" if graph_launches else "--timing",
                expected=f"{', '.join(has)}, or --backend nccl on GPUs",
            )
    return tuple(dict.fromkeys(words))


def parse_corrupt(text: str | None) -> tuple[int, int] | None:
    """``RANK:INDEX`` as two numbers."""
    if text is None:
        return None
    rank, colon, index = text.partition(":")
    if not (colon and rank.isdecimal() and index.isdecimal()):
        raise UsageError(f"{text!r}", where="--corrupt", expected="RANK:INDEX, such as 1:17")
    return int(rank), int(index)
