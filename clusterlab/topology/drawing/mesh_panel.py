"""GPUs joined to each other without a switch: a circle, thicker lines for more links. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection

from clusterlab.topology.drawing.marks import (
    LINE_PX,
    SMALL_PX,
    Box,
    Cross,
    Mark,
    Panel,
    Stroke,
    Text,
    fitted,
    text_width,
)
from clusterlab.topology.drawing.words import CLASS_NAMES, GBps_text, cables, plural, whole_GBps
from clusterlab.topology.parts import Link
from clusterlab.topology.shapes import HostShape

_DASHES = {1: "5 4", 2: "", 3: "", 4: ""}
_CLASSES = ("nvlink", "xgmi")


def mesh_panel(shape: HostShape, width: float, down: Collection[str]) -> Panel | None:
    """The circle and, beside it, what its lines mean; None where no GPU is joined to another."""
    gpus = [d.name for d in shape.devices if d.kind == "gpu"]
    bundles: defaultdict[tuple[str, str], list[Link]] = defaultdict(list)
    for link in shape.links:
        if link.link_class in _CLASSES and link.src in gpus and link.dst in gpus:
            a, b = sorted((link.src, link.dst), key=gpus.index)
            if link.src == a:
                bundles[a, b].append(link)
    if not bundles:
        return None
    radius = max(120.0, 26.0 * len(gpus))
    middle = radius + 40
    centre = (min(width / 2, radius + 70), middle)
    place = {
        gpu: (
            centre[0] + radius * math.sin(2 * math.pi * (i + 0.5) / len(gpus)),
            centre[1] - radius * math.cos(2 * math.pi * (i + 0.5) / len(gpus)),
        )
        for i, gpu in enumerate(gpus)
    }
    marks = _chords(bundles, place, down) + _nodes(place, down)
    marks += _meaning(bundles, centre[0] + radius + 60, middle)
    return Panel(width, 2 * middle, tuple(marks))


def _chords(
    bundles: dict[tuple[str, str], list[Link]],
    place: dict[str, tuple[float, float]],
    down: Collection[str],
) -> list[Mark]:
    several = len({cables(links) for links in bundles.values()}) > 1
    lines: list[Mark] = []
    crosses: list[Mark] = []
    for (a, b), links in bundles.items():
        count = cables(links)
        hurt = [k for k in links if k.health < 1]
        (x1, y1), (x2, y2) = place[a], place[b]
        lines.append(
            Stroke(
                *(x1, y1, x2, y2),
                css="fault" if hurt else f"link-{links[0].link_class}",
                width=1.3 * min(count, 4) if several else 1.5,
                dash="4 3" if hurt else (_DASHES.get(count, "") if several else ""),
                title=f"{a} – {b}: {plural(count, 'link')}, {GBps_text(whole_GBps(links))}",
            )
        )
        if hurt and a not in down and b not in down:
            crosses += _fault(links, (x1 + 2 * x2) / 3, (y1 + 2 * y2) / 3)
    return lines + crosses


def _fault(links: list[Link], x: float, y: float) -> list[Mark]:
    """A cross for links that are down, and the share of the pair's links that is left."""
    marks: list[Mark] = [Cross(x, y)] if any(k.health == 0 for k in links) else []
    left = sum(k.multiplicity * k.health for k in links) / cables(links)
    if left:
        marks.append(Text(x + 8, y - 5, f"{left:.0%}", "bad bold halo", "start", SMALL_PX))
    return marks


def _nodes(place: dict[str, tuple[float, float]], down: Collection[str]) -> list[Mark]:
    marks: list[Mark] = []
    for name, (x, y) in place.items():
        width = min(96.0, text_width(name, SMALL_PX) + 14)
        css = "gpu down" if name in down else "gpu"
        marks.append(Box(x - width / 2, y - 12, width, 24, css, name))
        if name in down:
            marks.append(Cross(x + width / 2 - 2, y - 10, 6))
        marks.append(Text(x, y + 4, fitted(name, width - 4, SMALL_PX), size=SMALL_PX))
    return marks


def _meaning(bundles: dict[tuple[str, str], list[Link]], x: float, middle: float) -> list[Mark]:
    """One line for each number of links that a pair of GPUs has."""
    kinds: defaultdict[int, list[list[Link]]] = defaultdict(list)
    for links in bundles.values():
        kinds[cables(links)].append(links)
    name = CLASS_NAMES[next(iter(bundles.values()))[0].link_class]
    marks: list[Mark] = [Text(x, middle - 20, f"{name} between GPUs", "label bold", "start")]
    for i, (count, of) in enumerate(sorted(kinds.items())):
        y = middle + i * (LINE_PX + 3)
        several = len(kinds) > 1
        marks.append(
            Stroke(
                *(x, y - 4, x + 34, y - 4),
                css=f"link-{of[0][0].link_class}",
                width=1.3 * min(count, 4) if several else 1.5,
                dash=_DASHES.get(count, "") if several else "",
            )
        )
        text = f"{plural(len(of), 'pair')}: {plural(count, 'link')}, {GBps_text(whole_GBps(of[0]))}"
        marks.append(Text(x + 42, y, text, "label", "start"))
    return marks
