"""A baseline of runs of one machine: medians over runs, and tolerances from how far the runs differ. Pure.

A run's deviation is its own pace in a band of one collective, plus what a point has alone; both are estimated
over all runs, collectives and points of a band, the first joined with what sweeps differ by elsewhere
(``against/noise.py``, which counts as four observations). A further run is compared with a median over R
runs, which is itself uncertain: both grow by that. A point's tolerance is what one run in a hundred leaves on
either side.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from clusterlab.core.errors import NoVerdictError
from clusterlab.verdict.against.noise import BANDS, Noise, band, default_noise
from clusterlab.verdict.against.pairing import pair
from clusterlab.verdict.against.side import Side, Timed, label
from clusterlab.verdict.baseline.model import VERSIONS, Baseline, Made, Reference
from clusterlab.verdict.steady import NOISY_SHARE

_MOST_NAMED = 4
_WEIGHT = 4
_Z99 = 2.576
_OWN_SPREAD = 3
"""Runs from which a point's own spread counts."""
_NORMAL = 1.4826  # of the median absolute deviation
_OF_MEDIAN = math.pi / 2  # its variance over the mean's
_OWN = 0.5


def make_baseline(
    name: str,
    sides: Sequence[Side],
    made: Made,
    *,
    tolerance: float | None = None,
    allow_noisy: bool = False,
) -> Baseline:
    """The baseline of ``sides``, runs of the same sweep. ``tolerance``: a share for every point instead.
    Where a point was steady in some runs, these are its reference.

    Raises NoVerdictError where they are not runs of one thing, or one of them is unfit; where one was noisy
    or a point was steady in none of them, unless ``allow_noisy``.
    """
    _check(sides)
    if not allow_noisy and (shaken := unsteady_words(sides)):
        raise NoVerdictError(
            f"unsteady while measured, so no reference: {'; '.join(shaken)}",
            fix="measure again on a quiet machine, or --allow-noisy takes them as they are",
        )
    held: dict[tuple[object, ...], list[Timed]] = {}
    for side in sides:
        for point in side.points:
            held.setdefault(point.key, []).append(point)
    held = {key: [p for p in own if p.steady] or own for key, own in held.items()}
    middle = {key: middle_of(own) for key, own in held.items()}
    noise = {} if tolerance is not None else noise_between(sides, middle)
    if tolerance is not None:
        words = f"{tolerance:.1%} of every point, as stated when it was saved"
    else:
        of = "elsewhere (one run says nothing of it)" if len(sides) == 1 else f"of {len(sides)}"
        words = f"one run in a hundred is outside at a point, by the spread between runs {of}"
    references = []
    for key, own in held.items():
        spread = _spread(own)
        slower, faster = _limits(own, noise, tolerance)
        references.append(Reference(middle[key], len(own), spread, slower, faster))
    first = sides[0]
    return Baseline(
        name,
        made,
        words,
        tuple(references),
        stated=tolerance,
        noise=noise,
        machine=machine_of(first),
        versions=versions_of(first),
        foreign=first.foreign,
    )


def unsteady_words(sides: Sequence[Side]) -> list[str]:
    """The noisy runs, by the share of unsteady points that ``bench`` goes by (verdict/steady.py), and the
    points that were steady in no run; nothing where all is well.
    """
    found = [
        f"{side.name}: {_few(shaken)} ({len(shaken)} of {len(side.points)} points)"
        for side in sides
        if (shaken := [p for p in side.points if not p.steady])
        and len(shaken) >= NOISY_SHARE * len(side.points)
    ]
    if found:
        return found
    steady = {p.key for side in sides for p in side.points if p.steady}
    never = {p.key: p for side in sides for p in side.points if p.key not in steady}
    return [_few(list(never.values()))] if never else []


def _few(points: Sequence[Timed]) -> str:
    named = ", ".join(map(label, points[:_MOST_NAMED]))
    return named + (f" and {len(points) - _MOST_NAMED} more" if len(points) > _MOST_NAMED else "")


def machine_of(side: Side) -> dict[str, Any]:
    """What a baseline keeps of the machine."""
    return {
        "backend": side.backend,
        "gpus": None if side.gpus is None else list(side.gpus),
        "layout": side.layout,
        "fabric": side.fabric,
        "fabric_sha256": side.facts.get("fabric", {}).get("sha256"),
        "hardware": None if side.machine is None else list(side.machine),
    }


def versions_of(side: Side) -> dict[str, Any]:
    """What a baseline keeps of versions."""
    measured = side.facts.get("measured", {})
    return {name: measured.get(name) for name in VERSIONS}


def other_versions(ours: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    """Versions that both say and that differ."""
    return [
        f"{name.replace('_', ' ')} {ours[name]} and {theirs[name]}"
        for name in VERSIONS
        if None not in {_plain(ours.get(name)), _plain(theirs.get(name))}
        and ours.get(name) != theirs.get(name)
    ]


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _check(sides: Sequence[Side]) -> None:
    ids = [side.run_id or side.name for side in sides]
    twice = sorted({one for one in ids if ids.count(one) > 1})
    if twice:
        raise NoVerdictError(
            f"the same run is given twice: {', '.join(twice)}", fix="each run counts once"
        )
    first = sides[0]
    for side in sides:
        if side.problems:
            raise NoVerdictError(side.problems[0], where=side.name)
        if side.wrong:
            raise NoVerdictError(f"wrong data at {len(side.wrong)} points", where=side.name)
        if side.missing:
            raise NoVerdictError(f"lacks {side.missing} points of its plan", where=side.name)
        if not side.points:
            raise NoVerdictError("holds no point with a time", where=side.name)
        paired = pair(first, side)
        if paired.refusals:
            raise NoVerdictError(paired.refusals[0], where=f"{first.name} and {side.name}")
        if other := other_versions(versions_of(first), versions_of(side)):
            raise NoVerdictError(
                f"other versions: {'; '.join(other)}",
                where=f"{first.name} and {side.name}",
                fix="save a baseline for each",
            )


def middle_of(own: Sequence[Timed]) -> Timed:
    """The point with the medians over runs, and without what is of one run only."""
    medians = [p.p50_us for p in own if p.p50_us is not None]
    return replace(
        own[0],
        loop_us=statistics.median(p.loop_us for p in own),
        p50_us=statistics.median(medians) if len(medians) == len(own) else None,
        low_us=None,
        high_us=None,
        iterations=None,
        wrong=None,
        steady=True,
        attempt=1,
    )


def _spread(own: Sequence[Timed]) -> float | None:
    if len(own) < 2:
        return None
    loops = any(p.p50_us is None for p in own)
    return statistics.stdev(math.log(p.time_us(loops=loops)) for p in own)


def noise_between(
    sides: Sequence[Side], middle: dict[tuple[object, ...], Timed]
) -> dict[str, Noise]:
    """What a further run differs by from the medians, by band."""
    loops = any(p.p50_us is None for p in middle.values())
    cells: dict[tuple[str, str, str | None, int], list[float]] = {}
    for number, side in enumerate(sides):
        for p in side.points:
            key = (band(p.size_bytes), p.collective, p.timing, number)
            off = math.log(p.time_us(loops=loops) / middle[p.key].time_us(loops=loops))
            cells.setdefault(key, []).append(off)
    by_band, source = default_noise(_one_machine(sides), sides[0].backend)
    return {at: _of_band(at, cells, len(sides), by_band[at], source) for at in BANDS}


def _one_machine(sides: Sequence[Side]) -> bool | None:
    machines = {None if side.machine is None else tuple(sorted(side.machine)) for side in sides}
    return None if None in machines else len(machines) == 1


def _of_band(
    at: str,
    cells: dict[tuple[str, str, str | None, int], list[float]],
    runs: int,
    default: float,
    source: str,
) -> Noise:
    own = {key: values for key, values in cells.items() if key[0] == at}
    if runs == 1 or not own:
        return Noise(default, default, f"{default:.1%}, of one run: {source}")
    paces = {key: statistics.median(values) for key, values in own.items()}
    groups = len({key[1:3] for key in paces})
    # Half of a pace is common to collectives (against/changes.py): those are no observations of their own.
    free = (runs - 1) * (1 + _OWN * (groups - 1))
    one = math.fsum(pace**2 for pace in paces.values()) / ((runs - 1) * groups)
    # The default is of pairs of runs: one run's variance is half of that.
    joined = (_WEIGHT * default**2 / 2 + free * one) / (_WEIGHT + free)
    grown = math.sqrt(1 + _OF_MEDIAN / runs if runs > 2 else 1 + 1 / runs)
    # A deviation that is estimated may be too small: Student's distribution is wider than the normal one.
    pace = math.sqrt(joined * (_WEIGHT + free) / (_WEIGHT + free - 2)) * grown
    alone = [
        abs(value - paces[key])
        for key, values in own.items()
        if len(values) > 2
        for value in values
    ]
    scatter = _NORMAL * statistics.median(alone) * grown if alone else default
    return Noise(
        pace, scatter, f"{pace:.1%} and {scatter:.1%} a point, of {runs} runs and {source}"
    )


def _limits(
    own: Sequence[Timed], noise: dict[str, Noise], tolerance: float | None
) -> tuple[float, float]:
    if tolerance is not None:
        return tolerance, tolerance
    found = noise[band(own[0].size_bytes)]
    alone = max(found.alone, _scatter(own) * math.sqrt(1 + 1 / len(own)))
    off = _Z99 * math.hypot(found.between, alone)
    return math.exp(off) - 1, 1 - math.exp(-off)


def _scatter(own: Sequence[Timed]) -> float:
    """A point's own deviation, for one that is different in every run; one run that strays is none."""
    if len(own) < _OWN_SPREAD:
        return 0.0
    loops = any(p.p50_us is None for p in own)
    logs = [math.log(p.time_us(loops=loops)) for p in own]
    center = statistics.median(logs)
    return _NORMAL * statistics.median(abs(value - center) for value in logs)
