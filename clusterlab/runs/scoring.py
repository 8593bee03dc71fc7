"""A file of measurements, predicted and scored: what ``clusterlab predict score`` answers."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from clusterlab.core.errors import UsageError
from clusterlab.cost.bands import BANDS
from clusterlab.cost.scoring.machine import description_of, machine_of
from clusterlab.cost.scoring.measured import Measured, measured_in, read_measured
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
from clusterlab.formats.measured.plausible import LIMITS, named
from clusterlab.topology.opening import open_fabric

_SHOWN = 6
_LISTED = 1000
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
    ``no_verdict``: why there is no score at all.
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
    no_verdict: str | None = None


def score_file(
    options: ScoreOptions, *, progress: Callable[[int, int], None] | None = None
) -> ScoreReport:
    """Predict and score every row that counts; ``-`` is standard input. Raises UsageError for input that
    cannot be scored.
    """
    by = check_by(options.by)
    if str(options.file) == "-":
        measured = measured_in(sys.stdin.buffer, file="standard input")
    else:
        measured = read_measured(options.file)
    if not measured.points:
        raise UsageError(
            f"no measurement that counts in {measured.rows} rows",
            where=measured.file,
            expected=f'rows with {LIMITS} (with a column health: "healthy")',
            fix=named(measured.unusable) or None,
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
        no_verdict=_no_verdict(everything, scored),
    )


def _no_verdict(everything: Sequence[ScoredPoint], scored: Sequence[ScoredPoint]) -> str | None:
    """Why nothing is scored; None where something is."""
    if not scored:
        return (
            "no row is left to score: every table has only the rows that set its latency; measure more "
            "sizes, or score without --one-latency"
        )
    if any(one.predicted_us is not None for one in scored):
        return None
    reasons = Counter(one.reason for one in everything if one.predicted_us is None)
    (why, count), more = reasons.most_common(1)[0], len(reasons) - 1
    rest = f" (and {more} other reasons)" if more else ""
    return f"nothing could be predicted: {count} rows: {why}{rest}"


def _view(scored: Sequence[ScoredPoint], by: Sequence[str], error: ErrorOf) -> View:
    return View(
        overall=figures(scored, error),
        groups=grouped(scored, by, error),
        by_size_band=sorted(grouped(scored, ["size_band"], error), key=_band_order),
        by_nodes=grouped(scored, ["n_nodes"], error),
    )


def _band_order(entry: tuple[dict[str, Any], Figures]) -> int:
    return BANDS.index(entry[0]["size_band"])


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
    if measured.unusable:
        notes.append(
            f"{len(measured.unusable)} rows with figures that nothing measures left out: "
            + named(measured.unusable)
        )
    if measured.disagree:
        notes.append(
            f"{len(measured.disagree)} rows have a busbw that is not their size over their time (the first "
            f"in line {measured.disagree[0]}): their time is scored"
        )
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
            names = sorted(before - after)
            notes.append(
                f"{len(names)} tables have no other rows and are not scored: "
                + ", ".join(names[:_SHOWN])
                + (", …" if len(names) > _SHOWN else "")
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
        "unusable": [
            {"line": line, "why": why} for line, why in report.measured.unusable[:_LISTED]
        ],
        "no_verdict": report.no_verdict,
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
