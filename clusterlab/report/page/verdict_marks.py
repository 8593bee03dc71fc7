"""Verdicts as people see them: a word and a shape, never colour alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from clusterlab.core.findings import Verdict

VERDICT_WORDS = {
    Verdict.PASS: "pass",
    Verdict.SLOW: "slow",
    Verdict.FAST_UNEXPECTED: "faster than expected",
    Verdict.NO_VERDICT: "no verdict",
    Verdict.INVALID: "invalid",
}

VERDICT_GLYPHS = {
    Verdict.PASS: "●",
    Verdict.SLOW: "▼",
    Verdict.FAST_UNEXPECTED: "▲",
    Verdict.NO_VERDICT: "○",
    Verdict.INVALID: "✕",
}


@dataclass(frozen=True, slots=True)
class Mark:
    """A verdict to show: its CSS class, its shape, its word and the reason behind it."""

    kind: str
    glyph: str
    word: str
    reason: str = ""


def mark_of(verdict: Verdict, reason: str = "") -> Mark:
    """The mark of ``verdict``."""
    return Mark(verdict.value, VERDICT_GLYPHS[verdict], VERDICT_WORDS[verdict], reason)


def counted(verdicts: Mapping[Verdict, int]) -> tuple[tuple[Mark, int], ...]:
    """A mark and a count of each that is there, but for passes."""
    return tuple((mark_of(v), n) for v, n in verdicts.items() if n and v != Verdict.PASS)


def tally(verdicts: Iterable[Verdict]) -> dict[Verdict, int]:
    """How often each occurs."""
    found = Counter(verdicts)
    return {verdict: found[verdict] for verdict in Verdict}
