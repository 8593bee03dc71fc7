"""What a picture is made of: boxes, lines, texts, dots and crosses with positions in CSS pixels. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

TEXT_PX = 12
SMALL_PX = 11
TITLE_PX = 18
_CHARACTER = 0.6  # of the font size: the mean advance of wide sans-serif fonts (DejaVu Sans)
_BOLD_CHARACTER = 0.66

LINE_PX = 17
"""From one line of text to the next."""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle. ``css`` are its classes, ``title`` what resting a pointer on it shows."""

    x: float
    y: float
    width: float
    height: float
    css: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class Text:
    """One line of text; ``y`` is its baseline. ``turned`` runs it upwards."""

    x: float
    y: float
    text: str
    css: str = "label"
    anchor: str = "middle"
    size: int = TEXT_PX
    turned: bool = False


@dataclass(frozen=True, slots=True)
class Stroke:
    """A straight line. ``dash`` as SVG takes it."""

    x1: float
    y1: float
    x2: float
    y2: float
    css: str
    width: float = 1.5
    dash: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True)
class Dot:
    """A filled circle."""

    x: float
    y: float
    radius: float
    css: str


@dataclass(frozen=True, slots=True)
class Cross:
    """The mark of a failure."""

    x: float
    y: float
    radius: float = 5.0


Mark = Box | Text | Stroke | Dot | Cross


@dataclass(frozen=True)
class Panel:
    """Marks within ``width`` × ``height`` pixels."""

    width: float
    height: float
    marks: tuple[Mark, ...] = field(default=())


def moved(mark: Mark, dx: float, dy: float) -> Mark:
    """The same mark elsewhere."""
    if isinstance(mark, Stroke):
        return replace(mark, x1=mark.x1 + dx, x2=mark.x2 + dx, y1=mark.y1 + dy, y2=mark.y2 + dy)
    return replace(mark, x=mark.x + dx, y=mark.y + dy)


def stacked(panels: Iterable[Panel], *, gap: float, margin: float) -> Panel:
    """Panels one under the other, each at the left margin."""
    marks: list[Mark] = []
    y, width = margin, 0.0
    for panel in panels:
        marks += [moved(mark, margin, y) for mark in panel.marks]
        y += panel.height + gap
        width = max(width, panel.width)
    return Panel(width + 2 * margin, y - gap + margin, tuple(marks))


def text_width(text: str, size: int = TEXT_PX, *, bold: bool = False) -> float:
    """An upper estimate of how wide ``text`` is drawn, whatever the font."""
    return len(text) * size * (_BOLD_CHARACTER if bold else _CHARACTER)


def fitted(text: str, width: float, size: int = TEXT_PX) -> str:
    """``text``, its middle left out where it would be wider than ``width``."""
    most = int(width / (size * _CHARACTER))
    if len(text) <= most:
        return text
    if most < 3:
        return text[: max(1, most)]
    head = (most - 1 + 1) // 2
    tail = most - 1 - head
    return f"{text[:head]}…{text[len(text) - tail :] if tail else ''}"


def wrapped(text: str, width: float, size: int = TEXT_PX) -> list[str]:
    """``text`` in lines no wider than ``width``, broken at spaces; a longer word is cut."""
    lines: list[str] = []
    for word in text.split():
        piece = fitted(word, width, size)
        if lines and text_width(f"{lines[-1]} {piece}", size) <= width:
            lines[-1] += f" {piece}"
        else:
            lines.append(piece)
    return lines


def lines_of_text(
    lines: Iterable[str], *, css: str = "label", size: int = TEXT_PX, width: float
) -> Panel:
    """A panel of left-aligned lines, wrapped to ``width``."""
    pieces = [piece for line in lines for piece in wrapped(line, width, size)]
    marks = [
        Text(0, (i + 1) * LINE_PX - 4, piece, css, "start", size) for i, piece in enumerate(pieces)
    ]
    return Panel(width, len(pieces) * LINE_PX, tuple(marks))
