"""A list of runs and a trend as plain values: what --json prints, and what the tables are made of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clusterlab.runs.history.asking import ListedRun
from clusterlab.runs.history.trend import Line, Machine
from clusterlab.verdict.trend.model import Cell, Nodes, Once, Shift, SlowNode, Window
from clusterlab.verdict.trend.windows import median_of, medians

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BUCKETS = 16
"""Of the small picture of a series: medians of neighbouring runs."""


def run_data(run: ListedRun, root: Path) -> dict[str, Any]:
    """One run of a list."""
    said = {name: _known(value) for name, value in run.said.items()}
    return {"run": run.name, "path": str(root / run.name), "state": run.state, **said}


def machine_data(machine: Machine, *, values: bool = False) -> dict[str, Any]:
    """One kind of machine: its cells, nodes, and series; with ``values`` every run of every series."""
    runs, trend = machine.runs, machine.trend
    windows = {i: cell for cell in trend.cells for i in cell.series}
    return {
        **machine.said,
        "runs": len(runs),
        "first_utc": _utc(runs[0]),
        "last_utc": _utc(runs[-1]),
        "wrong_rows": machine.wrong,
        "verdict": trend.what.value,
        "noise": dict(trend.noise),
        "slow_nodes": [_node(node, runs) for node in trend.nodes],
        "cells": [_cell(cell, runs) for cell in trend.cells],
        "together": [asdict(change) for change in trend.together],
        "alone": [
            {
                **_point(machine.lines[one.series]),
                "ratio": one.ratio,
                "since": _run(runs, one.at),
                "hosts": _hosts(machine, one.series),
            }
            for one in trend.alone
        ],
        "series": [
            {
                **_series(line, windows[i], runs),
                **({"values": _values(line, runs)} if values else {}),
            }
            for i, line in enumerate(machine.lines)
        ],
    }


def _utc(run: Once) -> str:
    return f"{datetime.fromtimestamp(run.time_s, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _run(runs: Sequence[Once], at: int | None) -> dict[str, Any] | None:
    return None if at is None else {"run": runs[at].name, "time_utc": _utc(runs[at])}


def _node(node: SlowNode, runs: Sequence[Once]) -> dict[str, Any]:
    collective, timing, band = node.cell
    return {
        "host": node.host,
        "collective": collective,
        "timing": timing,
        "band": band,
        "ratio": node.ratio,
        "low": node.low,
        "high": node.high,
        "runs": node.runs,
        "runs_without": node.without,
        "since": _run(runs, node.since),
        "last_before": _run(runs, node.last_before),
    }


def _cell(cell: Cell, runs: Sequence[Once]) -> dict[str, Any]:
    return {
        **asdict(cell.change),
        "runs": cell.runs,
        "before": _window(cell.before, runs),
        "recent": _window(cell.recent, runs),
        "shifts": [_shift(shift, runs) for shift in cell.shifts],
    }


def _window(window: Window | None, runs: Sequence[Once]) -> dict[str, Any] | None:
    if window is None:
        return None
    return {"first": _run(runs, window.first), "last": _run(runs, window.last)}


def _shift(shift: Shift, runs: Sequence[Once]) -> dict[str, Any]:
    change = shift.change
    return {
        "since": _run(runs, shift.at),
        "last_before": _run(runs, shift.last_before),
        "ratio": change.ratio,
        "low": change.low,
        "high": change.high,
        "points": change.points,
        "proven": shift.tested,
        "differs": list(shift.differs),
        "nodes": _nodes(shift.nodes),
    }


def _nodes(nodes: Nodes) -> dict[str, Any]:
    return {
        "hosts": [asdict(node) for node in nodes.slow],
        "others_as_before": nodes.others_as_before,
        "why_not": nodes.why,
    }


def _point(line: Line) -> dict[str, Any]:
    point = line.series.point
    return {
        **{name: getattr(point, name) for name in _POINT},
        "ranks": None if point.ranks is None else list(point.ranks),
        "group": line.group,
    }


_POINT = (
    *("collective", "dtype", "op", "root", "in_place", "world_size", "size_bytes", "timing"),
    *("beside", "uneven", "aggregated", "blocking"),
)


def _hosts(machine: Machine, series: int) -> list[str]:
    """Of the group, where it is named by them; else of the latest run with the series."""
    line = machine.lines[series]
    if line.hosts:
        return list(line.hosts)
    return list(machine.runs[int(line.series.at[-1])].hosts)


def _series(line: Line, cell: Cell, runs: Sequence[Once]) -> dict[str, Any]:
    series, change = line.series, None
    before = _in(line, cell.before)
    recent = _in(line, cell.recent)
    if before.any() and recent.any():
        first = median_of(series, series.at[before])
        second = median_of(series, series.at[recent])
        if first is not None and second is not None:
            change = second.time_us(loops=series.loops) / first.time_us(loops=series.loops)
    return {
        **_point(line),
        "runs": len(series.at),
        "before_busbw_GBps": _median(line.busbw_GBps[before]),
        "recent_busbw_GBps": _median(line.busbw_GBps[recent]),
        "predicted_busbw_GBps": _median(line.predicted_GBps[recent]),
        "measured_over_predicted": _median(line.ratio[recent]),
        "time_ratio": change,
        "busbw_over_time_GBps": _buckets(line.busbw_GBps),
        "shifts": [
            {"since": _run(runs, shift.at), "ratio": shift.change.ratio} for shift in cell.shifts
        ],
    }


def _in(line: Line, window: Window | None) -> NDArray[np.bool_]:
    at = line.series.at
    if window is None:
        result: NDArray[np.bool_] = at < 0
        return result
    return (at >= window.first) & (at <= window.last)


def _median(values: NDArray[np.float64]) -> float | None:
    import numpy as np

    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else None


def _buckets(values: NDArray[np.float64]) -> list[float | None]:
    """Medians of neighbours, equally many but for the last; None where nothing is known."""
    import numpy as np

    width = -(-len(values) // BUCKETS)
    filled = np.full(-(-len(values) // width) * width, np.nan)
    filled[: len(values)] = np.where(np.isfinite(values), values, np.nan)
    return [_known(value) for value in medians(filled.reshape(-1, width), 1).tolist()]


def _values(line: Line, runs: Sequence[Once]) -> list[dict[str, Any]]:
    figures = zip(
        line.series.at.tolist(),
        line.series.times_us.tolist(),
        line.busbw_GBps.tolist(),
        line.predicted_GBps.tolist(),
        line.ratio.tolist(),
        strict=True,
    )
    return [
        {
            "run": runs[at].name,
            "time_utc": _utc(runs[at]),
            "time_us": _known(time_us),
            "busbw_GBps": _known(busbw),
            "predicted_busbw_GBps": _known(predicted),
            "measured_over_predicted": _known(ratio),
        }
        for at, time_us, busbw, predicted, ratio in figures
    ]


def _known(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
