"""The table nccl-tests, rccl-tests and mscclpp-test print, of all vintages.

With or without type, redop, root, #iters and per-iteration columns; one half or two, in either order.
Rows are found wherever they stand in a line, as mpirun and srun put prefixes before them, and put together
again where NCCL's own lines broke them up. Figures are the tool's: bytes, µs, GB/s.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

_START = re.compile(
    r"(?<![\w.])(?P<size>\d{1,19})\s+(?P<count>\d{1,19})\s+(?P<type>[a-z][a-z0-9_]*)(?P<rest>\s.*)"
)
_BARE_START = re.compile(r"(?<![\w.])(?P<size>\d{1,19})\s+(?P<count>\d{1,19})(?P<rest>\s.*)")
_HEADER = re.compile(r"(?P<hash>#)?\s*\bsize\s+count\s+(?P<rest>.*\bbusbw\b.*)")
_TYPED_HEADER = re.compile(r"#\s*size\s+count\s+type\b")
_NUMBER = re.compile(r"-?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|nan|inf)")
_WRONG = re.compile(r"(N/A|\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?![\d.])")  # a log line may be glued to it
_INTEGER = re.compile(r"-?\d+")
_WORD = re.compile(r"[a-z][a-z_]*")
_BANNER = re.compile(
    r"nThread \d+ nGpus \d+ minBytes|Collective test (?:starting|concluded)|nccl-tests version \d"
    r"|Avg bus bandwidth\s*:"
)
_SOURCE = re.compile(r"[A-Za-z_]\w*\(\), [\w./-]+:\d+, ?")
_TAG = re.compile(r"\s*(?:\[\d+,\d+\]<std(?:out|err)>:|\d+:(?=\s))?\s*")
_GLUED = re.compile(r"(?:[A-Za-z][\w.-]*:\d+:\d+ )?\[-?\d+\] (?:\S+ )*$")  # before NCCL's word
_METRICS = 4
_MOST_WORDS = 32
_LINE = 2000  # characters of a line in which a row stands


@dataclass(frozen=True, slots=True)
class Timing:
    """One half of a row, its figures as printed: below 0 and no number at all (``nan``) happen. ``wrong`` is
    the count of wrong elements, or in older tools the largest error.
    """

    time_us: float
    algbw_GBps: float
    busbw_GBps: float
    wrong: str


@dataclass(frozen=True, slots=True)
class NcclTestsRow:
    """One row; a half is None where it is cut off or not there, ``dtype`` where the tool prints none.

    ``layout`` is the header it stands under, None without one. ``rejoined``: other lines stand between
    its sizes and its figures.
    """

    size_bytes: int
    count: int
    dtype: str | None
    redop: str | None
    root: int | None
    out_of_place: Timing | None
    in_place: Timing | None
    line: int
    layout: Layout | None = None
    rejoined: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """A header's columns. ``offsets``: where each half begins, counted from the first time column;
    ``in_place_first`` is the order of the two (None: one half, out of place; True with one: in place).
    """

    typed: bool
    redop: bool
    root: bool
    counts_wrong: bool
    offsets: tuple[int, ...]
    in_place_first: bool


@dataclass(frozen=True, slots=True)
class NcclTestsOutput:
    """What of nccl-tests stands in a log. ``rows`` are those that stand in one line, ``rejoined`` those that
    other lines broke up. ``banner``: something only nccl-tests prints is there.
    """

    rows: tuple[NcclTestsRow, ...]
    headers: int
    banner: bool
    rejoined: tuple[NcclTestsRow, ...] = ()


def parse_nccl_tests(text: str) -> NcclTestsOutput:
    """All rows of ``text`` in order, however many tables; lines that are no row are passed over."""
    reader = RowReader()
    rows: list[NcclTestsRow] = []
    banner = False
    for number, line in enumerate(text.splitlines(), 1):
        rows.extend(reader.feed(line, number))
        banner = banner or _BANNER.search(line[:_LINE]) is not None
    rows.extend(reader.finish())
    return NcclTestsOutput(
        tuple(row for row in rows if not row.rejoined),
        reader.headers,
        banner or reader.headers > 0 or bool(rows),
        tuple(row for row in rows if row.rejoined),
    )


def recognise(text: str) -> bool:
    """Whether nccl-tests printed some of ``text``."""
    if _BANNER.search(text) or _TYPED_HEADER.search(text):
        return True
    reader = RowReader()
    if any(reader.feed(line, 0) for line in text.splitlines()):
        return True
    return bool(reader.finish())


@dataclass(slots=True)
class _Begun:
    """A row whose figures are not all read yet."""

    size_bytes: int
    count: int
    dtype: str | None
    redop: str | None
    root: int | None
    line: int
    layout: Layout | None
    words: list[str]
    rejoined: bool


class RowReader:
    """Lines in, rows out. ``headers`` counts the tables begun (``# size count``), ``broken`` the lines of
    rows without a single whole half: they are dropped.
    """

    def __init__(self) -> None:
        self.headers = 0
        self.broken: list[int] = []
        self.layout: Layout | None = None
        self._in_place_first = False
        self._begun: _Begun | None = None

    def feed(self, whole: str, number: int) -> list[NcclTestsRow]:
        """The rows that are complete with this line."""
        line = whole[:_LINE]
        if (log := line.find("NCCL ")) >= 0:
            line = _before_log_line(line[:log])
            if not line:
                return []
        if "place" in line and "in-place" in line:
            self._in_place_first = line.find("in-place") <= line.find("out-of-place") % _LINE
        if "busbw" in line and (header := _HEADER.search(line)):
            self._start_table(header)
            return self.finish()
        done: list[NcclTestsRow] = []
        begun = self._start(line, number)
        if begun is not None:
            done = self.finish()
            self._begun = begun
        elif self._begun is not None:
            self._continue(line)
        return done + self._ready()

    def finish(self) -> list[NcclTestsRow]:
        """The row that was begun, as far as it came."""
        begun, self._begun = self._begun, None
        if begun is None:
            return []
        row = _row(begun)
        if row is None:
            self.broken.append(begun.line)
            return []
        return [row]

    def _ready(self) -> list[NcclTestsRow]:
        if self._begun is None or len(self._begun.words) < _needed(self._begun.layout):
            return []
        return self.finish()

    def _start_table(self, header: re.Match[str]) -> None:
        self.headers += header["hash"] is not None
        self.layout = _layout(header["rest"].split(), self._in_place_first)
        self._in_place_first = False

    def _start(self, line: str, number: int) -> _Begun | None:
        """The row that begins in ``line``, with the figures that stand there."""
        typed = self.layout is None or self.layout.typed
        if "()" in line:
            line = _SOURCE.sub(" ", line)
        found = (_START if typed else _BARE_START).search(line)
        if found is None:
            return None
        words = found["rest"].split()[:_MOST_WORDS]
        named = words and _WORD.fullmatch(words[0]) and not _NUMBER.fullmatch(words[0])
        redop = words.pop(0) if named else None
        rooted = self.layout.root if self.layout is not None else None
        root = int(words.pop(0)) if words and _has_root(words, rooted) else None
        figures = _figures(words)
        if not figures and words:
            return None
        return _Begun(
            int(found["size"]),
            int(found["count"]),
            found["type"] if typed else None,
            redop,
            root,
            number,
            self.layout,
            figures,
            len(figures) < _METRICS,
        )

    def _continue(self, line: str) -> None:
        """Add the figures of a line that holds nothing else."""
        words = line[_TAG.match(line).end() :].split()[:_MOST_WORDS]  # type: ignore[union-attr]
        if len(words) >= _METRICS and self._begun is not None:
            figures = _figures(words)
            if len(figures) == len(words):
                self._begun.words.extend(figures)


def _before_log_line(head: str) -> str:
    """What of a row stands before a line of NCCL's, which began when the row's was not done yet."""
    if "  " not in head:  # nccl-tests pads its columns with two spaces
        return ""
    glued = _GLUED.search(head)
    return head if glued is None else head[: glued.start()]


def _needed(layout: Layout | None) -> int:
    return (layout.offsets[-1] if layout is not None else _METRICS) + _METRICS


def _layout(words: Sequence[str], in_place_first: bool) -> Layout:
    """The columns after size and count."""
    names = [word.lstrip("#") for word in words]
    times = [at for at, name in enumerate(names) if name in {"time", "cputime"}] or [0]
    return Layout(
        typed="type" in names[:1],
        redop="redop" in names,
        root="root" in names,
        counts_wrong="error" not in names,
        offsets=tuple(at - times[0] for at in times[:2]),
        in_place_first=in_place_first,
    )


def _row(begun: _Begun) -> NcclTestsRow | None:
    """The row, or None where not one half of it is whole."""
    layout = begun.layout
    offsets = layout.offsets if layout is not None else (0, _METRICS)
    if len(offsets) == 1 and len(begun.words) >= 2 * _METRICS:  # a header that was cut
        offsets = (0, _METRICS)
    halves = [_timing(begun.words[at : at + _METRICS]) for at in offsets] + [None]
    first, second = halves[0], halves[1]
    swapped = layout is not None and layout.in_place_first
    out, in_place = (second, first) if swapped else (first, second)
    if out is None and in_place is None:
        return None
    return NcclTestsRow(
        begun.size_bytes,
        begun.count,
        begun.dtype,
        begun.redop,
        begun.root,
        out,
        in_place,
        begun.line,
        layout,
        begun.rejoined,
    )


def _figures(words: Sequence[str]) -> list[str]:
    """The leading figures; the last may have a log line glued to it."""
    found: list[str] = []
    for word in words:
        if _NUMBER.fullmatch(word) or word == "N/A":
            found.append(word)
            continue
        glued = _WRONG.match(word) if len(found) % _METRICS == _METRICS - 1 else None
        if glued is not None:
            found.append(glued.group(1))
        break
    return found


def _has_root(words: list[str], rooted: bool | None) -> bool:
    """Whether the first word is the root, by the header; without one, by how many words there are."""
    if not _INTEGER.fullmatch(words[0]) or len(words[0]) > 9:
        return False
    if rooted is not None:
        return rooted
    return words[0] == "-1" or len(words) in {_METRICS + 1, 2 * _METRICS + 1, 2 * _METRICS + 2}


def _timing(figures: Sequence[str]) -> Timing | None:
    """Time, algbw, busbw and errors; a time of N/A (an in-place run there is none of) gives None."""
    if len(figures) < _METRICS or "N/A" in figures[:3]:
        return None
    time_us, algbw, busbw = float(figures[0]), float(figures[1]), float(figures[2])
    wrong = 0.0 if figures[3] == "N/A" else float(figures[3])
    if not math.isfinite(wrong) or wrong < 0:
        return None
    return Timing(time_us, algbw, busbw, figures[3])
