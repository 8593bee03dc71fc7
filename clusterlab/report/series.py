"""Values one after the other (steps of a training, passes of a soak) as an inline SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from clusterlab.report.scale import Axis, Tick, tick_label, value_axis
from clusterlab.report.svg import WIDTH, picture

_LEFT, _RIGHT, _TOP, _BOTTOM, _HEIGHT = 52, 76, 28, 40, 190
MOST_POINTS = 400
"""Of more, neighbours are drawn as the span from their least to their most."""

_MOST_DOTS = 64


def series_chart(
    values: Sequence[tuple[float, float]],
    *,
    name: str,
    label: str,
    across: str,
    up: str,
    reference: tuple[str, float] | None = None,
) -> str | None:
    """``values`` as (where, how much) in order; None with fewer than two that are finite. ``reference`` is a
    dashed line with its name.
    """
    known = [(x, y) for x, y in values if math.isfinite(x) and math.isfinite(y)]
    if len(known) < 2 or known[0][0] == known[-1][0]:
        return None
    x_axis = _index_axis(known[0][0], known[-1][0])
    more = [reference[1]] if reference else []
    y_axis = value_axis([*(y for _, y in known), *more])
    draw = _Drawing(x_axis, y_axis)
    body = draw.grid(across, up + (" (log scale)" if y_axis.logarithmic else ""))
    body += draw.values(known)
    if reference:
        body += draw.reference(*reference)
    least, most = min(y for _, y in known), max(y for _, y in known)
    described = (
        f"{len(known)} values from {tick_label(least)} to {tick_label(most)}. "
        "The figures are in the table below."
    )
    size = WIDTH, _TOP + _HEIGHT + _BOTTOM
    return picture("chart", size, body, name=name, label=label, described=described)


def _index_axis(low: float, high: float) -> Axis:
    rough = max(1.0, (high - low) / 6)
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * next(m for m in (1, 2, 5, 10) if rough <= m * power * (1 + 1e-9))
    first = math.ceil(low / step)
    count = math.floor(high / step) - first + 1
    ticks = tuple(Tick((first + i) * step, tick_label((first + i) * step)) for i in range(count))
    return Axis(low, high, False, ticks)


class _Drawing:
    def __init__(self, x_axis: Axis, y_axis: Axis) -> None:
        self.x_axis, self.y_axis = x_axis, y_axis
        self.bottom, self.right = _TOP + _HEIGHT, WIDTH - _RIGHT

    def x(self, value: float) -> float:
        return _LEFT + self.x_axis.share(value) * (self.right - _LEFT)

    def y(self, value: float) -> float:
        return self.bottom - self.y_axis.share(value) * _HEIGHT

    def grid(self, across: str, up: str) -> str:
        parts = [f'<g class="grid"><text x="0" y="{_TOP - 10}">{escape(up)}</text>']
        for tick in self.y_axis.ticks:
            y = f"{self.y(tick.value):.1f}"
            parts.append(f'<path d="M{_LEFT} {y}H{self.right}"/>')
            parts.append(f'<text x="{_LEFT - 7}" y="{y}" dy=".35em" class="y">{tick.label}</text>')
        for tick in self.x_axis.ticks:
            x = f"{self.x(tick.value):.1f}"
            parts.append(f'<path d="M{x} {self.bottom}v4"/>')
            parts.append(f'<text x="{x}" y="{self.bottom + 17}" class="x">{tick.label}</text>')
        parts.append(
            f'<text x="{(_LEFT + self.right) / 2}" y="{self.bottom + 35}" class="x">'
            f"{escape(across)}</text>"
        )
        parts.append(f'<path class="axis" d="M{_LEFT} {_TOP}V{self.bottom}H{self.right}"/></g>')
        return "".join(parts)

    def values(self, known: Sequence[tuple[float, float]]) -> str:
        if len(known) > MOST_POINTS:
            return self._spans(known)
        path = "L".join(f"{self.x(x):.1f} {self.y(y):.1f}" for x, y in known)
        dots = ""
        if len(known) <= _MOST_DOTS:
            dots = "".join(
                f'<circle cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="3.2"/>' for x, y in known
            )
        return f'<g class="line measured"><path class="stroke" d="M{path}"/>{dots}</g>'

    def _spans(self, known: Sequence[tuple[float, float]]) -> str:
        each = math.ceil(len(known) / MOST_POINTS)
        parts = []
        for start in range(0, len(known), each):
            some = known[start : start + each]
            x = f"{self.x(some[0][0]):.1f}"
            low, high = (self.y(pick(y for _, y in some)) for pick in (min, max))
            parts.append(f"M{x} {low:.1f}V{high - 0.5:.1f}")
        return f'<g class="line measured"><path class="stroke" d="{"".join(parts)}"/></g>'

    def reference(self, name: str, value: float) -> str:
        y = f"{self.y(value):.1f}"
        return (
            f'<g class="line predicted"><path class="stroke" d="M{_LEFT} {y}H{self.right}"/></g>'
            f'<text x="{self.right + 8}" y="{y}" dy=".35em" class="end predicted">{escape(name)}</text>'
        )
