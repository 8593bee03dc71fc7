"""Start a sweep from whichever process this is: a launcher's rank joins its job, anyone else forks ranks."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from clusterlab.records.run_dir import RunDir
from clusterlab.runs.sweeping.plan import SweepConfig


@dataclass(frozen=True, slots=True)
class SweepStart:
    """A resolved sweep that is about to start.

    ``ranks`` is how many local ranks to start (None: the GPUs here, or a default); a launcher decides
    by itself. ``open_run`` finds or makes the run directory, once, on rank 0 or before the ranks start.
    ``as_json`` and ``strict_table`` choose what rank 0 prints. ``corrupt`` is BenchOptions' own.
    ``tests_json``: the rows are written there too, as nccl-tests' -J does.
    ``per_iteration``: its -I.
    """

    config: SweepConfig
    ranks: int | None
    open_run: Callable[[], RunDir]
    as_json: bool
    strict_table: bool
    corrupt: tuple[int, int] | None = None
    tests_json: Path | None = None
    per_iteration: bool = False


def run_sweep(start: SweepStart) -> int:
    """Run the sweep; the exit code."""
    from clusterlab.launch.join import arrive

    arrival = arrive(os.environ)
    if arrival is None:
        from clusterlab.runs.sweeping.local_sweep import run_local_sweep

        return run_local_sweep(start)
    from clusterlab.runs.sweeping.launched_sweep import run_launched_sweep

    return run_launched_sweep(start, arrival)
