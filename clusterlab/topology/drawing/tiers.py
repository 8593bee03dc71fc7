"""Marks that several network panels share: switches, bundles of cables, and their faults. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from clusterlab.topology.drawing.bundles import Bundle
from clusterlab.topology.drawing.marks import (
    LINE_PX,
    SMALL_PX,
    Box,
    Cross,
    Mark,
    Stroke,
    Text,
    text_width,
    wrapped,
)
from clusterlab.topology.drawing.style import rail_css, rail_dash
from clusterlab.topology.parts import Device


@dataclass
class Layers:
    """Marks by what lies over what: lines, then boxes with their words, then faults."""

    lines: list[Mark] = field(default_factory=list)
    boxes: list[Mark] = field(default_factory=list)
    faults: list[Mark] = field(default_factory=list)

    def marks(self) -> tuple[Mark, ...]:
        """All of them, the lowest first."""
        return (*self.lines, *self.boxes, *self.faults)


def first_fitting(texts: Iterable[str], width: float, size: int = SMALL_PX) -> str:
    """The first of ``texts`` that fits ``width``, longest first; nothing where none does."""
    return next((text for text in texts if text_width(text, size) <= width), "")


def captioned(layers: Layers, text: str, x: float, y: float, width: float) -> float:
    """Words in short lines from ``x``, ``y`` on, no wider than ``width``; gives where a next line may go."""
    pieces = wrapped(text, width, SMALL_PX) if width > 40 else []
    for i, piece in enumerate(pieces):
        layers.boxes.append(Text(x, y + i * (LINE_PX - 2), piece, "soft", "start", SMALL_PX))
    return y + len(pieces) * (LINE_PX - 2)


def boxed(
    layers: Layers,
    box: Box,
    lines: Sequence[tuple[str, str]],
    *,
    down: bool = False,
    size: int = SMALL_PX,
) -> None:
    """A box with centred lines of (text, class); what is down is outlined and crossed at its corner."""
    css = f"{box.css} down" if down else box.css
    layers.boxes.append(Box(box.x, box.y, box.width, box.height, css, box.title))
    step = size + 4
    first = box.y + (box.height - step * len(lines)) / 2 + size
    for i, (text, kind) in enumerate(lines):
        layers.boxes.append(Text(box.x + box.width / 2, first + i * step, text, kind, size=size))
    if down:
        layers.faults.append(Cross(box.x + box.width - 2, box.y + 2, 6))


def bundle_stroke(b: Bundle, x1: float, y1: float, x2: float, y2: float) -> Stroke:
    """The line of a bundle; a hurt one is red and dashed."""
    title = f"{b.low} – {b.high}: {b.text}"
    if b.bad:
        return Stroke(x1, y1, x2, y2, "fault", 2.2, "5 3", title)
    return Stroke(x1, y1, x2, y2, rail_css(b.rail), 1.3, rail_dash(b.rail), title)


def bundle_fault(layers: Layers, b: Bundle, x: float, y: float) -> None:
    """A cross where something is down, and how much of a bundle, or what is left of a degraded link."""
    if b.down:
        layers.faults.append(Cross(x, y))
    if b.down < b.cables:
        if b.cables > 1:
            count, word = (b.down, "down") if b.down else (b.bad, "degraded")
            text = f"{count} of {b.cables} {word}" if b.cables < 100 else f"{count} {word}"
        elif b.GBps and b.live_GBps is not None:
            text = f"{b.live_GBps / b.GBps:.0%}"
        else:
            text = "degraded"
        layers.faults.append(Text(x + 8, y - 5, text, "bad bold halo", "start", SMALL_PX))


def missing_stroke(x1: float, y1: float, x2: float, y2: float, title: str) -> Stroke:
    """A line where cables are missing beside those of its peers."""
    return Stroke(x1, y1, x2, y2, "fault", 1.4, "2 4", title)


def missing_text(x: float, y: float, text: str) -> Text:
    """What is missing of a line."""
    return Text(x + 8, y - 5, text, "bad bold halo", "start", SMALL_PX)


def place_texts(d: Device) -> tuple[str, ...]:
    """What a switch's second line may say, longest first."""
    role = d.role if d.role not in (None, "compute") else ""
    long = [
        "" if d.rail is None else f"rail {d.rail}",
        "" if d.plane is None else f"plane {d.plane}",
        role or "",
    ]
    short = ["" if d.rail is None else f"r{d.rail}", "" if d.plane is None else f"p{d.plane}"]
    texts = [" · ".join(part for part in parts if part) for parts in (long, short)]
    return tuple(text for text in (*texts, d.model or "", d.kind) if text)


def about(d: Device) -> str:
    """What resting a pointer on a device shows."""
    return ", ".join(part for part in (d.name, d.kind, d.model, place_texts(d)[0]) if part)
