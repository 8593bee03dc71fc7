"""Runs that give every dashboard and every rule something to say, as old as they should be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from clusterlab.core.findings import Finding, Severity
from clusterlab.core.placement import local_placement
from clusterlab.core.rows import Row
from clusterlab.core.stepping import StepLine
from clusterlab.records.documents import (
    FabricReference,
    write_fabric,
    write_findings,
    write_placement,
)
from clusterlab.records.lines import STEPS, LineWriter
from clusterlab.records.run_dir import RunDir, create_run, end_attempt, start_attempt
from clusterlab.records.schema import row_to_line
from tests.records.fake_runs import fake_rows, points, renamed

COLLECTIVES = ("all_reduce", "reduce_scatter")
SIZES = (1 << 16, 1 << 20, 1 << 24)
HOSTILE = 'x"} 1\nclusterlab_evil 1 # {a="\\'


def run_of(
    root: Path,
    rows: Iterable[Row] = (),
    *,
    ago: timedelta = timedelta(0),
    name: str = "sweep",
    configuration: Mapping[str, Any] | None = None,
    fabric: str = "hgx-h100",
    exit_code: int | None = 0,
    hosts: tuple[str, ...] = ("node-a",),
) -> RunDir:
    """A run under ``root`` that ended ``ago``, of four ranks a host."""
    at = datetime.now(UTC) - ago
    run = create_run(
        name, root=root, command=("clusterlab", "bench"), configuration=configuration or {}, now=at
    )
    run = start_attempt(run, command=("clusterlab", "bench"), now=at)
    write_placement(run.path, local_placement(4 * len(hosts), hosts[0], cores=(0,)))
    write_fabric(run.path, FabricReference(fabric, "3f" * 32, {}, None))
    run.records_path.write_bytes(b"".join(row_to_line(row) for row in rows))
    return run if exit_code is None else end_attempt(run, exit_code, now=at + timedelta(seconds=9))


def sweep_rows(**options: Any) -> list[Row]:
    """A small sweep; ``options`` as for ``fake_row``."""
    return fake_rows(points(COLLECTIVES, SIZES), **options)


def rail_rows() -> list[Row]:
    """Two groups of two ranks at each point."""
    rows = fake_rows(points(["all_reduce"], SIZES, world_size=2))
    return [renamed(row, ranks=ranks) for row in rows for ranks in ((0, 2), (1, 3))]


def step_lines(count: int = 4, at: datetime | None = None) -> list[StepLine]:
    """Steps of a training; the first warms up."""
    when = f"{at or datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    return [
        StepLine(
            step=number, attempt=1, time_utc=when, loss=5.0 - 0.1 * number,
            step_us=9000.0 if number == 0 else 1000.0, slowest_rank=1, data_us=10.0,
            forward_us=300.0, backward_us=400.0, exposed_us={"dp": 200.0, "tp": 50.0}, bubble_us=0.0,
            optimizer_us=30.0, other_us=10.0, memory_bytes=1 << 28, collectives=7, predicted_us=900.0,
        )
        for number in range(count)
    ]  # fmt: skip


TRAINING = {
    "measures": "training", "strategy": "dp", "backend": "gloo", "train": {"dtype": "bfloat16"},
}  # fmt: skip


def training_run(root: Path, **options: Any) -> RunDir:
    """A run of ``clusterlab train``."""
    run = run_of(root, configuration=TRAINING, name="train_dp", **options)
    with LineWriter(run.path / STEPS) as writer:
        writer.append_all(step_lines())
    return run


def some_runs(root: Path) -> list[Path]:
    """Three slow sweeps in a row, rails, wrong data, a training, and an old run that a dead rank ended."""
    made = [
        run_of(root, sweep_rows(slow=1.6, seed=hour), ago=timedelta(hours=4 - hour), name=HOSTILE)
        for hour in range(3)
    ]
    made += [
        run_of(root, rail_rows(), configuration={"pattern": "rail"}, name=HOSTILE),
        run_of(root, sweep_rows(wrong=3), fabric="dgx-a100", exit_code=1),
        training_run(root),
        run_of(root, sweep_rows(), fabric="old", ago=timedelta(days=30), exit_code=4),
    ]
    dead = Finding("ENDED_EARLY", Severity.FATAL, ("rank 3 died",), "see its log")
    write_findings(made[-1].path, [dead])
    return [run.path for run in made]
