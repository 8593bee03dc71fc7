"""What the page says, as plain values ready to print; the template only places them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from clusterlab.core.findings import Finding, Verdict
from clusterlab.core.rows import Row
from clusterlab.core.sizes import human_size
from clusterlab.records.run_info import Attempt
from clusterlab.report.charts import busbw_at, curve_chart
from clusterlab.report.chosen import did
from clusterlab.report.curves import Curve, Halves, curves
from clusterlab.report.data import ReportData
from clusterlab.report.error_matrix import ErrorMatrix, error_matrix
from clusterlab.report.groups_page import GroupsView, groups_view
from clusterlab.report.numbers import NOT_KNOWN, percent, ratio, three_digits
from clusterlab.report.overhead import HEADS as OVERHEAD_HEADS
from clusterlab.report.overhead import OverheadTable, overhead_tables
from clusterlab.report.overlap import overlap_cells
from clusterlab.report.pairs_page import PairsView, pairs_view
from clusterlab.report.row_words import library_words, spread_words
from clusterlab.report.soak import soak_lines
from clusterlab.report.steps import training_page
from clusterlab.report.text import plain
from clusterlab.report.where import facts, rank_cells
from clusterlab.verdict.run_verdict import CollectiveSummary

CHART_LIMIT = 60
"""Charts drawn on one page; further curves are tables only, and say so."""

VERDICT_WORDS = {
    Verdict.PASS: "pass",
    Verdict.SLOW: "slow",
    Verdict.FAST_UNEXPECTED: "faster than expected",
    Verdict.NO_VERDICT: "no verdict",
    Verdict.INVALID: "invalid",
}

VERDICT_GLYPHS = {
    Verdict.PASS: "●",
    Verdict.SLOW: "▼",
    Verdict.FAST_UNEXPECTED: "▲",
    Verdict.NO_VERDICT: "○",
    Verdict.INVALID: "✕",
}


@dataclass(frozen=True, slots=True)
class Mark:
    """A verdict to show: its CSS class, its shape, its word and the reason behind it."""

    kind: str
    glyph: str
    word: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """One figure; ``more`` is what there is to know beside it, shown when pointed at."""

    text: str
    more: str = ""


@dataclass(frozen=True, slots=True)
class CurveView:
    """One curve: chart (or why there is none) and table rows; ``verdicts`` counts what is not a pass."""

    title: str
    variant: str
    chart: str | None
    why_no_chart: str
    heads: tuple[str, ...]
    rows: tuple[tuple[tuple[Cell, ...], Mark], ...]
    marks: tuple[tuple[Mark, int], ...]


@dataclass(frozen=True, slots=True)
class CollectiveView:
    """One collective: anchor, verdict, its summary line and its curves."""

    anchor: str
    name: str
    mark: Mark
    cells: tuple[str, ...]
    curves: tuple[CurveView, ...]


@dataclass(frozen=True, slots=True)
class PageView:
    """The whole page."""

    title: str
    run_id: str
    mark: Mark
    counts: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    findings: tuple[Finding, ...]
    facts: tuple[tuple[str, str], ...]
    versions: tuple[tuple[str, str], ...]
    ranks: tuple[tuple[str, ...], ...]
    collectives: tuple[CollectiveView, ...]
    matrix: ErrorMatrix | None
    overheads: tuple[OverheadTable, ...]
    overhead_heads: tuple[str, ...]
    pairs: PairsView | None
    groups: GroupsView | None
    overlaps: tuple[tuple[str, ...], ...]
    soak: tuple[str, ...]
    training: tuple[str, ...]
    command: str
    environment: str
    configuration: str
    attempts: tuple[tuple[str, ...], ...]
    path: str


def page_view(data: ReportData) -> PageView:
    """All values of the page for ``data``."""
    info = data.run.info
    context = info.attempts[-1].context if info.attempts else info.created_by
    # A batch script makes the directory with a command of its own; the first attempt's is the sweep.
    first = info.attempts[0].context if info.attempts else info.created_by
    return PageView(
        title=plain(info.name),
        run_id=plain(info.run_id),
        mark=_run_mark(data),
        counts=_counts(data),
        notes=tuple(plain(note) for note in (*data.notes, *data.sources)),
        findings=tuple(_finding(f) for f in data.findings),
        facts=facts(data, context),
        versions=tuple((k, plain(v)) for k, v in context.versions.items() if v),
        ranks=rank_cells(data.placement),
        collectives=_collectives(data),
        matrix=error_matrix(data.judged_rows),
        overheads=overhead_tables(data.overheads),
        overhead_heads=OVERHEAD_HEADS,
        pairs=pairs_view(data.pairs, data.placement),
        groups=groups_view(data.groups, data.placement),
        overlaps=tuple(overlap_cells(overlap) for overlap in data.overlaps),
        soak=tuple(line for line in soak_lines(data.soaked) if line),
        training=tuple(
            plain(line) for line in training_page(data.steps, data.kinds, data.loads, data.kinds_of)
        ),
        command=_shell(first.command),
        environment=_environment(context.environment),
        configuration=json.dumps(info.configuration, indent=2),
        attempts=tuple(_attempt(a) for a in info.attempts),
        path=plain(str(data.run.path)),
    )


def _run_mark(data: ReportData) -> Mark:
    mark = _mark(data.judged.verdict, data.judged.reason)
    return replace(mark, word=data.verdict_word) if data.soaked else mark


def _mark(verdict: Verdict, reason: str = "") -> Mark:
    return Mark(verdict.value, VERDICT_GLYPHS[verdict], VERDICT_WORDS[verdict], reason)


def _finding(finding: Finding) -> Finding:
    """``finding`` with its texts made safe to show."""
    return replace(
        finding,
        code=plain(finding.code),
        evidence=tuple(plain(line) for line in finding.evidence),
        fix=plain(finding.fix),
        links=tuple(plain(link) for link in finding.links),
        caused_by=finding.caused_by and plain(finding.caused_by),
    )


def _counts(data: ReportData) -> tuple[tuple[str, str], ...]:
    judged, planned = data.run_verdict, data.run.info.planned_points
    of_planned = f"{judged.points} of {planned}" if planned else str(judged.points)
    what, many = "points", of_planned
    if data.planned_overlaps:
        many, _, what = data.measured.rpartition(" ")
    shown = [(VERDICT_WORDS[v], str(n)) for v, n in judged.counts.items() if n]
    unchecked = [("points whose data was not checked", str(judged.unchecked))]
    return (
        (what, many),
        *shown,
        ("wrong elements", str(judged.wrong)),
        *(unchecked if judged.unchecked else []),
    )


def _collectives(data: ReportData) -> tuple[CollectiveView, ...]:
    by_name: dict[str, list[Curve]] = {}
    for curve in curves(data.judged_rows):
        by_name.setdefault(curve.collective, []).append(curve)
    # Every collective gets its share of the charts, so that none is without.
    per_collective = max(1, CHART_LIMIT // max(1, len(by_name)))
    return tuple(
        _collective(summary, by_name[summary.collective], per_collective)
        for summary in data.run_verdict.summaries
    )


def _collective(s: CollectiveSummary, its_curves: Sequence[Curve], charts: int) -> CollectiveView:
    worst = NOT_KNOWN
    if s.worst:
        worst = f"{percent(s.worst.error, signed=True)} at {human_size(s.worst.row.size_bytes)}"
    return CollectiveView(
        anchor=f"c-{s.collective}",
        name=s.collective,
        mark=_mark(s.judged.verdict, s.judged.reason),
        cells=(
            str(s.points),
            percent(s.median_error),
            percent(s.p90_error),
            percent(s.bias, signed=True),
            worst,
            str(s.counts[Verdict.SLOW]),
            str(s.counts[Verdict.FAST_UNEXPECTED]),
            str(s.wrong),
        ),
        curves=tuple(_curve(c, with_chart=i < charts) for i, c in enumerate(its_curves)),
    )


def _curve(curve: Curve, *, with_chart: bool) -> CurveView:
    chart = curve_chart(curve) if with_chart else None
    why = "" if chart else "One size only: see the table."
    if not with_chart:
        why = f"No chart: the page draws at most {CHART_LIMIT}."
    judged = [halves.judged for halves in curve.sizes]
    counted = {v: sum(j.verdict == v for j in judged) for v in Verdict}
    said = any(did(row) for row in curve.rows)
    return CurveView(
        title=curve.title,
        variant=curve.variant,
        chart=chart,
        why_no_chart=why,
        heads=(*_HEADS, *(_SAID_HEADS if said else ())),
        rows=tuple(
            (_cells(halves, said=said), _mark(j.verdict, j.reason))
            for halves, j in zip(curve.sizes, judged, strict=True)
        ),
        marks=tuple((_mark(v), n) for v, n in counted.items() if n and v != Verdict.PASS),
    )


_HEADS = (
    *("Size", "Verdict", "Time µs", "Busbw GB/s", "In place", "Predicted", "Interval", "Bound"),
    *("Ratio", "CV", "Wrong", "Algorithm", "Limited by"),
)
_SAID_HEADS = ("Library did",)


def _cells(halves: Halves, *, said: bool) -> tuple[Cell, ...]:
    row = halves.first
    size, time, *others = _texts(halves)
    cells = (Cell(size), Cell(time, spread_words(row)), *map(Cell, others))
    return (*cells, Cell(did(row) or NOT_KNOWN, library_words(row))) if said else cells


def _texts(halves: Halves) -> tuple[str, ...]:
    row, out, other = halves.first, halves.out_of_place, halves.in_place
    return (
        human_size(row.size_bytes) + (" *" if row.padded else ""),
        three_digits(row.time_us_loop),
        three_digits(out.busbw_GBps if out else None),
        three_digits(other.busbw_GBps if other else None),
        three_digits(row.predicted_busbw_GBps),
        _interval(row),
        three_digits(row.bound_busbw_GBps),
        ratio(row.ratio),
        percent(row.cv),
        _wrong(halves),
        plain(" ".join(w for w in (row.algorithm, row.protocol) if w)) or NOT_KNOWN,
        plain(row.bottleneck or NOT_KNOWN),
    )


def _interval(row: Row) -> str:
    if row.predicted_high_us is None or not row.predicted_low_us:
        return NOT_KNOWN
    slow, fast = busbw_at(row, row.predicted_high_us), busbw_at(row, row.predicted_low_us)
    return f"{three_digits(slow)} to {three_digits(fast)}"


def _wrong(halves: Halves) -> str:
    checked = [row.wrong for row in halves.rows if row.wrong is not None]
    if not checked:
        return "not checked"
    first = next((row for row in halves.rows if row.wrong), None)
    where = f": first on rank {first.wrong_rank}, element {first.wrong_index}" if first else ""
    return f"{sum(checked)}{where}"


def _shell(command: Sequence[str]) -> str:
    return plain(shlex.join(command))


def _environment(environment: Mapping[str, str]) -> str:
    return "\n".join(plain(f"{name}={shlex.quote(v)}") for name, v in environment.items())


def _attempt(attempt: Attempt) -> tuple[str, ...]:
    return (
        str(attempt.number),
        attempt.started_utc,
        attempt.ended_utc or "not ended",
        NOT_KNOWN if attempt.exit_code is None else str(attempt.exit_code),
        plain(attempt.context.host),
        _shell(attempt.context.command),
    )
