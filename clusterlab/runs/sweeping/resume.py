"""Go on with an interrupted sweep: the configuration is in its run directory, and so is what is done."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from clusterlab.core.errors import UsageError
from clusterlab.core.suggest import reject_unknown_keys
from clusterlab.records.run_dir import RunDir, open_run
from clusterlab.runs.directory import announced
from clusterlab.runs.sweeping.plan import SweepConfig
from clusterlab.runs.sweeping.sweep import SweepStart, run_sweep


def resume(path: Path, *, as_json: bool, strict_table: bool) -> int:
    """Measure what the run in ``path`` still lacks; the exit code.

    Raises UsageError when it is no run of a sweep. A complete run is left as it is.
    """
    run = open_run(path)
    config, world_size = sweep_of(run)
    if run.info.planned_points is not None and _points_done(run) >= run.info.planned_points:
        print(f"clusterlab: {run.path} is complete: all {run.info.planned_points} points are there")
        return 0
    return run_sweep(
        SweepStart(
            config=config,
            ranks=world_size,
            open_run=lambda: announced(open_run(run.path)),
            as_json=as_json,
            strict_table=strict_table,
        )
    )


def _points_done(run: RunDir) -> int:
    return len({row.point for row in run.records().rows})


def sweep_of(run: RunDir) -> tuple[SweepConfig, int]:
    """The sweep that ``run`` holds, and its number of ranks."""
    where = str(run.path / "run.json")
    held = dict(run.info.configuration)
    if not held:
        raise UsageError(
            "no sweep was started in it",
            where=str(run.path),
            fix="run the same command again with CLUSTERLAB_RUN_DIR set to it",
        )
    if "measures" in held:
        raise UsageError(
            f"holds no sweep but: {held['measures']}",
            where=str(run.path),
            fix="run the same command again with CLUSTERLAB_RUN_DIR set to it",
        )
    world_size = held.pop("world_size", None)
    names = [f.name for f in fields(SweepConfig)]
    reject_unknown_keys(held, names, where=f"{where}: configuration")
    missing = [n for n in names if n not in held]
    if missing or not isinstance(world_size, int):
        raise UsageError(f"lacks {', '.join(missing) or 'world_size'}", where=where)
    return SweepConfig(**{k: _frozen(v) for k, v in held.items()}), world_size


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
