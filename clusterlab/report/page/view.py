"""What the page says, as plain values ready to print; the template only places them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from clusterlab.core.findings import Finding, Verdict, most_severe_first
from clusterlab.core.jsontext import json_text
from clusterlab.records.run_info import Attempt
from clusterlab.report.console.overhead import HEADS as OVERHEAD_HEADS
from clusterlab.report.console.overhead import OverheadTable, overhead_tables
from clusterlab.report.console.overlap import overlap_cells
from clusterlab.report.curves import curves
from clusterlab.report.data import ReportData
from clusterlab.report.error_matrix import ErrorMatrix, error_matrix
from clusterlab.report.numbers import NOT_KNOWN
from clusterlab.report.page.beside import NOTHING_BESIDE, Beside, Drawing
from clusterlab.report.page.causes import WhyView, why_view
from clusterlab.report.page.curves import (
    CHART_LIMIT,
    COLLECTIVE_HEADS,
    FURTHER_HEADS,
    CollectiveView,
    collective_views,
)
from clusterlab.report.page.groups import GroupsView, groups_view
from clusterlab.report.page.pairs import PairsView, pairs_view
from clusterlab.report.page.soak import PASS_HEADS, SoakView, soak_views
from clusterlab.report.page.training import TrainingView, training_view
from clusterlab.report.page.use import USE_HEADS, use_rows
from clusterlab.report.page.verdict_marks import VERDICT_WORDS, Mark, mark_of
from clusterlab.report.text import cut, plain
from clusterlab.report.where import facts, host_cells, rank_cells

__all__ = ["CHART_LIMIT", "PageView", "page_view"]

MOST_NOTES = 20


@dataclass(frozen=True, slots=True)
class First:
    """What stands first: the verdict, the worst thing with its reason, and what to type or do next."""

    mark: Mark
    sentence: str
    command: str
    advice: str
    by: str


@dataclass(frozen=True, slots=True)
class UseView:
    """Bottlenecks: lines under ``heads``; ``left`` more are not shown."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: int


@dataclass(frozen=True, slots=True)
class PageView:
    """The whole page."""

    title: str
    run_id: str
    first: First
    reason: str
    counts: tuple[tuple[str, str, Mark | None], ...]
    notes: tuple[str, ...]
    findings: tuple[Finding, ...]
    why: WhyView | None
    facts: tuple[tuple[str, str], ...]
    versions: tuple[tuple[str, str], ...]
    hosts: tuple[tuple[str, ...], ...]
    ranks: tuple[tuple[str, ...], ...]
    ranks_left: int
    drawing: Drawing | None
    collectives: tuple[CollectiveView, ...]
    collective_heads: tuple[str, ...]
    further_heads: tuple[str, ...]
    use: UseView
    matrix: ErrorMatrix | None
    overheads: tuple[OverheadTable, ...]
    overhead_heads: tuple[str, ...]
    pairs: PairsView | None
    groups: GroupsView | None
    overlaps: tuple[tuple[str, ...], ...]
    soak: tuple[SoakView, ...]
    pass_heads: tuple[str, ...]
    training: TrainingView | None
    passages: tuple[tuple[str, tuple[str, ...]], ...]
    command: str
    environment: str
    configuration: str
    attempts: tuple[tuple[str, ...], ...]
    path: str


def page_view(data: ReportData, beside: Beside = NOTHING_BESIDE) -> PageView:
    """All values of the page for ``data`` and what is known ``beside`` it."""
    info = data.run.info
    context = info.attempts[-1].context if info.attempts else info.created_by
    # A batch script makes the directory with a command of its own; the first attempt's is the sweep.
    first = info.attempts[0].context if info.attempts else info.created_by
    found = curves(data.judged_rows, data.said)
    lines, left = use_rows(found)
    ranks = rank_cells(data.placement)
    notes = tuple(plain(note) for note in (*data.notes, *data.sources))
    if len(notes) > MOST_NOTES:
        notes = (*notes[:MOST_NOTES], f"and {len(notes) - MOST_NOTES} notes more.")
    return PageView(
        title=plain(cut(info.name)) or "(no name)",
        run_id=plain(info.run_id),
        first=_first(data, beside),
        reason=_reason(data, beside),
        counts=_counts(data),
        notes=notes,
        findings=tuple(_finding(f) for f in most_severe_first(data.findings)),
        why=why_view(beside.answers, beside.notes),
        facts=facts(data, context),
        versions=tuple((plain(k), plain(v)) for k, v in context.versions.items() if v),
        hosts=host_cells(data.placement, data.findings),
        ranks=ranks[:MOST_RANKS],
        ranks_left=max(0, len(ranks) - MOST_RANKS),
        drawing=beside.drawing,
        collectives=collective_views(data, found),
        collective_heads=COLLECTIVE_HEADS,
        further_heads=FURTHER_HEADS,
        use=UseView(USE_HEADS, lines, left),
        matrix=error_matrix(data.judged_rows),
        overheads=overhead_tables(data.overheads),
        overhead_heads=OVERHEAD_HEADS,
        pairs=pairs_view(data.pairs, data.placement),
        groups=groups_view(data.groups, data.placement),
        overlaps=tuple(overlap_cells(overlap) for overlap in data.overlaps),
        pass_heads=PASS_HEADS,
        soak=soak_views(data.soaked, data.passes),
        training=training_view(data.steps, data.kinds, data.loads, data.kinds_of, beside.ledgers),
        passages=tuple(
            (plain(title), tuple(map(plain, lines))) for title, lines in beside.passages
        ),
        command=_shell(first.command),
        environment=_environment(context.environment),
        configuration=json_text(info.configuration, indent=2),
        attempts=tuple(_attempt(a) for a in info.attempts),
        path=plain(str(data.run.path)),
    )


MOST_RANKS = 1024
"""Ranks with a line of their own; placement.json has all."""


def _first(data: ReportData, beside: Beside) -> First:
    found = beside.headline
    if found is None:
        return First(_run_mark(data), plain(data.judged.reason) + ".", "", "", "")
    mark = mark_of(found.verdict) if found.by_why else _run_mark(data)
    if found.finding and found.verdict in (Verdict.PASS, Verdict.NO_VERDICT):
        # The points say nothing bad, and what was found besides does.
        kind = "invalid" if found.finding.startswith(("error", "fatal")) else "slow"
        mark = Mark(kind, "!", plain(found.finding))
    by = ""
    if found.by_why:
        by = (
            "Slow beside what such machines ordinarily give (clusterlab why); by the intervals of the "
            f"run's own predictions: {VERDICT_WORDS[data.judged.verdict]}."
        )
    return First(mark, plain(found.sentence), plain(found.command), plain(found.advice), by)


def _reason(data: ReportData, beside: Beside) -> str:
    """The verdict's own, where the first sentence does not hold it."""
    reason = data.judged.reason
    if beside.passages or (beside.headline and reason in beside.headline.sentence):
        return ""
    return plain(reason)


def _run_mark(data: ReportData) -> Mark:
    mark = mark_of(data.judged.verdict, plain(data.judged.reason))
    return replace(mark, word=data.verdict_word) if data.soaked else mark


def _finding(finding: Finding) -> Finding:
    """``finding`` with its texts made safe to show."""
    return replace(
        finding,
        code=plain(finding.code),
        evidence=tuple(plain(line) for line in finding.evidence),
        fix=plain(finding.fix),
        links=tuple(plain(link) for link in finding.links),
        caused_by=finding.caused_by and plain(finding.caused_by),
    )


def _counts(data: ReportData) -> tuple[tuple[str, str, Mark | None], ...]:
    """What is counted, how many there are, and the mark of a verdict."""
    judged, planned = data.run_verdict, data.run.info.planned_points
    of_planned = f"{judged.points} of {planned}" if planned else str(judged.points)
    what, many = "points", of_planned
    if data.steps:
        return (("steps", str(len(data.steps)), None),)
    if data.soaked:
        many = str(len(data.soaked))
        return (("points", many, None), ("passes", str(len(data.passes)), None))
    if data.planned_overlaps:
        many, _, what = data.measured.rpartition(" ")
    verdicts = [(VERDICT_WORDS[v], str(judged.counts[v]), mark_of(v)) for v in Verdict]
    unchecked = [("points whose data was not checked", str(judged.unchecked), None)]
    return (
        (what, many, None),
        *verdicts,
        # Of data that nobody looked at, none is known to be right.
        *([] if judged.nothing_checked else [("wrong elements", str(judged.wrong), None)]),
        *(unchecked if judged.unchecked else []),
    )


def _shell(command: Sequence[str]) -> str:
    return plain(shlex.join(command)) or NOT_KNOWN


def _environment(environment: Mapping[str, str]) -> str:
    return "\n".join(plain(f"{name}={shlex.quote(v)}") for name, v in environment.items())


def _attempt(attempt: Attempt) -> tuple[str, ...]:
    return (
        str(attempt.number),
        plain(attempt.started_utc),
        plain(attempt.ended_utc or "not ended"),
        NOT_KNOWN if attempt.exit_code is None else str(attempt.exit_code),
        plain(attempt.context.host) or NOT_KNOWN,
        _shell(attempt.context.command),
    )
