"""Curves on the page: a chart and a table each, and in little room where there are many."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from clusterlab.core.rows import Row
from clusterlab.core.sizes import human_size
from clusterlab.report.console.chosen import chosen_line, did
from clusterlab.report.console.row_words import library_words, spread_words
from clusterlab.report.curves import Curve, Halves
from clusterlab.report.data import ReportData
from clusterlab.report.numbers import NOT_KNOWN, percent, ratio, three_digits
from clusterlab.report.page.band_cells import BAND_HEADS, band_cells, outside_words, worst_mark
from clusterlab.report.page.bands import MOST_SIZES, Banded, banded
from clusterlab.report.page.charts import busbw_at, curve_chart
from clusterlab.report.page.verdict_marks import Mark, counted, mark_of, tally
from clusterlab.report.text import plain
from clusterlab.verdict.run_verdict import CollectiveSummary

CHART_LIMIT = 60
"""Charts drawn on one page; further curves are tables only, and say so."""

CURVE_LIMIT = 200
"""Curves with a table of their own; of further ones the page has a line."""

LINE_LIMIT = 300

MOST_POINTED = 400
"""Points up to which figures say more when pointed at: of more that would be a fifth of the page."""

TABLE_LINES = 2500
"""Lines that all curves' tables have together; curves of more sizes than their share are banded."""

_LEAST_LINES = 8


@dataclass(frozen=True, slots=True)
class Cell:
    """One figure; ``more`` is what there is to know beside it, shown when pointed at."""

    text: str
    more: str = ""


@dataclass(frozen=True, slots=True)
class CurveView:
    """One curve: chart (or why there is none) and table; ``marks`` counts what is not a pass.

    ``left_out`` says what the table does not list, where it holds bands; ``outside`` are then points that
    stand outside, in lines.
    """

    title: str
    variant: str
    points: int
    chart: str | None
    why_no_chart: str
    heads: tuple[str, ...]
    rows: tuple[tuple[tuple[Cell, ...], Mark], ...]
    marks: tuple[tuple[Mark, int], ...]
    chosen: str = ""
    left_out: str = ""
    outside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CollectiveView:
    """One collective: anchor, verdict, its summary line and its curves. ``further``: curves that have a line
    only, ``unlisted`` how many have not even that.
    """

    anchor: str
    name: str
    mark: Mark
    cells: tuple[str, ...]
    curves: tuple[CurveView, ...]
    further: tuple[tuple[str, ...], ...] = ()
    unlisted: int = 0


def collective_views(data: ReportData, all_curves: Sequence[Curve]) -> tuple[CollectiveView, ...]:
    """Every collective of ``data`` that all ranks took part in; ``all_curves`` are its curves."""
    by_name: dict[str, list[Curve]] = {}
    for curve in all_curves:
        by_name.setdefault(curve.collective, []).append(curve)
    names = max(1, len(by_name))
    # Every collective gets its share of charts, tables and lines, so that none is without.
    shown = min(len(all_curves), CURVE_LIMIT)
    share = _Share(
        charts=max(1, CHART_LIMIT // names),
        tables=max(1, CURVE_LIMIT // names),
        lines=min(MOST_SIZES, max(_LEAST_LINES, TABLE_LINES // max(1, shown))),
        further=LINE_LIMIT // names,
        pointed=len(data.judged_rows) <= MOST_POINTED,
    )
    return tuple(
        _collective(summary, by_name[summary.collective], number, share)
        for number, summary in enumerate(data.run_verdict.summaries)
        if summary.collective in by_name
    )


@dataclass(frozen=True, slots=True)
class _Share:
    """What one collective may take of the page; ``lines`` of one curve's table. ``pointed``: whether figures
    may say more when they are pointed at.
    """

    charts: int
    tables: int
    lines: int
    further: int
    pointed: bool


def _collective(
    s: CollectiveSummary, its_curves: Sequence[Curve], number: int, share: _Share
) -> CollectiveView:
    worst = NOT_KNOWN
    if s.worst:
        worst = f"{percent(s.worst.error, signed=True)} at {human_size(s.worst.row.size_bytes)}"
    rest = its_curves[share.tables :]
    return CollectiveView(
        anchor=f"c{number}",
        name=plain(s.collective),
        mark=mark_of(s.judged.verdict, plain(s.judged.reason)),
        cells=(
            str(s.points),
            *(str(n) for n in s.counts.values()),
            percent(s.median_error),
            percent(s.p90_error),
            percent(s.bias, signed=True),
            worst,
            str(s.wrong),
        ),
        curves=tuple(
            _curve(c, f"c{number}-{i}", share, with_chart=i < share.charts)
            for i, c in enumerate(its_curves[: share.tables])
        ),
        further=tuple(_line(curve) for curve in rest[: share.further]),
        unlisted=max(0, len(rest) - share.further),
    )


COLLECTIVE_HEADS = (
    *("Points", "Pass", "Slow", "Fast", "No verdict", "Invalid"),
    *("Median error", "90 % below", "Bias", "Worst", "Wrong elements"),
)


def _curve(curve: Curve, name: str, share: _Share, *, with_chart: bool) -> CurveView:
    thin = banded(curve, share.lines)
    chart = curve_chart(curve, name, thin, pointed=share.pointed) if with_chart else None
    why = "" if chart else "One size only: see the table."
    if not with_chart:
        why = f"No chart: the page draws at most {CHART_LIMIT}."
    rows = curve.rows
    verdicts = tally(halves.judged.verdict for halves in curve.sizes)
    if thin is not None:
        return _banded(curve, chart, why, thin)
    said = any(did(row) for row in rows)
    return CurveView(
        title=curve.title,
        variant=curve.variant,
        points=len(rows),
        chart=chart,
        why_no_chart=why,
        heads=(*_HEADS, *(_SAID_HEADS if said else ())),
        rows=tuple(
            (
                _cells(h, said=said, pointed=share.pointed),
                mark_of(h.judged.verdict, plain(h.judged.reason) if share.pointed else ""),
            )
            for h in curve.sizes
        ),
        marks=counted(verdicts),
        chosen=chosen_line(curve) or "",
    )


_HEADS = (
    *("Size", "Verdict", "Time µs", "Median µs", "p95 µs", "Busbw GB/s", "In place", "Predicted"),
    *("Interval", "Bound", "Ratio", "CV", "Wrong", "Algorithm", "Limited by"),
)
_SAID_HEADS = ("Library did", "Library's own")


def _cells(halves: Halves, *, said: bool, pointed: bool) -> tuple[Cell, ...]:
    row = halves.first
    size, time, *others = _texts(halves)
    cells = (Cell(size), Cell(time, spread_words(row) if pointed else ""), *map(Cell, others))
    if not said:
        return cells
    own = busbw_at(row, row.library_time_us) if row.library_time_us else None
    more = library_words(row) if pointed else ""
    return (*cells, Cell(did(row) or NOT_KNOWN, more), Cell(three_digits(own)))


def _texts(halves: Halves) -> tuple[str, ...]:
    row, out, other = halves.first, halves.out_of_place, halves.in_place
    return (
        human_size(row.size_bytes) + (" *" if row.padded else ""),
        three_digits(row.time_us_loop),
        three_digits(row.time_us_p50),
        three_digits(row.time_us_p95),
        three_digits(out.busbw_GBps if out else None),
        three_digits(other.busbw_GBps if other else None),
        three_digits(row.predicted_busbw_GBps),
        _interval(row),
        three_digits(row.bound_busbw_GBps),
        ratio(row.ratio),
        percent(row.cv),
        _wrong(halves.rows),
        plain(" ".join(w for w in (row.algorithm, row.protocol) if w)) or NOT_KNOWN,
        plain(row.bottleneck or NOT_KNOWN),
    )


def _interval(row: Row) -> str:
    if row.predicted_high_us is None or not row.predicted_low_us:
        return NOT_KNOWN
    slow, fast = busbw_at(row, row.predicted_high_us), busbw_at(row, row.predicted_low_us)
    return f"{three_digits(slow)} to {three_digits(fast)}"


def _wrong(rows: Sequence[Row]) -> str:
    checked = [row.wrong for row in rows if row.wrong is not None]
    if not checked:
        return "not checked"
    first = next((row for row in rows if row.wrong), None)
    where = f": first on rank {first.wrong_rank}, element {first.wrong_index}" if first else ""
    return f"{sum(checked)}{where}"


def _banded(curve: Curve, chart: str | None, why: str, thin: Banded) -> CurveView:
    found, listed, many = thin.bands, thin.outside, thin.many
    points = len(curve.rows)
    left_out = (
        f"{len(curve.sizes)} sizes in {len(found)} bands: single points are not listed here, all "
        f"{points:,} are in the data below."
    )
    if many > len(listed):
        left_out += f" Of {many:,} points outside their interval the furthest {len(listed)} follow."
    return CurveView(
        title=curve.title,
        variant=curve.variant,
        points=points,
        chart=chart,
        why_no_chart=why,
        heads=BAND_HEADS,
        rows=tuple((tuple(map(Cell, band_cells(b))), worst_mark(b)) for b in found),
        marks=counted(tally(halves.judged.verdict for halves in curve.sizes)),
        chosen=(chosen_line(curve) or "")[:400],
        left_out=left_out,
        outside=tuple(outside_words(row) for row in listed),
    )


FURTHER_HEADS = ("Curve", "Points", "Pass", "Slow", "Fast", "No verdict", "Invalid", "Least ratio")


def _line(curve: Curve) -> tuple[str, ...]:
    rows = curve.rows
    counts = tally(j.verdict for halves in curve.sizes for j in halves.judgements)
    ratios = [row.ratio for row in rows if row.ratio is not None and math.isfinite(row.ratio)]
    return (
        curve.title,
        str(len(rows)),
        *map(str, counts.values()),
        ratio(min(ratios, default=None)),
    )
