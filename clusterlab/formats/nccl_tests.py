"""The table nccl-tests and rccl-tests print, of all vintages: with or without redop, root and #iters.

Rows are found wherever they stand in a line, as mpirun and srun put prefixes before them. Figures are
the tool's: bytes, µs, GB/s.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_START = re.compile(
    r"(?<![\w.])(?P<size>\d{1,19})\s+(?P<count>\d{1,19})\s+(?P<type>[a-z][a-z0-9_]*)(?P<rest>\s.*)"
)
_HEADER = re.compile(r"#\s*size\s+count\s+type\b(?P<rest>.*)")
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_WRONG = re.compile(r"(N/A|\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?![\d.])")  # a log line may be glued to it
_INTEGER = re.compile(r"-?\d+")
_WORD = re.compile(r"[a-z][a-z_]*")
_BANNER = re.compile(
    r"nThread \d+ nGpus \d+ minBytes|Collective test (?:starting|concluded)|nccl-tests version \d"
    r"|Avg bus bandwidth\s*:"
)
_SOURCE = re.compile(r"[A-Za-z_]\w*\(\), [\w./-]+:\d+, ?")
_METRICS = 4
_LINE = 2000  # characters of a line in which a row stands


@dataclass(frozen=True, slots=True)
class Timing:
    """One half of a row. ``wrong`` is the count of wrong elements, or in older tools the largest error."""

    time_us: float
    algbw_GBps: float
    busbw_GBps: float
    wrong: str


@dataclass(frozen=True, slots=True)
class NcclTestsRow:
    """One row; ``in_place`` is None where it is cut off or not there."""

    size_bytes: int
    count: int
    dtype: str
    redop: str | None
    root: int | None
    out_of_place: Timing
    in_place: Timing | None
    line: int


@dataclass(frozen=True, slots=True)
class NcclTestsOutput:
    """What of nccl-tests stands in a log. ``banner``: something only nccl-tests prints is there."""

    rows: tuple[NcclTestsRow, ...]
    headers: int
    banner: bool


def parse_nccl_tests(text: str) -> NcclTestsOutput:
    """All rows of ``text`` in order, however many tables; lines that are no row are passed over."""
    rows: list[NcclTestsRow] = []
    headers, banner, rooted = 0, False, None
    for number, whole in enumerate(text.splitlines(), 1):
        line = whole[:_LINE]
        if "size" in line and (header := _HEADER.search(line)):
            headers += 1
            rooted = "root" in header.group("rest")
        elif _BANNER.search(line):
            banner = True
        else:
            rows.extend(_rows(line, number, rooted))
    return NcclTestsOutput(tuple(rows), headers, banner or headers > 0 or bool(rows))


def recognise(text: str) -> bool:
    """Whether nccl-tests printed some of ``text``."""
    if _BANNER.search(text) or _HEADER.search(text):
        return True
    return any(next(_rows(line[:_LINE], 0, None), None) is not None for line in text.splitlines())


def _rows(line: str, number: int, rooted: bool | None) -> Iterator[NcclTestsRow]:
    """The row in ``line``, if there is one."""
    found = _START.search(_SOURCE.sub(" ", line) if "()" in line else line)
    if found is None:
        return
    words = found["rest"].split()
    redop = words.pop(0) if words and _WORD.fullmatch(words[0]) else None
    root = None
    if words and _has_root(words, rooted):
        root = int(words.pop(0))
    out = _timing(words[:_METRICS])
    if out is None:
        return
    yield NcclTestsRow(
        size_bytes=int(found["size"]),
        count=int(found["count"]),
        dtype=found["type"],
        redop=redop,
        root=root,
        out_of_place=out,
        in_place=_timing(words[_METRICS : 2 * _METRICS]),
        line=number,
    )


def _has_root(words: list[str], rooted: bool | None) -> bool:
    """Whether the first word is the root, by the header; without one, by how many words there are."""
    if not _INTEGER.fullmatch(words[0]) or len(words[0]) > 9:
        return False
    if rooted is not None:
        return rooted
    return words[0] == "-1" or len(words) in {_METRICS + 1, 2 * _METRICS + 1, 2 * _METRICS + 2}


def _timing(words: list[str]) -> Timing | None:
    """Time, algbw, busbw and errors; a time of N/A (an in-place run there is none of) gives None."""
    if len(words) < _METRICS or not all(_NUMBER.fullmatch(w) for w in words[:3]):
        return None
    wrong = _WRONG.match(words[3])
    if wrong is None:
        return None
    time_us, algbw, busbw = (float(w) for w in words[:3])
    return Timing(time_us, algbw, busbw, wrong.group(1))
