"""The worst thing of a run, its likeliest reason and what to type next: what a reader wants first. Pure.

Wrong data outranks everything, then what ended the run or broke it, then what is slow, then what could not be
judged. Reasons come from ``why`` where that says something, else from findings and verdicts.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from clusterlab.core.findings import Finding, Severity, Verdict, most_severe_first
from clusterlab.core.overlap import Overlap
from clusterlab.core.rows import Row
from clusterlab.core.sizes import human_size
from clusterlab.core.stepping import StepLine
from clusterlab.verdict.headline_others import of_overlaps, of_soak, of_training
from clusterlab.verdict.headline_type import Headline
from clusterlab.verdict.judge import Judged, Why
from clusterlab.verdict.run_verdict import CollectiveSummary, RunVerdict
from clusterlab.verdict.soak import Soaked
from clusterlab.verdict.why.taxonomy import UNKNOWN, causes
from clusterlab.verdict.why.types import Hypothesis, TableAnswer


@dataclass(frozen=True, slots=True)
class About:
    """What the headline speaks of. ``name`` is what the run is called by on a command line, ``command`` what
    was typed to measure it, ``environment`` the variables that it saw. ``noisy``: what makes the machine
    noisy, where it was.
    """

    name: str
    command: tuple[str, ...]
    backend: str
    world_size: int
    noisy: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


def headline(
    judged: Judged,
    run: RunVerdict,
    about: About,
    *,
    rows: Sequence[Row] = (),
    findings: Sequence[Finding] = (),
    answers: Sequence[TableAnswer] = (),
    steps: Sequence[StepLine] = (),
    overlaps: Sequence[Overlap] = (),
    points: Sequence[Soaked] = (),
) -> Headline:
    """The headline of a run that was ``judged``. ``points``: a soak's."""
    if judged.verdict == Verdict.INVALID or any(row.wrong for row in rows):
        return _wrong(judged, [row for row in rows if row.wrong], about)
    worst = _worst(judged, run, about, findings, answers)
    if worst is not None:
        return worst
    if steps:
        return of_training(judged.verdict, steps, about.name)
    if overlaps:
        return of_overlaps(judged, overlaps, about.command)
    if points:
        return of_soak(judged, points, about.command)
    return _of_rows(judged, run, about, answers)


def _of_rows(
    judged: Judged, run: RunVerdict, about: About, answers: Sequence[TableAnswer]
) -> Headline:
    if judged.verdict == Verdict.FAST_UNEXPECTED:
        return _fast(judged, run, about)
    if judged.verdict == Verdict.NO_VERDICT:
        return _unjudged(judged, about, answers)
    return _fine(judged, run, about)


def _worst(
    judged: Judged,
    run: RunVerdict,
    about: About,
    findings: Sequence[Finding],
    answers: Sequence[TableAnswer],
) -> Headline | None:
    """What is broken, then what is slow, then what was warned of; None where nothing is."""
    grave = [
        f for f in most_severe_first(findings) if f.severity in (Severity.FATAL, Severity.ERROR)
    ]
    if grave:
        return _of_finding(judged.verdict, grave[0], about)
    slow = [answer for answer in answers if answer.verdict == Verdict.SLOW]
    unsaid = judged.verdict in (Verdict.NO_VERDICT, Verdict.PASS)
    if slow and (judged.verdict == Verdict.SLOW or unsaid):
        return _slow_by_why(judged, slow, about)
    warned = [f for f in findings if f.severity == Severity.WARNING]
    if judged.verdict == Verdict.SLOW and not warned and run.judged.verdict == Verdict.SLOW:
        return _slow(judged, run, about)
    return _of_warnings(judged.verdict, warned, about) if warned else None


def _wrong(judged: Judged, wrong: Sequence[Row], about: About) -> Headline:
    if not wrong:
        return Headline(
            judged.verdict, _short(judged.reason), command=_again(about, "--keep-going")
        )
    first = wrong[0]
    names = ", ".join(dict.fromkeys(row.collective for row in wrong))
    points = "1 point" if len(wrong) == 1 else f"{len(wrong)} points"
    worst = (
        f"{names} delivered wrong data at {points}, first at {human_size(first.size_bytes)} on rank "
        f"{first.wrong_rank} (element {first.wrong_index})"
    )
    reason = "a GPU, NIC or link of that rank spoils data, or the library does"
    extra = "--pattern halves --keep-going" if about.world_size > 3 else "--keep-going"
    return Headline(Verdict.INVALID, worst, reason, _again(about, extra))


def _of_warnings(verdict: Verdict, warned: Sequence[Finding], about: About) -> Headline:
    """A group of ranks that is slow says more to a reader than the links that may make it so."""
    group = next((f for f in warned if f.code == "SLOW_GROUP"), None)
    link = next((f for f in warned if f.code == "SLOW_LINK" and f.evidence), None)
    if group is None:
        found = _of_finding(verdict, warned[0], about)
        if link is warned[0] and len(link.evidence) > 1 and not found.reason:
            return replace(found, reason=link.evidence[1])
        return found
    found = _of_finding(verdict, group, about)
    if link is None or found.reason:
        return found
    reason = f"slow link: {link.evidence[0].partition(': ')[0]}"
    return replace(
        found, reason=f"{reason}, or what shares its path" if link.evidence[1:] else reason
    )


def _of_finding(verdict: Verdict, finding: Finding, about: About) -> Headline:
    what = finding.code.replace("_", " ").capitalize()
    worst = f"{what}: {finding.evidence[0]}" if finding.evidence else what
    said = f"{finding.severity.value}: {what.lower()}"
    cause = (finding.caused_by or "").replace("_", " ").lower()
    command = ""
    if finding.code in _ALONE and "bench" in about.command and "--one-by-one" not in about.command:
        command = _again(about, "--one-by-one")
    return Headline(verdict, worst.rstrip("."), cause, command, finding.fix, finding=said)


_ALONE = ("SLOW_GROUP", "SLOW_LINK")
"""Findings of messages at the same time, which are measured one by one next."""


def _slow_by_why(judged: Judged, slow: Sequence[TableAnswer], about: About) -> Headline:
    answer = max(slow, key=_excess)
    band, (times, _) = max(
        answer.slowdown.items(), key=lambda item: item[1][0] / item[1][1], default=("", (0.0, 1.0))
    )
    worst = f"{answer.table_id} is slow"
    if band:
        where = _SIZES.get(band, band)
        worst = f"{answer.table_id} takes {times:.3g} times what such machines give at {where}"
    others = [other.table_id for other in slow if other is not answer]
    if others:
        more = f" and {len(others) - _MOST_NAMED} more" if len(others) > _MOST_NAMED else ""
        worst += f" (slow too: {', '.join(others[:_MOST_NAMED])}{more})"
    by_why = judged.verdict != Verdict.SLOW
    if not answer.hypotheses:
        return Headline(Verdict.SLOW, worst, command=_why(about), by_why=by_why)
    top = answer.hypotheses[0]
    named = set_by_run(top, about.environment)
    reason, command = reason_of(top), _why(about)
    if named:
        said = " ".join(f"{name}={about.environment[name]}" for name in named)
        reason += f" (the run set {said})"
        without = " ".join(f"-u {name}" for name in named)
        command = f"env {without} {shlex.join(about.command) or 'clusterlab bench'}"
    return Headline(Verdict.SLOW, worst, reason, command, top.check, by_why=by_why)


def set_by_run(one: Hypothesis, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The library's variables that ``one`` is about, of those that the run saw."""
    about = re.findall(r"(?:NCCL|RCCL)_[A-Z0-9_]+", one.variant) or re.findall(
        r"(?:NCCL|RCCL)_[A-Z0-9_]+", one.evidence
    )
    return tuple(name for name in dict.fromkeys(about) if name in environment)


def _why(about: About) -> str:
    return f"clusterlab why {about.name}"


_MOST_NAMED = 3
_SIZES = {"plateau": "the largest sizes"}
"""Bands whose name says little (``detect`` names them)."""


def _excess(answer: TableAnswer) -> float:
    return max((times / most for times, most in answer.slowdown.values()), default=0.0)


def reason_of(one: Hypothesis) -> str:
    """``P2P_DISABLED (100 %): GPU-to-GPU peer access off or impossible: …``."""
    cause = causes().get(one.code)
    if one.code == UNKNOWN or cause is None:
        return f"no cause that is known ({one.score:.0%} {one.code})"
    return f"{one.code} ({one.score:.0%}): {cause.meaning}"


def _slow(judged: Judged, run: RunVerdict, about: About) -> Headline:
    found = _furthest(run, Verdict.SLOW)
    worst, reason = _short(judged.reason), ""
    if found is not None and found.worst is not None:
        row = found.worst.row
        times = row.time_us_loop / row.predicted_time_us if row.predicted_time_us else math.nan
        worst = (
            f"{found.collective} takes {times:.3g} times its prediction at "
            f"{human_size(row.size_bytes)} ({found.judged.reason})"
        )
        reason = f"less than predicted of {row.bottleneck}" if row.bottleneck else ""
    if about.noisy:
        reason = f"the machine was noisy ({about.noisy})"
        return Headline(judged.verdict, worst, reason, _again(about, "-n auto"))
    return Headline(judged.verdict, worst, reason, _why_or_doctor(about))


def _why_or_doctor(about: About) -> str:
    return "clusterlab doctor" if about.backend == "gloo" else _why(about)


def _furthest(run: RunVerdict, verdict: Verdict) -> CollectiveSummary | None:
    some = [s for s in (*run.summaries, *run.partial) if s.judged.verdict == verdict and s.worst]
    return max(some, key=lambda s: abs(s.worst.error) if s.worst else 0.0, default=None)


def _fast(judged: Judged, run: RunVerdict, about: About) -> Headline:
    found = _furthest(run, Verdict.FAST_UNEXPECTED)
    worst = f"{found.collective} is faster than expected: {found.judged.reason}" if found else ""
    reason = "the constants that the predictions used are older than this machine, or of another"
    return Headline(judged.verdict, worst or judged.reason, reason, _calibrate(about))


def _calibrate(about: About) -> str:
    if about.backend == "gloo":
        return "clusterlab self-calibrate"
    return f"clusterlab calibrate {about.name} -o cal.yaml"


def _unjudged(judged: Judged, about: About, answers: Sequence[TableAnswer]) -> Headline:
    worst = f"Nothing can be said yet: {_short(judged.reason)}"
    seen = [a for a in answers if a.verdict == Verdict.PASS]
    if seen and len(seen) == len(answers) and judged.why in (Why.NO_INTERVAL, Why.NO_PREDICTION):
        worst = (
            "Nothing is slower than such machines ordinarily are, but its predictions state no interval "
            "to judge points by"
        )
        return Headline(judged.verdict, worst, "no calibration of this system", _calibrate(about))
    reason, command, advice = "", "", ""
    if judged.why in (Why.NO_INTERVAL, Why.DOUBTED):
        reason, command = "no calibration that holds for these points", _calibrate(about)
    elif judged.why == Why.NO_PREDICTION:
        reason, command = "the run knew no fabric to predict on", _again(about, "--fabric NAME")
    elif judged.why in (Why.FEW_ITERATIONS, Why.NOISE, Why.TOO_FEW_POINTS):
        reason = about.noisy or "too few iterations, or something else ran on the machine"
        command = _again(about, "-n auto")
    elif judged.why == Why.MISSING:
        reason, command = (
            "the run was interrupted, or still runs",
            f"clusterlab resume {about.name}",
        )
    elif judged.why in (Why.NOTHING, Why.DAMAGED):
        command = shlex.join(about.command)
    return Headline(judged.verdict, worst, reason, command, advice)


def _fine(judged: Judged, run: RunVerdict, about: About) -> Headline:
    far = max(
        (s for s in (*run.summaries, *run.partial) if s.worst),
        key=lambda s: abs(s.worst.error) if s.worst else 0.0,
        default=None,
    )
    worst = f"Nothing is slow or wrong: {judged.reason.split('; ')[0]}"
    if far is not None and far.worst is not None:
        worst += (
            f"; furthest from its prediction is {far.collective} at "
            f"{human_size(far.worst.row.size_bytes)} ({far.worst.error:+.1%})"
        )
    return Headline(
        judged.verdict, worst, "", f"clusterlab baseline save {about.name} -o base.yaml"
    )


def _short(reason: str) -> str:
    """The first of several reasons, and how many there are more."""
    first, *others = reason.split("; ")
    return f"{first} (and {len(others)} more)" if others else first


def _again(about: About, extra: str) -> str:
    """What was typed, with ``extra``."""
    return f"{shlex.join(about.command) or 'clusterlab bench'} {extra}"
