"""Charts of a comparison: how much longer each group of points takes, and each size. Above 1 is slower."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from clusterlab.core.sizes import human_size
from clusterlab.report.scale import Axis, Tick, tick_label
from clusterlab.report.svg import WIDTH, Band, Dot, Line, Mark, Panel, chart, picture

_ROW, _TOP, _SIDE = 44, 40, 26
_HEIGHT = 150
_SHAPES = {
    "down": "m-7-5h14l-7 11z",
    "up": "m-7 5h14l-7-11z",
    "dot": "m-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0z",
}


def _around_one(ratios: Sequence[float]) -> Axis:
    """A logarithmic axis that holds ``ratios`` and 1, with ticks on either side where there is room."""
    low, high = min(1 / 1.05, *ratios) / 1.03, max(1.05, *ratios) * 1.03
    steps = next((s for s in _STEPS if len(_ticks(s, low, high)) <= _MOST_TICKS), _STEPS[-1])
    return Axis(low, high, True, tuple(Tick(v, tick_label(v)) for v in _ticks(steps, low, high)))


_MOST_TICKS = 7
_STEPS = (0.02, 0.05, 0.1, 0.2, 0.5, (1, 2, 5), (1,))
"""Between ticks, or which of each decade; the closest first."""


def _ticks(steps: float | tuple[int, ...], low: float, high: float) -> list[float]:
    if isinstance(steps, tuple):
        decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        return [v for e in decades for m in steps if low <= (v := m * 10.0**e) <= high]
    return [1 + i * steps for i in range(math.ceil((low - 1) / steps), int((high - 1) / steps) + 1)]


@dataclass(frozen=True, slots=True)
class Interval:
    """A ratio of times and the interval that holds it with 95 %. ``label`` names it, ``word`` says it."""

    label: str
    word: str
    mark: Mark
    ratio: float
    low: float
    high: float


def intervals_chart(found: Sequence[Interval], *, name: str, label: str) -> str:
    """One under the other, each a mark on its interval, around the line of no change."""
    axis = _around_one([v for one in found for v in (one.low, one.ratio, one.high)])
    height = _TOP + _ROW * len(found)
    body = [_axis(axis, height)]
    body += [_interval(axis, one, _TOP + _ROW * i) for i, one in enumerate(found)]
    return picture("chart", (WIDTH, height + 8), "".join(body), name=name, label=label)


def _x(axis: Axis, value: float) -> str:
    return f"{_SIDE + axis.share(value) * (WIDTH - 2 * _SIDE):.1f}"


def _axis(axis: Axis, bottom: int) -> str:
    parts = ['<g class="grid">']
    for tick in axis.ticks:
        x = _x(axis, tick.value)
        kind = ' class="axis"' if tick.label == "1" else ""
        parts.append(f'<path{kind} d="M{x} {_TOP - 12}V{bottom}"/>')
        parts.append(f'<text x="{x}" y="{_TOP - 18}" class="x">×{tick.label}</text>')
    return "".join([*parts, "</g>"])


def _interval(axis: Axis, one: Interval, top: int) -> str:
    y = top + 30
    times = f"×{one.ratio:.2f}"
    said = f"{one.label}: {times} ({one.low:.3f} to {one.high:.3f}), {one.word}"
    low, mid, high = (_x(axis, value) for value in (one.low, one.ratio, one.high))
    return (
        f'<g class="interval-of {one.mark}"><title>{escape(said)}</title>'
        f'<text x="0" y="{top + 14}" class="name">{escape(one.label)}</text>'
        f'<text x="{WIDTH}" y="{top + 14}" class="y value">'
        f'{times}<tspan class="wide"> {escape(one.word)}</tspan></text>'
        f'<path class="whisker" d="M{low} {y}H{high}M{low} {y - 5}v10M{high} {y - 5}v10"/>'
        f'<path class="mark" d="M{mid} {y}{_SHAPES[one.mark]}"/></g>'
    )


@dataclass(frozen=True, slots=True)
class SizeRatio:
    """The ratio of times at one size, and its interval."""

    size_bytes: int
    ratio: float
    low: float
    high: float

    @property
    def mark(self) -> Mark:
        """Down: slower, up: faster, a dot where the interval holds 1."""
        return "down" if self.low > 1 else "up" if self.high < 1 else "dot"


def sizes_chart(found: Sequence[SizeRatio], *, name: str, label: str) -> str | None:
    """The ratio by size with its interval; None for fewer than two sizes."""
    if len({one.size_bytes for one in found}) < 2:
        return None
    shown = sorted(found, key=lambda one: one.size_bytes)
    dots = tuple(
        Dot(
            one.size_bytes,
            one.ratio,
            one.mark,
            f"{human_size(one.size_bytes)}: time ×{one.ratio:.3f} ({one.low:.3f} to {one.high:.3f})",
        )
        for one in shown
    )
    ends = (shown[0].size_bytes, shown[-1].size_bytes)
    lines = (
        Line("predicted", tuple(Dot(size, 1.0) for size in ends), "same"),
        Line("measured", dots, "B / A"),
    )
    band = Band("spread", tuple((one.size_bytes, one.low, one.high) for one in shown))
    values = [v for one in shown for v in (one.low, one.ratio, one.high) if math.isfinite(v)]
    panel = Panel(
        "time of B over time of A, with 95 %", lines, (band,), _around_one(values), _HEIGHT
    )
    return chart([panel], name=name, label=label)
