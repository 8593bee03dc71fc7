"""From a resolved sweep to what each room wants to know of it."""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from clusterlab import __version__
from clusterlab.bench.options import BenchOptions
from clusterlab.bench.support import unsupported_reason
from clusterlab.report.console.nccl_table import TableOptions
from clusterlab.runs.sweeping.job import Output, SweepJob
from clusterlab.runs.sweeping.plan import Skipped, SweepConfig, Unsupported
from clusterlab.runs.sweeping.sweep import SweepStart


def unsupported_by(backend: str, world_size: int) -> Unsupported:
    """What ``backend`` lacks, as the plan asks for it."""
    return lambda name, dtype, op: unsupported_reason(backend, world_size, name, dtype, op)


def job_of(start: SweepStart, run_path: Path) -> SweepJob:
    """What every rank is told."""
    return SweepJob(
        run_path=run_path,
        config=start.config,
        options=bench_options(start.config, start.corrupt),
        output=output_of(start),
    )


def bench_options(config: SweepConfig, corrupt: tuple[int, int] | None) -> BenchOptions:
    """How each point is measured."""
    return BenchOptions(
        iterations=config.iterations,
        warmup=config.warmup,
        check=config.check,
        deadline_s=config.deadline_s,
        median_within=config.median_within,
        budget_s=config.budget_s,
        aggregated=config.aggregated,
        blocking=config.blocking,
        graph_launches=config.graph_launches,
        keep_going=config.keep_going,
        memory=config.memory,
        corrupt=corrupt,
    )


def output_of(start: SweepStart) -> Output:
    """How rank 0 shows the sweep."""
    config = start.config
    sizes = config.sizes_bytes
    by_bytes = _constant_step(sizes)
    step = float(by_bytes) if by_bytes else (sizes[1] / sizes[0] if len(sizes) > 1 else 2.0)
    table = TableOptions(
        min_bytes=sizes[0],
        max_bytes=sizes[-1],
        step=step,
        step_is_bytes=bool(by_bytes),
        warmup=config.warmup,
        iterations=config.iterations,
        check=config.check,
        per_iteration=start.per_iteration,
    )
    return Output(
        start.as_json,
        start.strict_table,
        table,
        f"clusterlab {__version__} {_torch()} {config.backend}",
    )


def _constant_step(sizes: Sequence[int]) -> int | None:
    """The step in bytes when at least three sizes are evenly spaced."""
    steps = {b - a for a, b in itertools.pairwise(sizes)}
    return steps.pop() if len(sizes) > 2 and len(steps) == 1 else None


def _torch() -> str:
    try:
        return f"torch {version('torch')}"
    except PackageNotFoundError:
        return "torch unknown"


def note_skipped(skipped: Sequence[Skipped]) -> None:
    """Say on stderr what was left out and why, one line per reason."""
    reasons = Counter(s.reason for s in skipped)
    for reason, count in reasons.items():
        print(f"clusterlab: {count} combinations left out: {reason}", file=sys.stderr)
