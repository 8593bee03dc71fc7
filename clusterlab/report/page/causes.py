"""What ``why`` answers, on the page: each table's verdict, its causes and what settles them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clusterlab.report.page.verdict_marks import Mark, mark_of
from clusterlab.report.text import plain
from clusterlab.verdict.why.taxonomy import causes
from clusterlab.verdict.why.types import Hypothesis, TableAnswer

MOST_CAUSES = 3
MOST_TABLES = 24


@dataclass(frozen=True, slots=True)
class CauseView:
    """One cause: ``score`` in percent, ``width`` of its bar from 0 to 100."""

    code: str
    meaning: str
    score: str
    width: int
    evidence: str
    check: str


@dataclass(frozen=True, slots=True)
class AnswerView:
    """One table. ``asked`` introduces the causes."""

    title: str
    mark: Mark
    reason: str
    asked: str
    causes: tuple[CauseView, ...]
    remarks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WhyView:
    """``left_out`` says which tables are not shown."""

    answers: tuple[AnswerView, ...]
    notes: tuple[str, ...]
    left_out: str


def why_view(answers: Sequence[TableAnswer], notes: Sequence[str]) -> WhyView | None:
    """What the page shows of ``answers``, slow ones first; None where nothing was asked."""
    if not answers and not notes:
        return None
    ordered = sorted(answers, key=lambda a: (not a.detected, not a.hypotheses))
    left = len(ordered) - MOST_TABLES
    return WhyView(
        tuple(map(_answer, ordered[:MOST_TABLES])),
        tuple(map(plain, notes)),
        f"{left} further tables are not shown; `clusterlab why` has them." if left > 0 else "",
    )


def _answer(answer: TableAnswer) -> AnswerView:
    asked = ""
    if answer.hypotheses:
        asked = "Likeliest causes"
        if not answer.detected:
            asked = "If it should be faster all the same, the likeliest causes"
    return AnswerView(
        plain(answer.table_id) or "(unnamed)",
        mark_of(answer.verdict),
        plain(answer.reason),
        asked,
        tuple(map(_cause, answer.hypotheses[:MOST_CAUSES])),
        tuple(map(plain, answer.remarks)),
    )


def _cause(one: Hypothesis) -> CauseView:
    known = causes().get(one.code)
    return CauseView(
        plain(one.code),
        known.meaning if known else "",
        f"{one.score:.0%}",
        round(100 * min(1.0, max(0.0, one.score))),
        plain(one.evidence),
        plain(one.check),
    )
