"""An error log alone → findings: which binding problem its texts name, of which ranks, and the fix."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from clusterlab.binding.folding import fold
from clusterlab.binding.log_patterns import PATTERNS, LogPattern
from clusterlab.core.errors import UsageError
from clusterlab.core.findings import Finding, Severity

MAX_LOG_BYTES = 1 << 30
_MAX_LINE = 2000
_MOST_EVIDENCE = 4

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
_ANY = re.compile("|".join(f"(?:{p.text})" for p in PATTERNS), re.IGNORECASE)


@dataclass(slots=True)
class _Hits:
    """The lines of one pattern."""

    count: int = 0
    evidence: list[str] = field(default_factory=list)
    ranks: set[int] = field(default_factory=set)


def classify_log(path: Path) -> list[Finding]:
    """What the log at ``path`` tells. Raises UsageError where it cannot be read."""
    try:
        size = path.stat().st_size
        if size > MAX_LOG_BYTES:
            raise UsageError(
                f"{size} bytes", where=str(path), expected=f"at most {MAX_LOG_BYTES}", fix="tail it"
            )
        with path.open("rb") as stream:
            if b"\0" in stream.read(4096):
                raise UsageError("not a text file", where=str(path), expected="an error log")
        with path.open(encoding="utf-8", errors="replace") as text:
            return classify_lines(_bounded(text))
    except OSError as error:
        raise UsageError(error.strerror or "not readable", where=str(path)) from None


def _bounded(stream: Iterable[str]) -> Iterator[str]:
    for line in stream:
        yield line[:_MAX_LINE]


def classify_lines(
    lines: Iterable[str], patterns: Sequence[LogPattern] = PATTERNS
) -> list[Finding]:
    """Findings of the lines, causes first; each with the line's number and text and the ranks it names."""
    hits = {pattern.name: _Hits() for pattern in patterns}
    for number, line in enumerate(lines, 1):
        cut = line[:_MAX_LINE]
        if not _ANY.search(cut):
            continue
        for pattern in patterns:
            if pattern.regex.search(cut):
                _note(hits[pattern.name], number, cut)
                break  # patterns stand from the particular to the general
    found = [
        _finding(pattern, hits[pattern.name])
        for pattern in patterns
        if hits[pattern.name].count >= pattern.least
    ]
    return fold(_by_code(found))


def _note(hits: _Hits, number: int, line: str) -> None:
    hits.count += 1
    hits.ranks |= ranks_of(line)
    if len(hits.evidence) < _MOST_EVIDENCE:
        text = " ".join(line.split())
        hits.evidence.append(f"line {number}: {text if len(text) <= 300 else text[:299] + '…'}")


def ranks_of(line: str) -> set[int]:
    """The ranks a line is tagged with, or else names; empty where it says none."""
    for tag in _TAGS:
        match = tag.match(line)
        if match:
            return {int(match[1])} | {int(n) for n in _NAMED.findall(line) if "uplicate" in line}
    return {int(n) for n in _NAMED.findall(line)}


def _finding(pattern: LogPattern, hits: _Hits) -> Finding:
    from clusterlab.binding.diagnose.codes import CODES

    evidence = list(hits.evidence)
    if hits.count > len(evidence):
        evidence.append(f"and {hits.count - len(evidence)} more such lines")
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
