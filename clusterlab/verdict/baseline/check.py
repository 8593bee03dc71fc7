"""A run against a baseline: a verdict for every point, and for the run. Pure.

Where tolerances come from the spread between runs, the run is judged by groups as two runs are
(``against/changes.py``): single points outside are expected, one in a hundred on either side. One that is
far out and was not unsteady while measured keeps the run from passing: now and then all iterations of one
point are several times as long, and only another run tells. A stated tolerance means every point.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from clusterlab.core.findings import Verdict
from clusterlab.verdict.against.changes import Change, What, changes
from clusterlab.verdict.against.comparison import FAR_RATIO
from clusterlab.verdict.against.pairing import Pair, pair
from clusterlab.verdict.against.side import KEY, Side, Timed, label
from clusterlab.verdict.baseline.make import other_versions, versions_of
from clusterlab.verdict.baseline.model import Baseline, Reference

ALLOWABLE = ("fabric", "versions")
"""What may be allowed to differ."""
FAR = 3.0
"""A point that is outside by this many tolerances (as logarithms), and by FAR_RATIO, is far out: some eight
standard deviations, which chance gives at no number of points.
"""
_MOST_NAMED = 4


@dataclass(frozen=True, slots=True)
class PointChecked:
    """One point: ``ratio`` is its time over the reference's, None where nothing was compared."""

    point: Timed
    reference_us: float | None
    time_us: float
    ratio: float | None
    slower: float | None
    faster: float | None
    verdict: Verdict
    reason: str


@dataclass(frozen=True, slots=True)
class Checked:
    """A run against a baseline. ``changes`` are the groups, empty where tolerances were stated."""

    baseline: Baseline
    side: Side
    verdict: Verdict
    reasons: tuple[str, ...]
    points: tuple[PointChecked, ...] = ()
    changes: tuple[Change, ...] = ()
    notes: tuple[str, ...] = ()


def check(
    baseline: Baseline,
    side: Side,
    *,
    tolerance: float | None = None,
    allowed: Collection[str] = (),
    allow_missing: bool = False,
) -> Checked:
    """Judge ``side`` by ``baseline``. ``tolerance``: a share for every point instead of the file's own."""
    reference = baseline.side
    paired = pair(reference, side, allowed)
    why_not = [*side.problems, *paired.refusals]
    other = other_versions(dict(baseline.versions), versions_of(side))
    if other and "versions" not in allowed:
        said = "; ".join(other)
        why_not.append(f"other versions than the baseline's: {said} (--allow-different versions)")
    if baseline.made.runs == (side.run_id or side.name,):
        why_not.append(f"{side.name} is the run that the baseline was made of")
    if why_not:
        return Checked(baseline, side, Verdict.NO_VERDICT, tuple(why_not))
    notes = [*paired.notes, *side.notes]
    if paired.first_only:
        notes.append(f"{paired.first_only} points of the baseline were not measured")
    if paired.second_only:
        notes.append(f"{paired.second_only} points are not in the baseline")
    hardware = reference.machine
    if hardware and side.machine and sorted(hardware) != sorted(side.machine):
        notes.append(
            "other hosts or GPUs than the baseline's runs had: its spread does not know those"
        )
    limits = {p.key: r for p, r in zip(paired.ours, baseline.points, strict=True)}
    given = tolerance if tolerance is not None else baseline.stated
    points = [_point(p, limits[p.first.key], tolerance) for p in paired.pairs]
    points += [_unknown(point) for point in paired.theirs if point.key not in limits]
    judged = (
        ()
        if given is not None or not baseline.noise
        else changes(paired.pairs, dict(baseline.noise))
    )
    missing = [] if allow_missing else _missing(side, paired.first_only)
    verdict, reasons = _verdict(points, judged, missing)
    if paired.first_only and verdict in {Verdict.PASS, Verdict.FAST_UNEXPECTED}:
        reasons.append(f"{paired.first_only} points of the baseline say nothing: not measured")
    return Checked(baseline, side, verdict, tuple(reasons), tuple(points), judged, tuple(notes))


def _point(one: Pair, reference: Reference, tolerance: float | None) -> PointChecked:
    slower = tolerance if tolerance is not None else reference.slower
    faster = tolerance if tolerance is not None else reference.faster
    ratio = one.second_us / one.first_us
    verdict, why = Verdict.PASS, "within the tolerance"
    if one.second.wrong:
        verdict, why = Verdict.INVALID, f"{one.second.wrong} wrong elements"
    elif not one.second.steady:
        verdict, why = Verdict.NO_VERDICT, "unsteady while it was measured"
    elif slower is not None and ratio > 1 + slower:
        verdict, why = Verdict.SLOW, f"{ratio - 1:.1%} slower, {slower:.1%} allowed"
    elif faster is not None and ratio < 1 - faster:
        verdict, why = Verdict.FAST_UNEXPECTED, f"{1 - ratio:.1%} faster, {faster:.1%} allowed"
    elif slower is None:
        verdict, why = Verdict.NO_VERDICT, "the baseline has no tolerance for it (--tolerance)"
    return PointChecked(
        one.second, one.first_us, one.second_us, ratio, slower, faster, verdict, why
    )


def _unknown(point: Timed) -> PointChecked:
    """A point that the baseline does not have."""
    verdict, why = Verdict.NO_VERDICT, "not in the baseline"
    if point.wrong:
        verdict, why = Verdict.INVALID, f"{point.wrong} wrong elements"
    return PointChecked(point, None, point.time_us(loops=False), None, None, None, verdict, why)


def _missing(side: Side, lacks: int) -> list[str]:
    if side.missing:
        return [f"{side.name} lacks {side.missing} points of its plan"]
    if side.missing is None and lacks:
        return [f"{side.name} lacks {lacks} points that the baseline has"]
    return []


def _verdict(
    points: Sequence[PointChecked], groups: Sequence[Change], missing: Sequence[str]
) -> tuple[Verdict, list[str]]:
    by = {verdict: [p for p in points if p.verdict is verdict] for verdict in Verdict}
    if by[Verdict.INVALID]:
        return Verdict.INVALID, [f"wrong data: {_named(by[Verdict.INVALID])}"]
    slow = [c for c in groups if c.what is What.REGRESSION]
    alone = [] if groups else by[Verdict.SLOW]
    if slow or alone:
        said = [f"{c.collective or 'all collectives'} {c.band}: {_times(c)}" for c in slow]
        return Verdict.SLOW, said + ([f"slow: {_named(alone)}"] if alone else [])
    if why_not := _why_no_verdict(points, groups, missing):
        return Verdict.NO_VERDICT, why_not
    fast = [c for c in groups if c.what is What.IMPROVEMENT]
    if fast or (not groups and by[Verdict.FAST_UNEXPECTED]):
        said = [f"{c.collective or 'all collectives'} {c.band}: {_times(c)}" for c in fast]
        said = said or [f"fast: {_named(by[Verdict.FAST_UNEXPECTED])}"]
        return Verdict.FAST_UNEXPECTED, [*said, "if that is to stay, save a new baseline"]
    reason = f"{len(by[Verdict.PASS])} of {len(points)} points within their tolerance"
    outside = len(by[Verdict.SLOW]) + len(by[Verdict.FAST_UNEXPECTED])
    if outside:
        reason += f", {outside} outside, no collective as a whole"
    return Verdict.PASS, [reason]


def _why_no_verdict(
    points: Sequence[PointChecked], groups: Sequence[Change], missing: Sequence[str]
) -> list[str]:
    """What keeps a run that shows nothing slow from passing."""
    if missing:
        return [*missing, "--allow-missing judges what there is"]
    far = [p for p in points if p.verdict is Verdict.SLOW and _far(p)]
    if far:
        return [f"measure again: far out, alone: {_named(far)}"]
    silent = [p for p in points if p.verdict is Verdict.NO_VERDICT]
    if 2 * len(silent) > len(points):
        return [f"{len(silent)} of {len(points)} points cannot be judged: {silent[0].reason}"]
    if groups and not any(c.tested for c in groups):
        return [f"no group of points can be judged: {groups[0].why}"]
    return []


def _far(checked: PointChecked) -> bool:
    """Whether a point is so far out that it counts alone."""
    if checked.ratio is None or checked.slower is None:
        return False
    return checked.ratio > FAR_RATIO and math.log(checked.ratio) > FAR * math.log1p(checked.slower)


def _times(change: Change) -> str:
    if change.ratio is None or change.low is None or change.high is None:
        return "changed"
    return (
        f"time ×{change.ratio:.3f} ({change.low:.3f} to {change.high:.3f}, {change.points} points)"
    )


def _named(points: Sequence[PointChecked]) -> str:
    worst = sorted(points, key=lambda p: -(p.ratio or 0))
    shown = "; ".join(f"{label(p.point)}: {p.reason}" for p in worst[:_MOST_NAMED])
    left = len(worst) - _MOST_NAMED
    return shown + (f"; and {left} more" if left > 0 else "")


def checked_to_json(found: Checked) -> dict[str, Any]:
    """Verdict, reasons, and every point."""
    baseline = found.baseline
    return {
        "run": found.side.name,
        "baseline": baseline.name,
        "verdict": found.verdict.value,
        "reasons": list(found.reasons),
        "notes": list(found.notes),
        "tolerance": baseline.tolerance,
        "made": asdict(baseline.made),
        "changes": [{**asdict(c), "what": c.what.value} for c in found.changes],
        "points": [
            {
                **{name: getattr(p.point, name) for name in KEY},
                "reference_us": p.reference_us,
                "time_us": p.time_us,
                "ratio": p.ratio,
                "slower": p.slower,
                "faster": p.faster,
                "verdict": p.verdict.value,
                "reason": p.reason,
            }
            for p in found.points
        ],
    }
