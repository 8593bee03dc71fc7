"""The chart of one curve: what was measured, what was predicted, what nothing can beat; below it, how
far measured lies from predicted, which a bandwidth axis over four decades hides.
"""

from __future__ import annotations

import math

from clusterlab.core.findings import Verdict
from clusterlab.core.rows import Row
from clusterlab.core.sizes import human_size
from clusterlab.report.curves import Curve
from clusterlab.report.numbers import percent, three_digits
from clusterlab.report.scale import ratio_axis, value_axis
from clusterlab.report.svg import Band, Dot, Line, Mark, Panel, chart
from clusterlab.verdict.judge import judge_row

_BUSBW_HEIGHT, _RATIO_HEIGHT = 250, 84

MOST_MARKS = 64
"""Sizes up to which every point of a curve is marked; beyond, marks would hide the line, and only points
outside their interval keep theirs.
"""

_MARKS: dict[Verdict, Mark] = {
    Verdict.PASS: "dot",
    Verdict.NO_VERDICT: "dot",
    Verdict.SLOW: "down",
    Verdict.FAST_UNEXPECTED: "up",
    Verdict.INVALID: "cross",
}


def busbw_at(row: Row, time_us: float) -> float:
    """The bus bandwidth (GB/s) ``row``'s point would have had in ``time_us``; infinite in no time."""
    return row.busbw_GBps * row.time_us_loop / time_us if time_us else math.inf


def curve_chart(curve: Curve) -> str | None:
    """The SVG of ``curve``; None when it has fewer than two sizes, which a table shows better."""
    if len(curve.sizes) < 2:
        return None
    main = [halves.first for halves in curve.sizes]
    in_place = [h.in_place for h in curve.sizes if h.in_place and h.out_of_place]
    marks: tuple[Mark, Mark] = ("dot", "ring") if len(main) <= MOST_MARKS else ("none", "none")
    panels = [_busbw_panel(main, in_place, marks)]
    if any(row.ratio is not None for row in main):
        panels.append(_ratio_panel(main, in_place, marks))
    return chart(panels, label=_label(curve, main))


def _busbw_panel(main: list[Row], in_place: list[Row], marks: tuple[Mark, Mark]) -> Panel:
    lines = (
        Line("bound", tuple(_dots(main, "bound_busbw_GBps"))),
        Line("predicted", tuple(_dots(main, "predicted_busbw_GBps"))),
        Line("in-place", tuple(_measured(row, marks[1]) for row in in_place)),
        Line("measured", tuple(_measured(row, marks[0]) for row in main)),
    )
    bands = (_interval(main), _spread(main))
    values = [dot.value for line in lines for dot in line.dots]
    values += [v for band in bands for _, low, high in band.points for v in (low, high)]
    axis = value_axis(values)
    label = "busbw, GB/s (log scale)" if axis.logarithmic else "busbw, GB/s"
    return Panel(label, tuple(x for x in lines if x.dots), bands, axis, _BUSBW_HEIGHT)


def _ratio_panel(main: list[Row], in_place: list[Row], marks: tuple[Mark, Mark]) -> Panel:
    lines = (
        Line("in-place", tuple(_ratio(row, marks[1]) for row in in_place if row.ratio)),
        Line("measured", tuple(_ratio(row, marks[0]) for row in main if row.ratio)),
    )
    one = Line("predicted", tuple(Dot(row.size_bytes, 1.0) for row in main if row.ratio))
    interval = Band(
        "interval",
        tuple(
            (r.size_bytes, r.predicted_time_us / r.predicted_high_us, r.predicted_time_us / low)
            for r in main
            if r.predicted_time_us and r.predicted_high_us and (low := r.predicted_low_us)
        ),
    )
    values = [dot.value for line in lines for dot in line.dots]
    values += [v for _, low, high in interval.points for v in (low, high)]
    shown = tuple(line for line in (one, *lines) if line.dots)
    return Panel("measured / predicted", shown, (interval,), ratio_axis(values), _RATIO_HEIGHT)


def _dots(rows: list[Row], field: str) -> list[Dot]:
    return [
        Dot(row.size_bytes, value) for row in rows if (value := getattr(row, field)) is not None
    ]


def _measured(row: Row, usual: Mark) -> Dot:
    judged = judge_row(row)
    title = (
        f"{human_size(row.size_bytes)}{' in place' if row.in_place else ''}: "
        f"{three_digits(row.busbw_GBps)} GB/s, {three_digits(row.time_us_loop)} µs; "
        f"predicted {three_digits(row.predicted_busbw_GBps)} GB/s; "
        f"{judged.verdict.value}: {judged.reason}"
    )
    return Dot(row.size_bytes, row.busbw_GBps, _mark(judged.verdict, usual), title)


def _ratio(row: Row, usual: Mark) -> Dot:
    title = f"{human_size(row.size_bytes)}: measured is {percent(row.ratio)} of predicted"
    return Dot(row.size_bytes, row.ratio or 0.0, _mark(judge_row(row).verdict, usual), title)


def _mark(verdict: Verdict, usual: Mark) -> Mark:
    mark = _MARKS[verdict]
    return usual if mark == "dot" else mark


def _spread(rows: list[Row]) -> Band:
    """From the slowest to the fastest single iteration."""
    return Band(
        "spread",
        tuple((r.size_bytes, busbw_at(r, r.time_us_max), busbw_at(r, r.time_us_min)) for r in rows),
    )


def _interval(rows: list[Row]) -> Band:
    """The prediction's interval."""
    return Band(
        "interval",
        tuple(
            (r.size_bytes, busbw_at(r, r.predicted_high_us), busbw_at(r, r.predicted_low_us))
            for r in rows
            if r.predicted_high_us and r.predicted_low_us
        ),
    )


def _label(curve: Curve, rows: list[Row]) -> str:
    """What the chart shows, in a sentence; the figures are in the table below it."""
    first, last = rows[0], rows[-1]
    best = max(rows, key=lambda row: row.busbw_GBps)
    text = (
        f"Bus bandwidth by size, {curve.title}: from {three_digits(first.busbw_GBps)} GB/s at "
        f"{human_size(first.size_bytes)} to {three_digits(last.busbw_GBps)} GB/s at "
        f"{human_size(last.size_bytes)}, best {three_digits(best.busbw_GBps)} GB/s at "
        f"{human_size(best.size_bytes)}"
    )
    if last.ratio is None:
        return text + "; not predicted."
    return text + f"; measured is {percent(last.ratio)} of predicted at the largest size."
