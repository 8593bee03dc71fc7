"""The zoomable version of a run's curves: plotly, whole in one file. ``report.html`` is the page to read."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from typing import Any

from clusterlab.core.extras import extra
from clusterlab.core.rows import Row
from clusterlab.core.sizes import human_size
from clusterlab.core.stepping import StepLine
from clusterlab.report.curves import Curve, curves
from clusterlab.report.data import ReportData
from clusterlab.report.numbers import ratio, three_digits
from clusterlab.report.text import plain
from clusterlab.verdict.judge import judge_row

MOST_FIGURES = 60

_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
)
"""The library and the figures are in the page: it may load nothing."""

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>{title}</title>
<style>body{{font:1rem/1.5 system-ui,sans-serif;margin:1rem auto;max-width:80rem;padding:0 1rem;
background:#fff;color:#111}}</style>
</head><body><h1>{title}</h1><p>{verdict}</p>
<noscript><p>This page draws by script. report.html of the same run does without.</p></noscript>
{figures}{note}
</body></html>
"""
_LAYOUT: dict[str, Any] = {
    "template": "plotly_white",
    "height": 520,
    "hovermode": "closest",
    "legend": {"orientation": "h", "y": -0.2},
    "margin": {"t": 60, "l": 70, "r": 70},
}
_FACTOR_LOG = 30.0
"""Values further apart than this stand on a logarithmic axis, as in report.html."""

_CONFIG = {
    "displaylogo": False,
    "responsive": True,
    "showSendToCloud": False,
    "plotlyServerURL": "",
}


def zoom_page(data: ReportData) -> str:
    """The page; empty for a run that holds neither curves nor steps. Raises UsageError without plotly."""
    extra("plotly.graph_objects", "plotly")
    found = curves(data.judged_rows)
    figures = [_curve_figure(curve) for curve in found[:MOST_FIGURES]]
    if data.steps:
        figures.append(_step_figure(data.steps))
    if not figures:
        return ""
    left = len(found) - MOST_FIGURES
    return _PAGE.format(
        policy=html.escape(_POLICY),
        title=html.escape(plain(data.run.info.run_id)),
        verdict=html.escape(plain(f"{data.verdict_word}: {data.judged.reason}")),
        figures="\n".join(_html(figure, index) for index, figure in enumerate(figures)),
        note=f"<p>{left} more curves are in report.html.</p>" if left > 0 else "",
    )


def _html(figure: Any, index: int) -> str:
    # The library, 5 MB, once: the first figure brings it, never from a network.
    return str(
        figure.to_html(
            full_html=False,
            include_plotlyjs=index == 0,
            config=_CONFIG,
            div_id=f"figure-{index}",
        )
    )


def _curve_figure(curve: Curve) -> Any:
    import plotly.graph_objects as go

    figure = go.Figure()
    rows = [halves.first for halves in curve.sizes]
    edges = [(_busbw_at(r, r.predicted_high_us), _busbw_at(r, r.predicted_low_us)) for r in rows]
    banded = [
        (r.size_bytes, *edge) for r, edge in zip(rows, edges, strict=True) if None not in edge
    ]
    if banded:
        sizes, low, high = zip(*banded, strict=True)
        figure.add_scatter(
            x=sizes, y=low, mode="lines", line_width=0, showlegend=False, hoverinfo="skip"
        )
        figure.add_scatter(
            x=sizes, y=high, mode="lines", line_width=0, fill="tonexty", fillcolor="rgba(60,110,200,.15)",
            name="interval", hoverinfo="skip",
        )  # fmt: skip
    _line(figure, rows, "predicted", lambda r: r.predicted_busbw_GBps, dash="dash")
    _line(figure, rows, "bound", lambda r: r.bound_busbw_GBps, dash="dot")
    for name, symbol, some in (
        ("measured, out of place", "circle", [h.out_of_place for h in curve.sizes]),
        ("measured, in place", "square", [h.in_place for h in curve.sizes]),
    ):
        _line(figure, [r for r in some if r], name, lambda r: r.busbw_GBps, symbol=symbol)
    ticks = sorted({row.size_bytes for row in rows})[:: max(1, len(rows) // 12)]
    figure.update_layout(title_text=_text(curve.title), **_LAYOUT)
    log = _spread(figure) > _FACTOR_LOG
    figure.update_yaxes(
        title_text="busbw (GB/s)", type="log" if log else "linear", rangemode="tozero"
    )
    figure.update_xaxes(
        type="log", title_text="size", tickvals=ticks, ticktext=[human_size(one) for one in ticks]
    )
    return figure


def _spread(figure: Any) -> float:
    """The largest value over the smallest that is above 0."""
    values = [y for line in figure.data for y in line.y if y and y > 0]
    return max(values) / min(values) if values else 1.0


def _busbw_at(row: Row, time_us: float | None) -> float | None:
    whole, of = row.predicted_busbw_GBps, row.predicted_time_us
    return whole * of / time_us if whole is not None and of and time_us else None


def _line(
    figure: Any,
    rows: Sequence[Row],
    name: str,
    value: Callable[[Row], float | None],
    *,
    dash: str = "solid",
    symbol: str = "",
) -> None:
    known = [(row, y) for row in rows if (y := value(row)) is not None and row.size_bytes > 0]
    if not known:
        return
    figure.add_scatter(
        x=[row.size_bytes for row, _ in known],
        y=[y for _, y in known],
        name=name,
        mode="lines+markers" if symbol else "lines",
        line_dash=dash,
        marker_symbol=symbol or None,
        text=[_hover(row) for row, _ in known],
        hovertemplate="%{y:.4g} GB/s<br>%{text}",
    )


def _hover(row: Row) -> str:
    judged = judge_row(row)
    words = [
        human_size(row.size_bytes),
        f"{three_digits(row.time_us_loop)} µs, predicted {three_digits(row.predicted_time_us)} µs",
        f"ratio {ratio(row.ratio)}",
        f"{judged.verdict.value}: {judged.reason}",
    ]
    return "<br>".join(_text(word) for word in words)


def _step_figure(steps: Sequence[StepLine]) -> Any:
    import plotly.graph_objects as go

    figure = go.Figure()
    numbers = [step.step for step in steps]
    parts: dict[str, list[float]] = {
        "data": [s.data_us for s in steps],
        "forward": [s.forward_us for s in steps],
        "backward": [s.backward_us for s in steps],
    }
    for axis in dict.fromkeys(axis for step in steps for axis in step.exposed_us):
        parts[f"exposed {axis}"] = [s.exposed_us.get(axis, 0.0) for s in steps]
    parts["bubble"] = [s.bubble_us for s in steps]
    parts["optimizer"] = [s.optimizer_us for s in steps]
    parts["other"] = [s.other_us for s in steps]
    for name, times in parts.items():
        if any(times):
            figure.add_bar(x=numbers, y=[us / 1e3 for us in times], name=_text(name))
    figure.add_scatter(
        x=numbers, y=[s.loss for s in steps], name="loss", yaxis="y2", line_color="black"
    )
    figure.update_layout(
        title_text="where a step's time went, and the loss",
        barmode="stack",
        xaxis_title="step",
        yaxis_title="ms",
        yaxis2={
            "overlaying": "y",
            "side": "right",
            "title": "loss",
            "showgrid": False,
            "nticks": 6,
        },
        **_LAYOUT,
    )
    return figure


def _text(text: str) -> str:
    """plotly reads tags in every text: written out, they are none."""
    return html.escape(plain(text), quote=False)
