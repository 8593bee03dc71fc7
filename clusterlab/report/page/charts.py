"""The chart of one curve: what was measured, what was predicted, what the library itself expected, what
nothing can beat; below it, how far measured lies from predicted, which a bandwidth axis over four decades
hides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from clusterlab.core.findings import Verdict
from clusterlab.core.rows import Row
from clusterlab.core.sizes import human_size
from clusterlab.report.curves import Curve
from clusterlab.report.numbers import percent, three_digits
from clusterlab.report.page.bands import Banded, banded
from clusterlab.report.scale import ratio_axis, value_axis
from clusterlab.report.svg import Band, Dot, Line, Mark, Panel, chart
from clusterlab.verdict.judge import judge_row

_BUSBW_HEIGHT, _RATIO_HEIGHT = 250, 84

_MARKS: dict[Verdict, Mark] = {
    Verdict.PASS: "dot",
    Verdict.NO_VERDICT: "dot",
    Verdict.SLOW: "down",
    Verdict.FAST_UNEXPECTED: "up",
    Verdict.INVALID: "cross",
}


@dataclass(frozen=True, slots=True)
class _Drawn:
    """What of a curve is drawn. Of many sizes ``main`` are the middles of bands, ``spread`` the least and
    the most busbw in each, and ``outside`` the points that keep a mark of their own.
    """

    main: tuple[Row, ...]
    in_place: tuple[Row, ...]
    spread: Band
    outside: tuple[Row, ...]
    banded: bool


def busbw_at(row: Row, time_us: float) -> float:
    """The bus bandwidth (GB/s) ``row``'s point would have had in ``time_us``; infinite in no time."""
    return row.busbw_GBps * row.time_us_loop / time_us if time_us else math.inf


def curve_chart(
    curve: Curve, name: str, thin: Banded | None = None, *, pointed: bool = True
) -> str | None:
    """The SVG of ``curve``, called ``name`` on its page; None when it has fewer than two sizes, which a table
    shows better. ``thin``: its bands, where somebody has them already. ``pointed``: every mark says its
    figures when pointed at, else those that were measured out of place.
    """
    if len(curve.sizes) < 2:
        return None
    drawn = _drawn(curve, thin or banded(curve))
    panels = [_busbw_panel(drawn, pointed=pointed)]
    if any(row.ratio is not None for row in drawn.main):
        panels.append(_ratio_panel(drawn))
    return chart(panels, name=name, label=_label(curve, drawn.main), described=_described(drawn))


def _drawn(curve: Curve, thin: Banded | None) -> _Drawn:
    if thin is None:
        main = tuple(halves.first for halves in curve.sizes)
        in_place = tuple(h.in_place for h in curve.sizes if h.in_place and h.out_of_place)
        return _Drawn(main, in_place, _spread(main), (), banded=False)
    main = tuple(band.middle.first for band in thin.bands)
    spread = Band("spread", tuple((b.middle.first.size_bytes, b.low, b.high) for b in thin.bands))
    return _Drawn(main, (), spread, thin.outside, banded=True)


def _busbw_panel(drawn: _Drawn, *, pointed: bool) -> Panel:
    main, marks = drawn.main, _usual(drawn)
    lines = (
        Line("bound", _dots(main, "bound_busbw_GBps"), "bound"),
        Line("library", _of_library(main, marks[2]), "library"),
        Line("predicted", _dots(main, "predicted_busbw_GBps"), "predicted"),
        Line("in-place", tuple(_measured(row, marks[1], pointed) for row in drawn.in_place)),
        Line("measured", tuple(_measured(row, marks[0]) for row in main), "measured"),
        Line("measured", tuple(_measured(row, "dot") for row in drawn.outside), loose=True),
    )
    areas = (_interval(main), drawn.spread)
    values = [dot.value for line in lines for dot in line.dots]
    values += [v for area in areas for _, low, high in area.points for v in (low, high)]
    axis = value_axis(values)
    label = "busbw, GB/s (log scale)" if axis.logarithmic else "busbw, GB/s"
    return Panel(label, tuple(x for x in lines if x.dots), areas, axis, _BUSBW_HEIGHT)


def _ratio_panel(drawn: _Drawn) -> Panel:
    main, marks = drawn.main, _usual(drawn)
    lines = (
        Line("in-place", tuple(_ratio(row, marks[1]) for row in drawn.in_place if row.ratio)),
        Line("measured", tuple(_ratio(row, marks[0]) for row in main if row.ratio)),
        Line("measured", tuple(_ratio(r, "dot") for r in drawn.outside if r.ratio), loose=True),
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


def _usual(drawn: _Drawn) -> tuple[Mark, Mark, Mark]:
    """Marks of measured, in place, and the library's. In bands they would hide the line."""
    return ("none", "none", "none") if drawn.banded else ("dot", "ring", "diamond")


def _dots(rows: Sequence[Row], field: str) -> tuple[Dot, ...]:
    known = ((row.size_bytes, getattr(row, field)) for row in rows)
    return tuple(Dot(size, value) for size, value in known if value is not None)


def _of_library(rows: Sequence[Row], mark: Mark) -> tuple[Dot, ...]:
    """What NCCL's own model expected, as its log says."""
    known = ((row, row.library_time_us) for row in rows)
    return tuple(Dot(r.size_bytes, busbw_at(r, us), mark) for r, us in known if us)


def _measured(row: Row, usual: Mark, pointed: bool = True) -> Dot:
    judged = judge_row(row)
    if not pointed:
        return Dot(row.size_bytes, row.busbw_GBps, _mark(judged.verdict, usual))
    title = (
        f"{human_size(row.size_bytes)}{' in place' if row.in_place else ''}: "
        f"{three_digits(row.busbw_GBps)} GB/s, predicted {three_digits(row.predicted_busbw_GBps)}"
    )
    if judged.verdict not in (Verdict.PASS, Verdict.NO_VERDICT):
        title += f"; {judged.verdict.value}: {judged.reason}"
    return Dot(row.size_bytes, row.busbw_GBps, _mark(judged.verdict, usual), title)


def _ratio(row: Row, usual: Mark) -> Dot:
    return Dot(row.size_bytes, row.ratio or 0.0, _mark(judge_row(row).verdict, usual))


def _mark(verdict: Verdict, usual: Mark) -> Mark:
    mark = _MARKS[verdict]
    return usual if mark == "dot" else mark


def _spread(rows: Sequence[Row]) -> Band:
    """From the slowest to the fastest single iteration."""
    return Band(
        "spread",
        tuple((r.size_bytes, busbw_at(r, r.time_us_max), busbw_at(r, r.time_us_min)) for r in rows),
    )


def _interval(rows: Sequence[Row]) -> Band:
    """The prediction's interval."""
    return Band(
        "interval",
        tuple(
            (r.size_bytes, busbw_at(r, r.predicted_high_us), busbw_at(r, r.predicted_low_us))
            for r in rows
            if r.predicted_high_us and r.predicted_low_us
        ),
    )


def _label(curve: Curve, rows: Sequence[Row]) -> str:
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


def _described(drawn: _Drawn) -> str:
    lines = ["measured (solid, dots)"]
    lines += ["in place (thin, rings)"] if drawn.in_place else []
    if any(row.predicted_busbw_GBps is not None for row in drawn.main):
        lines.append("predicted (dashed)")
    if any(row.library_time_us for row in drawn.main):
        lines.append("what the library itself expected (dash and dot, diamonds)")
    if any(row.bound_busbw_GBps is not None for row in drawn.main):
        lines.append("the bound (dotted)")
    what = "The figures are in the table below."
    if drawn.banded:
        what = (
            "Neighbouring sizes are drawn as one band each, least to most; the line is the median."
        )
    return f"Lines: {', '.join(lines)}. {what}"
