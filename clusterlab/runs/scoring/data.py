"""A score as plain data: what ``clusterlab predict score --json`` prints."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from clusterlab.cost.scoring.scored import ScoredPoint, by_table
from clusterlab.cost.scoring.scores import TableScore
from clusterlab.runs.scoring.score import ByGroup, ScoreReport, View
from clusterlab.runs.scoring.worst_row import Worst

_LISTED = 1000


def report_data(report: ScoreReport, *, rows: bool = False) -> dict[str, Any]:
    """The report as plain data: what ``--json`` prints; with each row, if wanted."""
    data = {
        **_view_data(report.ours),
        "nccl_model": _view_data(report.library),
        "plateau": asdict(report.plateau),
        "tables": [_table_data(t) for t in report.tables],
        "systems": [asdict(one) for one in report.systems[:_LISTED]],
        "intervals": [asdict(one) for one in report.intervals],
        "misses": report.misses,
        "assumed": list(report.assumed),
        "notes": list(report.notes),
        "unusable": [
            {"line": line, "why": why} for line, why in report.measured.unusable[:_LISTED]
        ],
        "worst": None if report.worst is None else _worst_data(report.worst),
        "no_verdict": report.no_verdict,
    }
    if rows:
        data["rows"] = [_row_data(one) for one in rows_in_order(report)]
    return data


def rows_in_order(report: ScoreReport) -> list[ScoredPoint]:
    """The rows that are scored, table by table, each in order of size."""
    return [one for rows in by_table(report.scored).values() for one in rows]


def _worst_data(found: Worst) -> dict[str, Any]:
    return {**_row_data(found.row), "save_fabric": found.save, "explain": found.command}


def _row_data(one: ScoredPoint) -> dict[str, Any]:
    """A row as plain data; times in µs."""
    point = one.point
    algorithm, _, protocol = one.algorithm.partition("/")
    return {
        "table": point.table,
        "system": point.system,
        "collective": point.collective,
        "n_nodes": point.n_nodes,
        "n_ranks": point.n_ranks,
        "size_bytes": point.size_bytes,
        "dtype": point.dtype or None,
        "in_place": point.in_place,
        "measured_us": point.time_us,
        "predicted_us": one.predicted_us,
        "error_pct": None if one.error is None else one.error * 100,
        "nccl_model_us": one.library_us,
        "bound_us": one.bound_us,
        "low_us": one.low_us,
        "high_us": one.high_us,
        "algorithm": algorithm or None,
        "protocol": protocol or None,
        "limited_by": one.limited_by or None,
        "line": point.line,
        "samples": point.samples,
        "not_predicted": one.reason or None,
    }


def _view_data(view: View) -> dict[str, Any]:
    def rows(groups: ByGroup) -> list[dict[str, Any]]:
        return [{**key, **asdict(found)} for key, found in groups]

    return {
        "overall": asdict(view.overall),
        "groups": rows(view.groups),
        "by_size_band": rows(view.by_size_band),
        "by_nodes": rows(view.by_nodes),
    }


def _table_data(table: TableScore) -> dict[str, Any]:
    data = asdict(table)
    return {
        **{k: v for k, v in data.items() if k not in ("figures", "library")},
        **data["figures"],
        "nccl_model_mape_pct": table.library.mape_pct,
    }
