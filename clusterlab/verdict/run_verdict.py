"""Predictions beside measurements: how far apart, point by point, by collective and for a run.

Verdicts come from the intervals of the predictions (``judge``). Wrong data outranks speed, slow
outranks fast, and what could not be judged is never a pass.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from clusterlab.core.findings import Verdict
from clusterlab.core.rows import Row
from clusterlab.verdict.judge import (
    NO_PREDICTION,
    Judged,
    Why,
    judge_rows,
    miss_share,
    too_many_outside,
)
from clusterlab.verdict.steady import NOISY_SHARE

SIGNIFICANCE = 0.01
"""Chance, for a whole run whose predictions are right, of calling it slow or fast all the same."""


@dataclass(frozen=True, slots=True)
class Worst:
    """The point whose prediction is furthest from its measurement, and by how much (signed, relative)."""

    row: Row
    error: float


@dataclass(frozen=True, slots=True)
class CollectiveSummary:
    """All points of one collective.

    Errors are relative times, (predicted - measured) / measured: positive, the model is pessimistic.
    ``median_error`` and ``p90_error`` are of absolute errors, ``bias`` is the median of signed ones;
    None without a prediction. ``counts`` says how many points got which verdict. ``wrong`` counts wrong
    elements, ``unchecked`` points whose data was not checked. ``of_some_ranks``: its points are those
    that only some ranks took part in, pairs for one.
    """

    collective: str
    points: int
    predicted: int
    median_error: float | None
    p90_error: float | None
    bias: float | None
    wrong: int
    unchecked: int
    worst: Worst | None
    counts: dict[Verdict, int]
    judged: Judged
    of_some_ranks: bool = False


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """A whole run: its collectives in order of first measurement, and what can be said of all of them.

    ``partial`` are the summaries of points that only some ranks took part in: kept apart, since a pair's
    figures say nothing of a collective of all ranks. ``judged_by``: where the intervals are from that points
    were judged by, each once.
    """

    summaries: tuple[CollectiveSummary, ...]
    partial: tuple[CollectiveSummary, ...]
    judged: Judged
    counts: dict[Verdict, int]
    points: int
    wrong: int
    unchecked: int
    judged_by: tuple[str, ...] = ()

    @property
    def nothing_checked(self) -> bool:
        """Whether there are points, and the data of none was looked at."""
        return 0 < self.points <= self.unchecked and not self.wrong


def signed_error(row: Row) -> float | None:
    """(predicted - measured) / measured time of ``row``; None without both times."""
    if row.predicted_time_us is None or not 0 < row.time_us_loop < math.inf:
        return None
    error = (row.predicted_time_us - row.time_us_loop) / row.time_us_loop
    return error if math.isfinite(error) else None


def judge_run(
    rows: Iterable[Row],
    *,
    planned_points: int | None = None,
    by_data_only: bool = False,
    problems: Sequence[str] = (),
    said: Mapping[int, Judged] | None = None,
) -> RunVerdict:
    """Summaries and verdicts of ``rows``, one row per point.

    With ``planned_points``, a run that holds fewer points and shows nothing wrong is no pass. Points with
    something beside them are predicted by nothing, so only their data is judged; ``by_data_only``: nor are
    the others of such a run. ``problems``: what is wrong with the rows, so that only their data is judged.
    ``said``: what each row was judged to be, where somebody has asked already.
    """
    everything_measured = list(rows)
    contended = [r for r in everything_measured if by_data_only or r.beside is not None]
    rows = [r for r in everything_measured if not by_data_only and r.beside is None]
    said = judge_rows(rows) if said is None else said
    groups: dict[tuple[bool, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.ranks is not None, row.collective), []).append(row)
    significance = SIGNIFICANCE / max(1, len(groups))  # Bonferroni: one test per collective
    everything = tuple(
        _summary(name, group, said, significance, of_some_ranks=some)
        for (some, name), group in groups.items()
    )
    missing = max(0, (planned_points or 0) - len(everything_measured))
    return RunVerdict(
        summaries=tuple(s for s in everything if not s.of_some_ranks),
        partial=tuple(s for s in everything if s.of_some_ranks),
        judged=_wrong_beside(contended) or _judge_groups(rows, said, everything, missing, problems),
        counts=_add_counts(s.counts for s in everything),
        points=len(everything_measured),
        wrong=sum(s.wrong for s in everything) + sum(row.wrong or 0 for row in contended),
        unchecked=sum(s.unchecked for s in everything),
        judged_by=_judged_by(rows, said),
    )


_Known = Mapping[int, Judged]
"""What can be said of each row, by the row's identity."""


def _judged_by(rows: Sequence[Row], said: _Known) -> tuple[str, ...]:
    """``90 % intervals: self-calibration of this host``, each kind once."""
    # The first row of each kind: there are few kinds, and rows by the hundred thousand.
    kinds: dict[tuple[float | None, str | None], Row] = {}
    for row in rows:
        if _has_interval(said[id(row)]):
            kinds.setdefault((row.predicted_coverage, row.provenance), row)
    words = (
        f"{1 - miss_share(row):.0%} intervals: {row.provenance or 'source not known'}"
        for row in kinds.values()
    )
    return tuple(dict.fromkeys(words))


def _wrong_beside(contended: Sequence[Row]) -> Judged | None:
    wrong = [row for row in contended if row.wrong]
    if not wrong:
        return None
    names = ", ".join(dict.fromkeys(f"{row.collective} beside {row.beside}" for row in wrong))
    return Judged(
        Verdict.INVALID, f"{names}: {_of(len(wrong), len(contended))} delivered wrong elements"
    )


def _summary(
    name: str, rows: Sequence[Row], said: _Known, significance: float, *, of_some_ranks: bool
) -> CollectiveSummary:
    judged = [said[id(row)] for row in rows]
    counted = Counter(map(_verdict, judged))
    counts = {verdict: counted[verdict] for verdict in Verdict}
    errors = [(e, row) for row in rows if (e := signed_error(row)) is not None]
    sizes = [abs(e) for e, _ in errors]
    worst = errors[max(range(len(sizes)), key=sizes.__getitem__)] if errors else None
    return CollectiveSummary(
        collective=name,
        points=len(rows),
        predicted=len(errors),
        median_error=statistics.median(sizes) if sizes else None,
        p90_error=quantile(sizes, 0.9) if sizes else None,
        bias=statistics.median(e for e, _ in errors) if errors else None,
        wrong=sum(row.wrong or 0 for row in rows),
        unchecked=sum(row.wrong is None for row in rows),
        worst=Worst(worst[1], worst[0]) if worst else None,
        counts=counts,
        judged=_judge_group(rows, judged, counts, significance),
        of_some_ranks=of_some_ranks,
    )


_verdict = attrgetter("verdict")


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest of ``values`` that at least ``share`` of them do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _judge_group(
    rows: Sequence[Row],
    judged: Sequence[Judged],
    counts: dict[Verdict, int],
    significance: float,
) -> Judged:
    if counts[Verdict.INVALID]:
        return Judged(
            Verdict.INVALID, f"{_of(counts[Verdict.INVALID], len(rows))} delivered wrong elements"
        )
    with_interval = [row for row, j in zip(rows, judged, strict=True) if _has_interval(j)]
    misses = [miss_share(row) for row in with_interval]
    for verdict, where in ((Verdict.SLOW, "slower"), (Verdict.FAST_UNEXPECTED, "faster")):
        outside = counts[verdict]
        if too_many_outside(outside, misses, significance):
            share = f"{_of(outside, len(with_interval))} {where} than expected"
            return Judged(verdict, share)
    outside = counts[Verdict.SLOW] + counts[Verdict.FAST_UNEXPECTED]
    if with_interval and 2 * outside > len(with_interval):
        return Judged(
            Verdict.NO_VERDICT,
            f"{_of(outside, len(with_interval))} outside their intervals: more than a pass allows, too "
            "few to call it slow or fast; measure more points, or calibrate again on a quiet host",
            Why.TOO_FEW_POINTS,
        )
    return _judge_silent(rows, judged) or Judged(Verdict.PASS, _pass_reason(rows, judged))


def _judge_silent(rows: Sequence[Row], judged: Sequence[Judged]) -> Judged | None:
    """No verdict, for points that have none; None where few enough do. A tenth of points that noise hides
    makes a run noisy (steady.py); one of any other kind is a hole.
    """
    silent = [j for j in judged if j.verdict == Verdict.NO_VERDICT]
    told = next((j for j in silent if not j.unsure), None)
    if told is None and silent and len(silent) >= NOISY_SHARE * len(rows):
        told = silent[0]
    if told is None:
        return None
    said = f"{_of(len(silent), len(rows))} cannot be judged: {told.reason}"
    return Judged(Verdict.NO_VERDICT, said, told.why)


def _pass_reason(rows: Sequence[Row], judged: Sequence[Judged]) -> str:
    inside = sum(j.verdict == Verdict.PASS for j in judged)
    unchecked = sum(row.wrong is None for row in rows)
    reason = f"{_of(inside, len(rows))} within their intervals"
    unsure = sum(j.verdict == Verdict.NO_VERDICT for j in judged)
    if inside + unsure < len(rows):
        reason += ", no fewer than such intervals promise"
    if unsure:
        reason += f"; {unsure} are known too little to say"
    return f"{reason}; data of {unchecked} not checked" if unchecked else reason


def _has_interval(judged: Judged) -> bool:
    return judged.verdict in (Verdict.PASS, Verdict.SLOW, Verdict.FAST_UNEXPECTED)


def _judge_groups(
    rows: Sequence[Row],
    said: _Known,
    summaries: Sequence[CollectiveSummary],
    missing: int,
    problems: Sequence[str],
) -> Judged:
    if not summaries:
        return Judged(Verdict.NO_VERDICT, "nothing was measured", Why.NOTHING)
    wrong = any(s.judged.verdict == Verdict.INVALID for s in summaries)
    if problems and not wrong:
        return Judged(Verdict.NO_VERDICT, "; ".join(problems), Why.DAMAGED)
    graver = (Verdict.INVALID, Verdict.SLOW, Verdict.FAST_UNEXPECTED)
    bad = [s for verdict in graver for s in summaries if s.judged.verdict == verdict]
    if bad:
        return Judged(bad[0].judged.verdict, _named(bad))
    if missing:
        return Judged(
            Verdict.NO_VERDICT, f"{missing} planned points were not measured", Why.MISSING
        )
    unjudged = [s for s in summaries if s.judged.verdict == Verdict.NO_VERDICT]
    if unjudged:
        reason = _named(unjudged)
        if all(row.predicted_time_us is None for row in rows):  # said once, not for each collective
            reason = f"{_of(len(rows), len(rows))} cannot be judged: {NO_PREDICTION}"
        return Judged(Verdict.NO_VERDICT, reason, unjudged[0].judged.why)
    return Judged(Verdict.PASS, _pass_reason(rows, [said[id(row)] for row in rows]))


def _named(summaries: Sequence[CollectiveSummary]) -> str:
    return "; ".join(
        f"{s.collective}{' of some ranks' if s.of_some_ranks else ''}: {s.judged.reason}"
        for s in summaries
    )


def _add_counts(parts: Iterable[dict[Verdict, int]]) -> dict[Verdict, int]:
    total = dict.fromkeys(Verdict, 0)
    for part in parts:
        for verdict, count in part.items():
            total[verdict] += count
    return total


def _of(part: int, whole: int) -> str:
    return f"{part} of {whole} points"
