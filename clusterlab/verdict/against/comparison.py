"""Two sides beside each other: what differs, what changed, and the verdict. Pure.

Whether a second run of the *same* sweep finds the same medians, point by point, within the intervals that
both state, is another question: ``verdict/reproduce.py``.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist, median

from clusterlab.core.errors import ExitCode
from clusterlab.verdict.against.changes import (
    Change,
    What,
    changes,
    grouped,
    holm,
    log_ratio,
    variance,
)
from clusterlab.verdict.against.facts import Difference, differences
from clusterlab.verdict.against.noise import BANDS, Noise, band, default_noise, noise_of
from clusterlab.verdict.against.pairing import Pair, pair
from clusterlab.verdict.against.side import Side, Timed, by_key, label

LOOSE = 0.25
"""Where most groups would not show a slowdown of this size, that none was found says nothing."""
FAR_RATIO = 1.2
"""A single steady point that takes so much longer, beyond chance, keeps two runs from being the same: one
point in some two thousand takes 1.5 to 5 times as long in all iterations of a run and not in the next (two
H200, ``tests/benchmarks/between_runs.csv``), so that it is no regression either before another run says so.
"""
ALLOW_MISSING_HELPS = "--allow-missing compares what there is"
"""A reason that ends with what can be done about it."""
_MOST_NAMED = 4


class Outcome(StrEnum):
    """What can be said of the second side beside the first."""

    SAME = "same"
    IMPROVEMENT = "improvement"
    REGRESSION = "regression"
    INVALID = "invalid"
    NO_VERDICT = "no_verdict"

    @property
    def exit_code(self) -> ExitCode:
        """Of a command that ends with it."""
        if self in {Outcome.REGRESSION, Outcome.INVALID}:
            return ExitCode.FINDING
        return ExitCode.NO_VERDICT if self is Outcome.NO_VERDICT else ExitCode.OK


@dataclass(frozen=True, slots=True)
class Comparison:
    """``second`` against ``first``. ``changes`` are by group, ``noise`` by band; ``reasons`` are why the
    outcome is what it is; ``notes`` what was assumed or left out.
    """

    first: Side
    second: Side
    outcome: Outcome
    reasons: tuple[str, ...]
    differences: tuple[Difference, ...] = ()
    pairs: tuple[Pair, ...] = ()
    changes: tuple[Change, ...] = ()
    noise: Mapping[str, Noise] | None = None
    notes: tuple[str, ...] = ()
    alone: tuple[int, int] = (0, 0)


def against(
    first: Side,
    second: Side,
    *,
    repeats: Sequence[Side] = (),
    stated_noise: float | None = None,
    allowed: Collection[str] = (),
    allow_missing: bool = False,
) -> Comparison:
    """Compare ``second`` with ``first``.

    ``repeats`` are other runs of what ``first`` ran, and say how far such runs differ; ``stated_noise`` is
    the user's word for it (a standard deviation of the ratio). ``allowed``: what may differ.
    ``allow_missing``: points that only one side has are no reason to conclude nothing.
    """
    paired = pair(first, second, allowed)
    differ = differences(first, second)
    notes = [*paired.notes, *first.notes, *second.notes]
    alone = (paired.first_only, paired.second_only)
    unfit = (*paired.refusals, *_unfit(first, second, repeats))
    if unfit:
        return Comparison(
            first, second, Outcome.NO_VERDICT, unfit, differ, notes=tuple(notes), alone=alone
        )
    noise = _noise(
        first,
        paired.pairs,
        repeats,
        default_noise(same_machine(first, second), first.backend),
        stated_noise,
    )
    found = changes(paired.pairs, noise)
    missing = [] if allow_missing else _missing(first, second, alone)
    notes += _of_alone(first, second, alone)
    outcome, reasons = _outcome(second, found, missing, far_out(paired.pairs, noise))
    return Comparison(
        first,
        second,
        outcome,
        tuple(reasons),
        differ,
        paired.pairs,
        found,
        noise,
        tuple(notes),
        alone,
    )


def same_machine(first: Side, second: Side) -> bool | None:
    """Whether the same GPUs of the same hosts were measured; None: not known of both."""
    if first.machine is None or second.machine is None:
        return None
    return sorted(first.machine) == sorted(second.machine)


def _unfit(first: Side, second: Side, repeats: Sequence[Side]) -> tuple[str, ...]:
    """What keeps anything from being concluded."""
    found = [f"{side.name}: {problem}" for side in (first, second) for problem in side.problems]
    sides = (first, second, *repeats)
    ids = [side.run_id or side.name for side in sides]
    twice = sorted({run_id for run_id in ids if ids.count(run_id) > 1})
    if twice:
        found.append(f"the same run is given twice: {', '.join(twice)}")
    if first.wrong:
        found.append(
            f"{first.name} delivered wrong data at {len(first.wrong)} points: nothing to compare with"
        )
    return tuple(found)


def _noise(
    first: Side,
    pairs: Sequence[Pair],
    repeats: Sequence[Side],
    default: tuple[Mapping[str, float], str],
    stated: float | None,
) -> dict[str, Noise]:
    groups = grouped(pairs)
    again = _repeated(first, repeats)
    by_band, source = default
    return {
        name: noise_of(
            [[log_ratio(p) for p in own] for key, own in groups.items() if key[2] == name],
            [change for at, change in again if at == name],
            by_band[name],
            source,
            stated,
        )
        for name in BANDS
    }


def _repeated(first: Side, repeats: Sequence[Side]) -> list[tuple[str, float]]:
    """Band and change (log ratio) of each group's median between runs that were to be the same: other
    runs, and other passes over the first one's points.
    """
    passes: dict[int, list[Timed]] = {}
    for point in first.passes:
        passes.setdefault(point.attempt, []).append(point)
    others = [list(pair(first, side).pairs) for side in repeats if not side.problems]
    latest = by_key(first.points)
    others += [
        [Pair(p, latest[p.key], p.p50_us is None) for p in own if p.key in latest]
        for own in passes.values()
    ]
    return [
        (band(own[0].first.size_bytes), median(log_ratio(p) for p in own))
        for pairs in others
        for own in grouped(pairs).values()
        if len(own) >= 3
    ]


def _missing(first: Side, second: Side, alone: tuple[int, int]) -> list[str]:
    """Rows that should be there and are not."""
    found = []
    for side, lacks in ((first, alone[1]), (second, alone[0])):
        if side.missing:
            found.append(f"{side.name} lacks {side.missing} points of its plan")
        elif side.missing is None and lacks:
            found.append(f"{side.name} lacks {lacks} points that the other has")
    return found


def _of_alone(first: Side, second: Side, alone: tuple[int, int]) -> list[str]:
    return [
        f"{count} points are in {side.name} only"
        for side, count in zip((first, second), alone, strict=True)
        if count
    ]


def far_out(pairs: Sequence[Pair], noise: Mapping[str, Noise]) -> list[Pair]:
    """Steady points that take FAR_RATIO times as long and more, which chance explains with less than 1 % for
    all points together (Holm); the worst first. The median over a group does not show them.
    """
    steady = [p for p in pairs if p.first.steady and p.second.steady]
    chances = []
    for one in steady:
        own = noise[band(one.first.size_bytes)]
        error = math.hypot(own.between, math.sqrt(variance(one, own)))
        chances.append(NormalDist().cdf(-log_ratio(one) / error))
    beyond = zip(steady, holm(chances), strict=True)
    far = [p for p, surely in beyond if surely and log_ratio(p) > math.log(FAR_RATIO)]
    return sorted(far, key=log_ratio, reverse=True)


def _of_far(far: Sequence[Pair]) -> list[str]:
    if not far:
        return []
    named = "; ".join(
        f"{label(p.first)}: time ×{math.exp(log_ratio(p)):.3g}" for p in far[:_MOST_NAMED]
    )
    more = f"; and {len(far) - _MOST_NAMED} more" if len(far) > _MOST_NAMED else ""
    return [f"measure again: far out, alone: {named}{more}"]


def _outcome(
    second: Side, found: Sequence[Change], missing: Sequence[str], far: Sequence[Pair]
) -> tuple[Outcome, list[str]]:
    if second.wrong:
        worst = label(second.wrong[0])
        said = f"{second.name} delivered wrong data at {len(second.wrong)} points, the first is {worst}"
        return Outcome.INVALID, [said]
    slower = [_said(change) for change in found if change.what is What.REGRESSION]
    if slower:
        return Outcome.REGRESSION, slower
    why_not = [*missing, ALLOW_MISSING_HELPS] if missing else [*_blind(found), *_of_far(far)]
    if why_not:
        return Outcome.NO_VERDICT, why_not
    better = [_said(change) for change in found if change.what is What.IMPROVEMENT]
    if better:
        return Outcome.IMPROVEMENT, better
    seen = [change.seen for change in found if change.seen is not None]
    return Outcome.SAME, [
        f"no regression in {len(seen)} of {len(found)} groups; {min(seen):.1%} would have shown in the "
        f"most certain of them, {max(seen):.1%} in the least"
    ]


def _blind(found: Sequence[Change]) -> list[str]:
    """Why that nothing was found says nothing; empty where it does say something."""
    if not any(change.tested for change in found):
        why = next((change.why for change in found if change.why), "no points")
        return [f"no group of points can be judged: {why}"]
    seeing = [change for change in found if change.seen is not None and change.seen <= LOOSE]
    if 2 * len(seeing) >= len(found):
        return []
    return [
        f"noise: in {len(found) - len(seeing)} of {len(found)} groups a slowdown of {LOOSE:.0%} would not "
        "have shown; repeat on a quiet machine, or give runs like the first one with --repeat"
    ]


def _name(change: Change) -> str:
    timing = f", {change.timing}" if change.timing else ""
    return f"{change.collective or 'all collectives'} {change.band}{timing}"


def _said(change: Change) -> str:
    if change.ratio is None or change.low is None or change.high is None:
        return _name(change)
    word = "slower" if change.ratio > 1 else "faster"
    return (
        f"{_name(change)}: {abs(change.ratio - 1):.1%} {word} (time ×{change.ratio:.3f}, "
        f"{change.low:.3f} to {change.high:.3f}, {change.points} points)"
    )
