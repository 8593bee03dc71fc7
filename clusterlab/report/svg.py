"""Line charts as inline SVG: no library, no script, coloured by the page's CSS.

Lines are told apart by dash, marker and a label at their end as well as by colour: measured solid with filled
markers, predicted dashed, the library's own prediction dashed and dotted with diamonds, bound dotted. A
mark's ``<title>`` is what a pointer resting on it shows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

from clusterlab.report.scale import Axis, size_axis

WIDTH = 560
_LEFT, _RIGHT = 52, 76
_ABOVE = 28  # room for a panel's label
_BELOW = 26  # room for the size labels under the last panel

Mark = Literal["dot", "ring", "diamond", "down", "up", "cross", "none"]

_LABEL_GAP = 15
"""Between the labels at the ends of two lines, in units of the view box."""

_SHAPES: dict[str, str] = {
    "dot": '<circle cx="{x}" cy="{y}" r="3.6"/>',
    "ring": '<circle cx="{x}" cy="{y}" r="3.2"/>',
    "diamond": '<path d="M{x} {y}m0-4l4 4l-4 4l-4-4z"/>',
    "down": '<path d="M{x} {y}m-6-4.5h12l-6 10z"/>',
    "up": '<path d="M{x} {y}m-6 4.5h12l-6-10z"/>',
    "cross": '<path d="M{x} {y}m-5-5l10 10m-10 0l10-10"/>',
}


@dataclass(frozen=True, slots=True)
class Dot:
    """One point of a line: its size, its value, the mark there and what resting on it says."""

    size_bytes: int
    value: float
    mark: Mark = "none"
    title: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A line through ``dots``. ``kind`` is its CSS class: measured, in-place, predicted, library, bound;
    ``label`` is written at its end. ``loose``: only marks, no stroke.
    """

    kind: str
    dots: tuple[Dot, ...]
    label: str = ""
    loose: bool = False


@dataclass(frozen=True, slots=True)
class Band:
    """The area between ``low`` and ``high`` at every size. ``kind`` is its CSS class."""

    kind: str
    points: tuple[tuple[int, float, float], ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """One drawing area: what it shows, over which values, how high (in units of the view box)."""

    label: str
    lines: tuple[Line, ...]
    bands: tuple[Band, ...]
    axis: Axis
    height: int


def chart(panels: Sequence[Panel], *, name: str, label: str, described: str = "") -> str:
    """``panels`` one under the other over a common log2 size axis, as one ``<svg>`` element.

    ``label`` is the text alternative, ``described`` what is worth saying besides; what is inside is hidden
    from screen readers. ``name`` is the element's own on its page. Values that are not finite are left out.
    """
    sizes = [d.size_bytes for panel in panels for line in panel.lines for d in line.dots]
    x_axis = size_axis(sizes or [1])
    parts = []
    top = 0
    for panel in panels:
        parts.append(_Drawing(x_axis, panel, top + _ABOVE).draw(last=panel is panels[-1]))
        top += _ABOVE + panel.height
    size = WIDTH, top + _BELOW
    return picture("chart", size, "".join(parts), name=name, label=label, described=described)


def picture(
    kind: str, size: tuple[float, float], body: str, *, name: str, label: str, described: str = ""
) -> str:
    """``body`` as one ``<svg>`` of that CSS class and of ``size`` (width, height), named by ``label`` and
    ``described`` for who cannot see it. ``body`` is SVG; the texts are not.
    """
    width, height = size
    more = f'<desc id="{name}-d">{escape(described)}</desc>' if described else ""
    return (
        f'<svg class="{kind}" viewBox="0 0 {width:g} {height:g}" role="img" aria-labelledby="{name}-t"'
        + (f' aria-describedby="{name}-d"' if described else "")
        + f'><title id="{name}-t">{escape(label)}</title>{more}{body}</svg>'
    )


@dataclass(frozen=True, slots=True)
class _Drawing:
    """Values to coordinates, and coordinates to SVG, for one panel that begins at ``top``."""

    x_axis: Axis
    panel: Panel
    top: int

    def draw(self, *, last: bool) -> str:
        return "".join(
            [
                self.grid(size_labels=last),
                *(self.band(band) for band in self.panel.bands),
                *(self.line(line) for line in self.panel.lines),
                self.labels(),
            ]
        )

    @property
    def bottom(self) -> int:
        return self.top + self.panel.height

    def x(self, size_bytes: float) -> str:
        return f"{_LEFT + self.x_axis.share(size_bytes) * (WIDTH - _LEFT - _RIGHT):.1f}"

    def y(self, value: float) -> str:
        return f"{self.bottom - self.panel.axis.share(value) * self.panel.height:.1f}"

    def grid(self, *, size_labels: bool) -> str:
        """Axes, grid lines, tick labels, and the panel's own label above."""
        right = WIDTH - _RIGHT
        parts = [
            f'<g class="grid"><text x="0" y="{self.top - 10}">{escape(self.panel.label)}</text>'
        ]
        for tick in self.panel.axis.ticks:
            y = self.y(tick.value)
            parts.append(f'<path d="M{_LEFT} {y}H{right}"/>')
            parts.append(f'<text x="{_LEFT - 7}" y="{y}" dy=".35em" class="y">{tick.label}</text>')
        for tick in self.x_axis.ticks:
            x = self.x(tick.value)
            parts.append(f'<path d="M{x} {self.bottom}v4"/>')
            if size_labels:
                minor = " minor" if tick.minor else ""
                parts.append(
                    f'<text x="{x}" y="{self.bottom + 19}" class="x{minor}">{tick.label}</text>'
                )
        parts.append(f'<path class="axis" d="M{_LEFT} {self.top}V{self.bottom}H{right}"/></g>')
        return "".join(parts)

    def band(self, band: Band) -> str:
        points = [p for p in band.points if math.isfinite(p[1]) and math.isfinite(p[2])]
        if len(points) < 2:
            return ""
        top = [f"{self.x(size)} {self.y(high)}" for size, _, high in points]
        bottom = [f"{self.x(size)} {self.y(low)}" for size, low, _ in reversed(points)]
        return f'<path class="band {band.kind}" d="M{"L".join(top + bottom)}Z"/>'

    def line(self, line: Line) -> str:
        dots = [dot for dot in line.dots if math.isfinite(dot.value)]
        path = "L".join(f"{self.x(d.size_bytes)} {self.y(d.value)}" for d in dots)
        parts = [f'<g class="line {line.kind}">']
        if len(dots) > 1 and not line.loose:
            parts.append(f'<path class="stroke" d="M{path}"/>')
        parts += [self.mark(dot) for dot in dots if dot.mark != "none" and dot.title]
        for kind in dict.fromkeys(dot.mark for dot in dots if dot.mark != "none"):
            parts.append(self.marks(kind, [d for d in dots if d.mark == kind and not d.title]))
        return "".join([*parts, "</g>"])

    def labels(self) -> str:
        """The lines' names at their ends, moved apart where they would lie on each other."""
        ends = []
        for line in self.panel.lines:
            dots = [dot for dot in line.dots if math.isfinite(dot.value)]
            if line.label and dots:
                last = max(dots, key=lambda dot: dot.size_bytes)
                ends.append((float(self.y(last.value)), self.x(last.size_bytes), line))
        ends.sort(key=lambda end: end[0])
        parts, free = [], float(self.top)
        room = len(ends) * _LABEL_GAP
        for y, x, line in ends:
            at = max(min(y, self.bottom - room + _LABEL_GAP), free)
            free, room = at + _LABEL_GAP, room - _LABEL_GAP
            parts.append(
                f'<text x="{float(x) + 8:.1f}" y="{at:.1f}" dy=".35em" class="end {line.kind}">'
                f"{escape(line.label)}</text>"
            )
        return "".join(parts)

    def marks(self, kind: Mark, dots: Sequence[Dot]) -> str:
        """Marks that say nothing, together: pages hold thousands."""
        if not dots:
            return ""
        at = [(self.x(dot.size_bytes), self.y(dot.value)) for dot in dots]
        spots = "".join(f"M{x} {y}h0" for x, y in at)  # lines of no length with round ends
        if kind == "dot":
            return f'<path class="dots" d="{spots}"/>'
        if kind == "ring":
            return f'<path class="dots" d="{spots}"/><path class="holes" d="{spots}"/>'
        return f'<g class="{kind}">{"".join(_SHAPES[kind].format(x=x, y=y) for x, y in at)}</g>'

    def mark(self, dot: Dot) -> str:
        shape = _SHAPES[dot.mark].format(x=self.x(dot.size_bytes), y=self.y(dot.value))
        return f'<g class="{dot.mark}"><title>{escape(dot.title)}</title>{shape}</g>'
