"""One training step of all ranks as an inline SVG: what each computed when, and what it waited for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from clusterlab.core.stepping import Entry, Span, StepLedger
from clusterlab.report.numbers import three_digits
from clusterlab.report.scale import tick_label, value_axis
from clusterlab.report.svg import picture

MOST_RANKS = 16
MOST_BOXES = 2000
"""Of more ranks the first are drawn, of more boxes the longest."""

_WIDTH, _LEFT, _LANE, _GAP, _TOP = 960, 96, 18, 8, 26
_LETTERS = {"forward": "F", "backward": "B", "backward_input": "I", "backward_weight": "W"}
_LEAST_PX = 0.4


@dataclass(frozen=True, slots=True)
class Box:
    """What is drawn from ``start_us`` to ``end_us`` on a lane; ``kind`` is its CSS class."""

    lane: int
    start_us: float
    end_us: float
    kind: str
    letters: str
    title: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """``svg`` and, in words, what it leaves out."""

    svg: str
    left_out: str


def timeline(ledgers: Sequence[StepLedger], name: str) -> Timeline | None:
    """The chart of ``ledgers``, every rank's of one step; None where nothing was noted."""
    shown = sorted(ledgers, key=lambda one: one.rank)[:MOST_RANKS]
    if not shown:
        return None
    begin = min(one.began_us for one in shown)
    boxes: list[Box] = []
    lanes: list[str] = []
    for one in shown:
        axes = sorted({entry.axis for entry in one.entries})
        offset, lane = one.began_us - begin, len(lanes)
        lanes += [f"rank {one.rank}", *(f"{axis}" for axis in axes)]
        boxes += [_of_span(span, offset, lane) for span in one.spans if span.name != "step"]
        boxes += [_of_entry(e, offset, lane + 1 + axes.index(e.axis)) for e in one.entries]
    if not boxes:
        return None
    kept = sorted(boxes, key=lambda box: box.start_us - box.end_us)[:MOST_BOXES]
    end = max(box.end_us for box in boxes)
    left = []
    if len(ledgers) > len(shown):
        left.append(f"{len(ledgers) - len(shown)} further ranks")
    if len(boxes) > len(kept):
        left.append(f"{len(boxes) - len(kept)} of the shortest boxes")
    return Timeline(
        _svg(kept, lanes, end, name, f"Step {shown[0].step} of {len(ledgers)} ranks over time"),
        f"Not drawn: {', '.join(left)}." if left else "",
    )


def _of_span(span: Span, offset: float, lane: int) -> Box:
    number = "" if span.micro_batch is None else str(span.micro_batch)
    title = f"{span.name} {number}".strip() + f": {three_digits(span.end_us - span.start_us)} µs"
    kind = span.name if span.name in _LETTERS else "work"
    letters = f"{_LETTERS.get(span.name, span.name[:4])}{number}"
    return Box(lane, offset + span.start_us, offset + span.end_us, kind, letters, title)


def _of_entry(entry: Entry, offset: float, lane: int) -> Box:
    number = "" if entry.micro_batch is None else f" {entry.micro_batch}"
    took = three_digits(entry.end_us - entry.start_us)
    title = f"{entry.op}, {entry.phase}{number}: {took} µs"
    return Box(lane, offset + entry.start_us, offset + entry.end_us, "talk", entry.op[:4], title)


def _svg(boxes: Sequence[Box], lanes: Sequence[str], end_us: float, name: str, label: str) -> str:
    wide = (_WIDTH - _LEFT - 8) / max(end_us, 1e-9)
    top = float(_TOP)
    tops: list[float] = []
    for text in lanes:
        top += _GAP if text.startswith("rank ") and tops else 0
        tops.append(top)
        top += _LANE
    parts = [
        f'<text x="{_LEFT - 8}" y="{y + _LANE / 2:.0f}" dy=".35em" class="y">{escape(text)}</text>'
        for text, y in zip(lanes, tops, strict=True)
    ]
    for tick in value_axis([end_us / 1e3, end_us / 1e3 / 2]).ticks:
        if tick.value * 1e3 <= end_us:
            x = f"{_LEFT + tick.value * 1e3 * wide:.1f}"
            parts.append(
                f'<path class="tick" d="M{x} {_TOP - 4}V{top:.0f}"/>'
                f'<text x="{x}" y="14" class="x">{tick_label(tick.value)} ms</text>'
            )
    parts += [_box(box, tops[box.lane], wide) for box in boxes]
    described = (
        "Each rank has a lane of computing (F forward, B backward, with the micro-batch's number) and "
        "one of communication for each axis. The sums are in the tables."
    )
    size = _WIDTH, top + 6
    return picture(
        "chart timeline", size, "".join(parts), name=name, label=label, described=described
    )


def _box(box: Box, top: float, wide: float) -> str:
    x = _LEFT + box.start_us * wide
    width = max(_LEAST_PX, (box.end_us - box.start_us) * wide)
    text = ""
    if width > 7.5 * len(box.letters) + 4:
        text = (
            f'<text x="{x + width / 2:.1f}" y="{top + _LANE / 2 - 1:.1f}" dy=".35em" '
            f'class="x">{escape(box.letters)}</text>'
        )
    return (
        f'<g class="{box.kind}"><title>{escape(box.title)}</title><rect x="{x:.1f}" y="{top:.1f}" '
        f'width="{width:.1f}" height="{_LANE - 2}"/>{text}</g>'
    )
