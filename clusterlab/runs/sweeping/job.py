"""What every rank of a sweep is told before it starts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from clusterlab.bench.options import BenchOptions
from clusterlab.report.console.nccl_table import TableOptions
from clusterlab.runs.sweeping.plan import SweepConfig

JOIN_TIMEOUT_S = 120.0
"""How long ranks wait for each other to appear."""

START_S = 3 * JOIN_TIMEOUT_S
"""How long a rank may take to its first point: its steps end earlier by themselves, unless the process that
serves the store is stopped, which answers nobody and closes nothing."""


@dataclass(frozen=True, slots=True)
class Output:
    """How rank 0 shows rows: nccl-tests' table (``strict``: its columns only), or JSON lines."""

    as_json: bool
    strict: bool
    table: TableOptions
    versions: str


@dataclass(frozen=True, slots=True)
class SweepJob:
    """One sweep, the same on every rank.

    ``run_path`` is the run directory, made before the ranks start.
    """

    run_path: Path
    config: SweepConfig
    options: BenchOptions
    output: Output
