"""An error log alone → findings: which binding problem its texts name, of which ranks, and the fix."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path

from clusterlab.binding.folding import fold
from clusterlab.binding.log_literals import candidates, index_of
from clusterlab.binding.log_patterns import PATTERNS, LogPattern
from clusterlab.binding.log_reading import numbered_lines, without_escapes
from clusterlab.core.errors import UsageError
from clusterlab.core.findings import Finding, Severity

_LINES_AT_ONCE = 2048
_WINDOW = 4000  # characters of a line that a pattern runs on at once: `.*` costs its square
_MOST_EVIDENCE = 4
_SHOWN = 300

# How launchers mark a line with its rank: torchrun, mpirun --tag-output, srun --label, our own exec.
_TAGS = (
    re.compile(r"^\s*\[(?:rank|default) ?([0-9]{1,6})\]"),
    re.compile(r"^\s*\[[0-9]+,([0-9]{1,6})\]<std"),
    re.compile(r"^\s*([0-9]{1,6}): "),
    re.compile(r"^\s*\[?r(?:ank)?[ =]?([0-9]{1,6})[ \]|@:]"),
    re.compile(
        r"^.{0,120}?\[rank ?([0-9]{1,6})\]:"
    ),  # torch's, behind what the launcher puts first
)
_NAMED = re.compile(r"\brank[ =:]{1,3}([0-9]{1,6})\b", re.IGNORECASE)
# What loggers put before everything else: a date and time, or a time.
_CLOCK = re.compile(
    r"\s*\[?(?:[0-9]{4}-[0-9]{2}-[0-9]{2}[T ])?[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?"
    r"(?:Z|[+-][0-9]{2}:?[0-9]{2})?\]?:?\s+"
)
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f]")


@dataclass(slots=True)
class _Hits:
    """The lines of one pattern."""

    count: int = 0
    evidence: list[str] = field(default_factory=list)
    ranks: set[int] = field(default_factory=set)


def classify_log(path: Path, long_lines: list[int] | None = None) -> list[Finding]:
    """What the log at ``path`` (``-``: stdin) tells. Raises UsageError where it cannot be read.

    Numbers of lines too long to be searched to their end are added to ``long_lines``.
    """
    long_lines = [] if long_lines is None else long_lines
    try:
        return _classify(numbered_lines(path, long_lines), PATTERNS)
    except OSError as error:
        raise UsageError(error.strerror or "not readable", where=str(path)) from None


def classify_lines(
    lines: Iterable[str], patterns: Sequence[LogPattern] = PATTERNS
) -> list[Finding]:
    """Findings of the lines, causes first; each with the line's number and text and the ranks it names."""
    numbered = ((n, line.encode("utf-8", "replace")) for n, line in enumerate(lines, 1))
    return _classify(numbered, patterns)


@cache
def _index(texts: tuple[str, ...]) -> tuple[Mapping[bytes, list[int]], list[int]]:
    return index_of(texts)


def _classify(
    numbered: Iterable[tuple[int, bytes]], patterns: Sequence[LogPattern]
) -> list[Finding]:
    texts, always = _index(tuple(pattern.text for pattern in patterns))
    hits = {pattern.name: _Hits() for pattern in patterns}
    stream = iter(numbered)
    while some := list(islice(stream, _LINES_AT_ONCE)):
        lines = [without_escapes(line) for _, line in some]
        for at, possible in candidates(lines, texts, always).items():
            line = lines[at].decode("utf-8", "replace")
            for number in sorted(possible):  # patterns stand from the particular to the general
                place = _search(patterns[number].regex, line)
                if place is not None:
                    _note(hits[patterns[number].name], some[at][0], line, place)
                    break
    found = [
        _finding(pattern, hits[pattern.name])
        for pattern in patterns
        if hits[pattern.name].count >= pattern.least
    ]
    return fold(_by_code(found))


def _search(regex: re.Pattern[str], line: str) -> int | None:
    """Where ``line`` matches; a long line is searched in windows that overlap by half."""
    if len(line) <= _WINDOW:
        match = regex.search(line)
        return None if match is None else match.start()
    for start in range(0, len(line) - _WINDOW // 2, _WINDOW // 2):
        match = regex.search(line[start : start + _WINDOW])
        if match:
            return start + match.start()
    return None


def _note(hits: _Hits, number: int, line: str, place: int) -> None:
    hits.count += 1
    hits.ranks |= ranks_of(line)
    if len(hits.evidence) < _MOST_EVIDENCE:
        hits.evidence.append(f"line {number}: {_excerpt(line, place)}")


def _excerpt(line: str, place: int) -> str:
    """The line on one row, or the part of it around ``place``."""
    before = place > _SHOWN - 100
    text = _CONTROL.sub("", " ".join(line[place - 100 if before else 0 :][: 4 * _SHOWN].split()))
    text = f"…{text}" if before else text
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def ranks_of(line: str) -> set[int]:
    """The ranks a line is tagged with, or else names; empty where it says none."""
    clock = _CLOCK.match(line)
    marked = line[clock.end() :] if clock else line
    for tag in _TAGS:
        match = tag.match(marked)
        if match:
            return {int(match[1])} | {int(n) for n in _NAMED.findall(line) if "uplicate" in line}
    return {int(n) for n in _NAMED.findall(line)}


def _finding(pattern: LogPattern, hits: _Hits) -> Finding:
    from clusterlab.binding.diagnose.codes import CODES

    evidence = list(hits.evidence)
    if hits.count > len(evidence):
        evidence[0] = f"{hits.count} such lines, the first {evidence[0]}"
    severity = pattern.severity or CODES[pattern.code].severity
    return Finding(
        pattern.code, severity, tuple(evidence), pattern.fix, ranks=tuple(sorted(hits.ranks))
    )


def _by_code(findings: Iterable[Finding]) -> list[Finding]:
    """One finding per code; the first pattern's fix stays."""
    order = (Severity.INFO, Severity.WARNING, Severity.ERROR, Severity.FATAL)
    joined: dict[str, Finding] = {}
    for found in findings:
        before = joined.get(found.code)
        if before is None:
            joined[found.code] = found
            continue
        joined[found.code] = Finding(
            found.code,
            max(before.severity, found.severity, key=order.index),
            before.evidence + found.evidence,
            before.fix,
            ranks=tuple(sorted({*before.ranks, *found.ranks})),
        )
    return list(joined.values())
