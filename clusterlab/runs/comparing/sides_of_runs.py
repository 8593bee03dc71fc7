"""A run directory, or a records.jsonl alone, as one side of a comparison."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from clusterlab.core.placement import Placement
from clusterlab.core.rows import Row
from clusterlab.core.sizes import human_size
from clusterlab.records.documents import FabricReference, read_fabric, read_placement
from clusterlab.records.run_dir import open_run
from clusterlab.records.store import latest_rows, read_records, schema_problems
from clusterlab.verdict.against.side import Side, split_passes, timed


def side_of_run(path: Path) -> Side:
    """The run in ``path``. Raises UsageError when it is none or is damaged."""
    run = open_run(path)
    info, records = run.info, run.records()
    latest = latest_rows(records.rows).rows
    placement, fabric = read_placement(run.path), read_fabric(run.path)
    context = info.attempts[-1].context if info.attempts else info.created_by
    points, passes, problems = split_passes(t for r in records.rows if (t := timed(r)))
    planned = info.planned_points
    facts: dict[str, dict[str, Any]] = {
        "configuration": dict(info.configuration),
        "versions": dict(context.versions),
        "environment": dict(context.environment),
        "placement": _placement(placement),
        "fabric": _fabric(fabric),
        "measured": _measured(latest),
    }
    return Side(
        name=info.run_id,
        points=points,
        passes=passes,
        facts=facts,
        run_id=info.run_id,
        machine=_machine(placement),
        gpus=_gpus(placement),
        fabric=None if fabric is None else f"{fabric.design} ({fabric.sha256[:8]})",
        layout=_layout(placement),
        backend=_only(row.backend for row in latest),
        missing=None if planned is None else max(0, planned - len(latest) + len(_untimed(latest))),
        problems=(*problems, *schema_problems(run.records_path)),
        notes=(*records.warnings, *_of_untimed(latest)),
    )


def side_of_records(path: Path) -> Side:
    """Rows without their run: nothing is known but what they say. Raises UsageError."""
    records = read_records(path)
    latest = latest_rows(records.rows).rows
    points, passes, problems = split_passes(t for r in records.rows if (t := timed(r)))
    return Side(
        name=str(path),
        points=points,
        passes=passes,
        facts={"measured": _measured(latest)},
        backend=_only(row.backend for row in latest),
        problems=(*problems, *schema_problems(path)),
        notes=(*records.warnings, *_of_untimed(latest)),
    )


def _untimed(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if timed(row) is None]


def _of_untimed(rows: Sequence[Row]) -> tuple[str, ...]:
    """Rows that say no time are points that are missing."""
    count = len(_untimed(rows))
    return (f"{count} rows without a time that a call can take are left out",) if count else ()


def _placement(placement: Placement | None) -> dict[str, Any]:
    if placement is None:
        return {}
    ranks = placement.ranks
    return {
        "hosts": list(placement.hosts),
        "gpus": [rank.gpu for rank in ranks],
        "gpu_names": list(dict.fromkeys(rank.gpu_name for rank in ranks)),
        "numa": [rank.numa for rank in ranks],
        "cores": [_spans(rank.cores) for rank in ranks],
        "nics": [",".join(rank.nics) for rank in ranks],
    }


def _spans(numbers: Sequence[int]) -> str:
    """``0-3,8``."""
    keyed = groupby(enumerate(sorted(numbers)), key=lambda pair: pair[1] - pair[0])
    runs = [[number for _, number in group] for _, group in keyed]
    return ",".join(str(r[0]) if len(r) == 1 else f"{r[0]}-{r[-1]}" for r in runs)


def _fabric(fabric: FabricReference | None) -> dict[str, Any]:
    if fabric is None:
        return {}
    return {
        "design": fabric.design,
        "sha256": fabric.sha256,
        "overrides": dict(fabric.overrides),
        "calibration": fabric.calibration,
    }


def _machine(placement: Placement | None) -> tuple[str, ...] | None:
    if placement is None:
        return None
    return tuple(f"{rank.host}/{rank.gpu or 'cpu'}" for rank in placement.ranks)


def _gpus(placement: Placement | None) -> tuple[str, ...] | None:
    if placement is None:
        return None
    return tuple(sorted({rank.gpu_name for rank in placement.ranks if rank.gpu_name})) or None


def _layout(placement: Placement | None) -> str | None:
    if placement is None:
        return None
    hosts = Counter(rank.host for rank in placement.ranks)
    each = sorted(set(hosts.values()))
    return f"{len(hosts)} × {' or '.join(map(str, each))}"


def _measured(rows: Sequence[Row]) -> dict[str, Any]:
    """What the rows say of how they were measured, and what the library chose."""
    found: dict[str, Any] = {
        name: _values(getattr(row, name) for row in rows)
        for name in (
            "backend",
            "library_version",
            "driver_version",
            "transport",
            "gdr",
            "memory",
            "library_channels",
            "throttled",
        )
    }
    clocks = [c for row in rows if (c := row.gpu_clock_mhz) is not None and math.isfinite(c)]
    if clocks:
        found["lowest gpu_clock_mhz"] = min(clocks)
    for key, own in groupby(
        sorted(
            (row for row in rows if row.library_algorithm and row.ranks is None),
            key=lambda row: (row.collective, row.timing, row.dtype, row.size_bytes),
        ),
        key=lambda row: (row.collective, row.timing, row.dtype),
    ):
        found[f"choice.{' '.join(key)}"] = _choices(list(own))
    return found


def _choices(rows: Sequence[Row]) -> str:
    """``ring/ll to 256 KiB, ring/simple to 4 GiB``."""
    parts = []
    for choice, own in groupby(rows, key=lambda r: f"{r.library_algorithm}/{r.library_protocol}"):
        parts.append(f"{choice} to {human_size(list(own)[-1].size_bytes)}")
    return ", ".join(parts)


def _values(values: Iterable[object]) -> Any:
    known = sorted(
        {value for value in values if value not in {None, ""}},
        key=lambda value: (value if isinstance(value, int) else 0, str(value)),
    )
    return known[0] if len(known) == 1 else known or None


def _only(values: Iterable[str]) -> str | None:
    known = set(values)
    return known.pop() if len(known) == 1 else None
