"""summary.md: a run in a ticket. The verdict, the worst thing, what next; figures; where; how again."""

from __future__ import annotations

import math
import shlex

from clusterlab.core.findings import Verdict, most_severe_first
from clusterlab.core.rows import Row
from clusterlab.core.sizes import human_size
from clusterlab.report.data import ReportData
from clusterlab.report.files.markdown import block, fenced, table, words
from clusterlab.report.numbers import NOT_KNOWN, percent, ratio, three_digits
from clusterlab.report.page.beside import NOTHING_BESIDE, Beside
from clusterlab.report.page.verdict_marks import VERDICT_GLYPHS, VERDICT_WORDS
from clusterlab.report.text import cut
from clusterlab.report.where import facts
from clusterlab.verdict.run_verdict import RunVerdict

_MOST_COLLECTIVES = 12
_MOST_FINDINGS = 5
_MOST_NOTES = 5
_MOST_LETTERS = 600
"""Of one sentence."""

_MOST_OF_FACT = 240
_MOST_OF_COMMAND = 4000


def summary(data: ReportData, beside: Beside = NOTHING_BESIDE) -> str:
    """The text of summary.md."""
    info = data.run.info
    head = beside.headline
    verdict = head.verdict if head else data.judged.verdict
    sentence = head.sentence if head else f"{data.judged.reason}."
    said = f"{VERDICT_GLYPHS[verdict]} {VERDICT_WORDS[verdict]}"
    if head and head.finding and verdict in (Verdict.PASS, Verdict.NO_VERDICT):
        said = words(cut(head.finding))
    lines = [
        f"### {said}: {words(cut(info.name)) or '(no name)'}",
        "",
        f"**{_short(sentence)}**",
    ]
    if head and head.command:
        lines += ["", "Next:", "", *fenced(cut(head.command, _MOST_OF_COMMAND))]
    if head and head.advice:
        lines += ["", f"{'Look at' if head.command else 'Next'}: {_short(head.advice)}"]
    lines += ["", _counts(data)]
    if head and head.by_why:
        lines[-1] += " Slow beside what such machines ordinarily give (clusterlab why)."
    if data.run_verdict.summaries:
        lines += ["", *_collectives(data)]
    lines += _findings(data)
    notes = [*data.notes, *beside.notes][:_MOST_NOTES]
    lines += ["", *(f"- {_short(note)}" for note in notes)] if notes else []
    context = info.attempts[-1].context if info.attempts else info.created_by
    where = [(name, value) for name, value in facts(data, context) if value not in ("", NOT_KNOWN)]
    versions = ", ".join(f"{name} {value}" for name, value in context.versions.items() if value)
    where += [("Versions", versions)] if versions else []
    lines += [
        "",
        *table(("Where", "On what"), [(name, cut(value, _MOST_OF_FACT)) for name, value in where]),
    ]
    first = info.attempts[0].context if info.attempts else info.created_by
    lines += [
        "",
        "Again:",
        "",
        *fenced(cut(shlex.join(first.command), _MOST_OF_COMMAND) or NOT_KNOWN),
    ]
    lines += [
        "",
        f"Run {words(cut(info.run_id))}; its report.html has the curves, the causes and all data.",
    ]
    return "\n".join(lines) + "\n"


def _short(text: str) -> str:
    return block(cut(text, _MOST_LETTERS))


def _counts(data: ReportData) -> str:
    if data.steps:
        return f"{len(data.steps)} steps."
    if data.planned_overlaps or data.soaked:
        return words(f"{data.measured} measured.")
    counts = data.run_verdict.counts
    said = ", ".join(f"{counts[v]} {VERDICT_WORDS[v]}" for v in Verdict)
    return words(f"{data.measured}: {said}; {_data(data.run_verdict)}.")


def _data(judged: RunVerdict) -> str:
    """What was found in the data, as far as anybody looked."""
    if judged.nothing_checked:
        return "data not checked"
    of_some = f", data of {judged.unchecked} points not checked" if judged.unchecked else ""
    return f"{judged.wrong} wrong elements{of_some}"


def _collectives(data: ReportData) -> list[str]:
    best: dict[str, Row] = {}
    for row in data.judged_rows:
        if row.ranks is None and row.beside is None and math.isfinite(row.busbw_GBps):
            known = best.get(row.collective)
            if known is None or row.busbw_GBps > known.busbw_GBps:
                best[row.collective] = row
    rows = []
    for s in data.run_verdict.summaries[:_MOST_COLLECTIVES]:
        top = best.get(s.collective)
        worst = NOT_KNOWN
        if s.worst is not None:
            size = human_size(s.worst.row.size_bytes)
            worst = f"{percent(s.worst.error, signed=True)} at {size}"
        rows.append(
            (
                cut(s.collective),
                f"{VERDICT_GLYPHS[s.judged.verdict]} {VERDICT_WORDS[s.judged.verdict]}",
                str(s.points),
                three_digits(top.busbw_GBps if top else None),
                three_digits(top.predicted_busbw_GBps if top else None),
                three_digits(top.bound_busbw_GBps if top else None),
                ratio(top.ratio if top else None),
                worst,
            )
        )
    heads = ("Collective", "Verdict", "Points", "Best busbw GB/s", "Predicted", "Bound")
    left = len(data.run_verdict.summaries) - len(rows)
    lines = table((*heads, "Ratio", "Prediction furthest off"), rows)
    return [*lines, "", f"{left} further collectives."] if left > 0 else lines


def _findings(data: ReportData) -> list[str]:
    found = most_severe_first(data.findings)
    if not found:
        return []
    lines = ["", "Findings:", ""]
    for one in found[:_MOST_FINDINGS]:
        evidence = f": {one.evidence[0]}" if one.evidence else ""
        lines.append(f"- **{one.severity.value} {words(cut(one.code))}**{_short(evidence)}")
        lines.append(f"  Fix: {_short(one.fix)}")
    left = len(found) - _MOST_FINDINGS
    return [*lines, f"- and {left} more"] if left > 0 else lines
