"""A fabric as one self-contained SVG: no script, nothing fetched, the same text every time. Pure."""

from __future__ import annotations

from html import escape

from clusterlab.topology.drawing.layout import picture
from clusterlab.topology.drawing.marks import Box, Cross, Dot, Mark, Stroke, Text
from clusterlab.topology.drawing.style import style_sheet
from clusterlab.topology.drawing.words import printable
from clusterlab.topology.fabric import Fabric


def fabric_svg(fabric: Fabric) -> str:
    """``fabric`` drawn: its network, one host of each kind, and what is down. Fits light and dark.

    A text alternative (``title`` and ``desc``) says the same in words.
    """
    panel, words = picture(fabric)
    width, height = round(panel.width), round(panel.height)
    return "".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="fabric" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" role="img" aria-label="{_safe(f"Fabric {fabric.name}")}">',
            f"<title>{_safe(f'Fabric {fabric.name}')}</title>",
            f"<desc>{_safe(words)}</desc>",
            f"<style>{style_sheet()}</style>",
            f'<rect class="back" width="{width}" height="{height}"/>',
            *map(_element, panel.marks),
            "</svg>\n",
        ]
    )


def _safe(text: str) -> str:
    return escape(printable(text))


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _element(mark: Mark) -> str:
    n = _number
    if isinstance(mark, Box):
        shape = (
            f'<rect x="{n(mark.x)}" y="{n(mark.y)}" width="{n(mark.width)}" height="{n(mark.height)}" '
            f'rx="4" class="{mark.css}"'
        )
        return _titled(shape, "rect", mark.title)
    if isinstance(mark, Stroke):
        dash = f' stroke-dasharray="{mark.dash}"' if mark.dash else ""
        shape = (
            f'<line x1="{n(mark.x1)}" y1="{n(mark.y1)}" x2="{n(mark.x2)}" y2="{n(mark.y2)}" '
            f'class="{mark.css}" stroke-width="{n(mark.width)}"{dash}'
        )
        return _titled(shape, "line", mark.title)
    if isinstance(mark, Text):
        turn = f' transform="rotate(-90 {n(mark.x)} {n(mark.y)})"' if mark.turned else ""
        return (
            f'<text x="{n(mark.x)}" y="{n(mark.y)}" class="{mark.css}" font-size="{mark.size}" '
            f'text-anchor="{mark.anchor}"{turn}>{_safe(mark.text)}</text>'
        )
    if isinstance(mark, Dot):
        return (
            f'<circle cx="{n(mark.x)}" cy="{n(mark.y)}" r="{n(mark.radius)}" class="{mark.css}"/>'
        )
    return _cross(mark)


def _titled(shape: str, tag: str, title: str) -> str:
    return f"{shape}><title>{_safe(title)}</title></{tag}>" if title else f"{shape}/>"


def _cross(mark: Cross) -> str:
    r, n = mark.radius, _number
    x, y = mark.x, mark.y
    return (
        f'<path d="M{n(x - r)} {n(y - r)}L{n(x + r)} {n(y + r)}M{n(x - r)} {n(y + r)}'
        f'L{n(x + r)} {n(y - r)}" class="fault" stroke-width="2.5"/>'
    )
