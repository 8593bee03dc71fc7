"""A file of measurements, predicted and scored: what ``clusterlab predict score`` answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from clusterlab.core.errors import UsageError
from clusterlab.cost.scoring.machine import description_of, machine_of
from clusterlab.cost.scoring.measured import Measured, read_measured
from clusterlab.cost.scoring.scored import (
    LATENCY_ROWS,
    ScoredPoint,
    predict_points,
    with_one_latency,
)
from clusterlab.cost.scoring.scores import (
    ErrorOf,
    Figures,
    Plateaus,
    TableScore,
    check_by,
    figures,
    grouped,
    library_error,
    own_error,
    plateaus,
    table_scores,
)
from clusterlab.topology.opening import open_fabric

ByGroup = list[tuple[dict[str, Any], Figures]]


@dataclass(frozen=True, slots=True)
class ScoreOptions:
    """What was typed. ``fabric`` takes the place of the vocabulary; ``one_latency`` corrects each table
    by its own smallest rows.
    """

    file: Path
    by: str = "system,collective"
    fabric: str | None = None
    one_latency: bool = False


@dataclass(frozen=True, slots=True)
class View:
    """One model's figures: over all, by the columns asked for, by size and by nodes."""

    overall: Figures
    groups: ByGroup
    by_size_band: ByGroup
    by_nodes: ByGroup


@dataclass(frozen=True, slots=True)
class ScoreReport:
    """All that is said of one file. ``misses``: why rows could not be predicted, how many each.
    ``assumed``: what descriptions leave open and the vocabulary fills in; ``notes`` the rest to know.
    """

    measured: Measured
    scored: tuple[ScoredPoint, ...]
    ours: View
    library: View
    tables: tuple[TableScore, ...]
    plateau: Plateaus
    misses: dict[str, int]
    assumed: tuple[str, ...]
    notes: tuple[str, ...]


def score_file(
    options: ScoreOptions, *, progress: Callable[[int, int], None] | None = None
) -> ScoreReport:
    """Predict and score every row that counts. Raises UsageError for input that cannot be scored."""
    by = check_by(options.by)
    measured = read_measured(options.file)
    if not measured.points:
        raise UsageError(
            f"no measurement that counts in {measured.rows} rows",
            where=measured.file,
            expected='rows with a time above 0 (with a column health: "healthy")',
        )
    fabric = None if options.fabric is None else open_fabric(options.fabric)
    everything = predict_points(measured.points, fabric=fabric, progress=progress)
    scored = with_one_latency(everything) if options.one_latency else everything
    tables = table_scores(scored)
    return ScoreReport(
        measured=measured,
        scored=tuple(scored),
        ours=_view(scored, by, own_error),
        library=_view(scored, by, library_error),
        tables=tuple(tables),
        plateau=plateaus(tables),
        misses=dict(Counter(s.reason for s in everything if s.predicted_us is None)),
        assumed=() if fabric is not None else _assumed(measured),
        notes=tuple(_notes(measured, everything, scored, options)),
    )


def _view(scored: Sequence[ScoredPoint], by: Sequence[str], error: ErrorOf) -> View:
    return View(
        overall=figures(scored, error),
        groups=grouped(scored, by, error),
        by_size_band=sorted(grouped(scored, ["size_band"], error), key=_band_order),
        by_nodes=grouped(scored, ["n_nodes"], error),
    )


def _band_order(entry: tuple[dict[str, Any], Figures]) -> int:
    order = ("<64 KiB", "64 KiB-1 MiB", "1-64 MiB", ">=64 MiB")
    return order.index(entry[0]["size_band"])


def _notes(
    measured: Measured,
    everything: Sequence[ScoredPoint],
    scored: Sequence[ScoredPoint],
    options: ScoreOptions,
) -> list[str]:
    """What was left out and how the figures were made, each in a line."""
    notes = []
    if measured.unhealthy:
        notes.append(f'{measured.unhealthy} rows of tables that are not "healthy" left out')
    if measured.no_time:
        notes.append(f"{measured.no_time} rows without a time (or of size 0) left out")
    repeated = sum(p.samples - 1 for p in measured.points)
    if repeated:
        notes.append(f"{repeated} rows repeat a point: the median of each point is scored")
    if options.one_latency:
        before, after = ({s.point.table for s in some} for some in (everything, scored))
        notes.append(
            f"one latency: {len(everything) - len(scored)} rows (a published table's {LATENCY_ROWS} "
            f"smallest, else the smallest size) set their table's floor and are not scored"
        )
        if before - after:
            notes.append(
                f"{len(before - after)} tables have no other rows: "
                + ", ".join(sorted(before - after))
            )
    return notes


def _assumed(measured: Measured) -> tuple[str, ...]:
    """What was filled in for each system, and the words nobody knows."""
    lines: dict[str, None] = {}
    for description in dict.fromkeys(map(description_of, measured.points)):
        try:
            machine = machine_of(description)
        except UsageError:
            continue  # its rows say so
        if machine.assumed:
            lines[f"{description.system}: {', '.join(machine.assumed)}"] = None
        if machine.unknown:
            lines[f"{description.system}: words not understood: {', '.join(machine.unknown)}"] = (
                None
            )
    return tuple(lines)


def report_data(report: ScoreReport) -> dict[str, Any]:
    """The report as plain data: what ``--json`` prints."""
    return {
        **_view_data(report.ours),
        "nccl_model": _view_data(report.library),
        "plateau": asdict(report.plateau),
        "tables": [_table_data(t) for t in report.tables],
        "misses": report.misses,
        "assumed": list(report.assumed),
        "notes": list(report.notes),
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
