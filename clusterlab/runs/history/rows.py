"""What an index over many runs keeps of a run and of each of its rows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from clusterlab.core.errors import UsageError
from clusterlab.core.patterns import group_name
from clusterlab.core.placement import Placement
from clusterlab.core.rows import Row
from clusterlab.records.columns import NUMBER, TEXT, WHOLE
from clusterlab.records.store import RECORDS
from clusterlab.report.data import ReportData
from clusterlab.verdict.judge import judge_row
from clusterlab.verdict.run_verdict import quantile
from clusterlab.verdict.steady import unsteady

KINDS: dict[str, str] = {
    **dict.fromkeys(
        (
            *("collective", "dtype", "op", "timing", "beside", "uneven", "backend"),
            *("ranks", "group", "hosts", "verdict", "algorithm", "protocol", "bottleneck"),
            *("library_version", "driver_version", "memory", "throttled"),
        ),
        TEXT,
    ),
    **dict.fromkeys(
        (
            *("root", "in_place", "world_size", "requested_bytes", "size_bytes", "aggregated"),
            *("blocking", "iterations", "wrong", "attempt", "steady", "time_s"),
        ),
        WHOLE,
    ),
    **dict.fromkeys(
        (
            *("time_us_loop", "time_us_p50", "p50_low_us", "p50_high_us"),
            *("busbw_GBps", "predicted_busbw_GBps", "bound_busbw_GBps", "ratio"),
        ),
        NUMBER,
    ),
}
"""The columns. ``ranks``: ``0-3,8`` in the collective's order, null for all; ``group``: their name;
``hosts``: theirs as a JSON list, null for all of the run or where not known; ``time_s``: since 1970.
"""

_PLAIN = tuple(
    name for name in KINDS if name not in {"ranks", "group", "hosts", "verdict", "steady", "time_s"}
)

_WHOLE = tuple(name for name in _PLAIN if KINDS[name] == WHOLE)
_MOST = 1 << 62


def row_values(
    rows: Sequence[Row], placement: Placement | None, created_s: int
) -> dict[str, list[Any]]:
    """The columns of a run's ``rows``; a row that does not say when it was measured is of ``created_s``."""
    _refuse_impossible(rows)
    values: dict[str, list[Any]] = {name: [getattr(row, name) for row in rows] for name in _PLAIN}
    groups = {row.ranks: _group(row.ranks, placement) for row in rows}
    values["ranks"], values["group"], values["hosts"] = (
        [groups[row.ranks][i] for row in rows] for i in range(3)
    )
    values["verdict"] = [judge_row(row).verdict.value for row in rows]
    values["steady"] = [not unsteady(row) for row in rows]
    values["time_s"] = [seconds(row.time_utc, created_s) for row in rows]
    for name in ("time_us_loop", "p50_low_us", "p50_high_us", "time_us_p50"):
        values[name] = [float("nan") if v is None else v for v in values[name]]
    return values


def _refuse_impossible(rows: Sequence[Row]) -> None:
    """JSON holds whole numbers of any length, and any ranks."""
    for row in rows:
        for name in _WHOLE:
            value = getattr(row, name)
            if value is not None and not -_MOST <= value <= _MOST:
                raise UsageError(f"{value:.3e}", where=f"{RECORDS}: {name}", expected="a count")
        if row.ranks is not None and not all(0 <= rank <= _MOST for rank in row.ranks):
            raise UsageError(f"{row.ranks}"[:60], where=f"{RECORDS}: ranks", expected="ranks")


def _group(
    ranks: tuple[int, ...] | None, placement: Placement | None
) -> tuple[str | None, str | None, str | None]:
    if ranks is None:
        return None, None, None
    known = placement is not None and all(0 <= r < placement.world_size for r in ranks)
    hosts = [placement.ranks[r].host for r in ranks] if placement is not None and known else None
    return (
        spans(ranks),
        group_name(ranks, placement if known else None),
        None if hosts is None else json.dumps(list(dict.fromkeys(hosts))),
    )


def spans(ranks: Sequence[int]) -> str:
    """Ranks in their order: ``0-3,8``; what counts up by one is joined from three on."""
    parts: list[str] = []
    at = 0
    while at < len(ranks):
        end = at
        while end + 1 < len(ranks) and ranks[end + 1] == ranks[end] + 1:
            end += 1
        if end - at >= 2:
            parts.append(f"{ranks[at]}-{ranks[end]}")
            at = end + 1
        else:
            parts.append(str(ranks[at]))
            at += 1
    return ",".join(parts)


def seconds(text: str, otherwise: int = 0) -> int:
    """ISO 8601 as seconds since 1970; without a zone it is UTC."""
    try:
        moment = datetime.fromisoformat(text)
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError, OSError):
        return otherwise


def run_values(data: ReportData) -> dict[str, Any]:
    """Plain values of a run, as a list of runs shows them and filters ask for them."""
    info, rows, placement = data.run.info, data.rows, data.placement
    last = info.attempts[-1] if info.attempts else None
    context = last.context if last else info.created_by
    environment = {**info.created_by.environment, **context.environment}
    ratios = [row.ratio for row in rows if row.ratio is not None and row.ratio == row.ratio]
    return {
        "run_id": info.run_id,
        "name": info.name,
        "created_utc": info.created_utc,
        "kind": _kind(info.configuration, rows),
        "cluster": environment.get("SLURM_CLUSTER_NAME"),
        "job": environment.get("SLURM_JOB_ID"),
        "fabric": data.fabric.design if data.fabric else None,
        "fabric_sha256": data.fabric.sha256 if data.fabric else None,
        **_placed(placement),
        "backends": _different(row.backend for row in rows),
        "collectives": _different(row.collective for row in rows),
        "points": len(rows),
        "planned": info.planned_points,
        "attempts": len(info.attempts),
        "ended_utc": last.ended_utc if last else None,
        "exit_code": last.exit_code if last else None,
        "verdict": data.judged.verdict.value,
        "reason": data.judged.reason,
        "wrong": sum(row.wrong or 0 for row in rows),
        "median_ratio": quantile(ratios, 0.5) if ratios else None,
        "library_version": _different(row.library_version for row in rows),
        "driver_version": _different(row.driver_version for row in rows),
        "findings": sorted({finding.code for finding in data.findings}),
        "links": sorted({link for finding in data.findings for link in finding.links}),
        "notes": list(data.notes),
        "error": None,
    }


def damaged_values(name: str, error: str) -> dict[str, Any]:
    """Of a run that cannot be read."""
    return {"run_id": name, "name": name, "created_utc": _of_name(name), "error": error}


def _of_name(name: str) -> str:
    """When a directory was made, by what its name begins with."""
    try:
        return f"{datetime.strptime(name[:16], '%Y%m%dT%H%M%SZ'):%Y-%m-%dT%H:%M:%SZ}"
    except ValueError:
        return ""


def _kind(configuration: Mapping[str, Any], rows: Sequence[Row]) -> str:
    """What the run was of: sweep, pairs, groups, overlap, soak, training, …"""
    said = configuration.get("measures", configuration.get("command"))
    if said is not None:
        return str(said)
    some = [row for row in rows if row.ranks is not None]
    if not some:
        return "sweep"
    return "pairs" if all(len(row.ranks or ()) == 2 for row in some) else "groups"


def _placed(placement: Placement | None) -> dict[str, Any]:
    if placement is None:
        return {"hosts": [], "ranks": None, "gpus": [], "layout": None, "machine": None}
    each = sorted({sum(r.host == host for r in placement.ranks) for host in placement.hosts})
    named = sorted(f"{rank.host}/{rank.gpu or 'cpu'}" for rank in placement.ranks)
    return {
        "hosts": list(placement.hosts),
        "ranks": placement.world_size,
        "gpus": _different(rank.gpu_name for rank in placement.ranks),
        "layout": f"{len(placement.hosts)} × {' or '.join(map(str, each))}",
        "machine": hashlib.sha256("\n".join(named).encode("utf-8", "replace")).hexdigest()[:16],
    }


def _different(values: Any) -> list[str]:
    return sorted({value for value in values if value})
