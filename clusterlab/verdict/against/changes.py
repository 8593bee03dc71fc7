"""What changed between two sides, by collective and size band, and whether more than runs differ by. Pure.

A group is one collective (called in one way) in one band. Its change is the median of its points' log
ratios: single points that stray do not move it. Its standard error joins what all its points share
(``Noise.between``) with what each has alone. Where several collectives are in a band, the band is asked as
well: half of the variance between runs is common to collectives, half each one's own (sweeps of seven
collectives, ``tests/benchmarks/between_runs.csv``). Chances are of a normal distribution and corrected for
the number of questions by Holm's method (1979, Scand. J. Stat. 6:65): in all of them together 1 % for a
regression where there is none, and 1 % for an improvement.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from clusterlab.verdict.against.noise import BANDS, Noise, band
from clusterlab.verdict.against.pairing import Pair

SIGNIFICANCE = 0.01
FEWEST = 3
"""Points from which one that strays does not decide."""
_OF_MEDIAN = math.pi / 2  # its variance over the mean's, of normal values
_COMMON = 0.5
_Z95 = 1.96
_FOUND = 0.9
_NORMAL = statistics.NormalDist()


class What(StrEnum):
    """What can be said of a group."""

    SAME = "same"
    REGRESSION = "regression"
    IMPROVEMENT = "improvement"
    NO_VERDICT = "no_verdict"


@dataclass(frozen=True, slots=True)
class Change:
    """One group; ``collective`` is None for all of a band together.

    ``ratio`` is second over first time: above 1 is slower; ``low`` and ``high`` hold it with 95 %, for
    this group alone. ``seen`` is the smallest slowdown that would have been found nine times of ten
    (0.05: 5 %). ``why``: the reason where nothing can be said; the figures are then None.
    """

    collective: str | None
    timing: str | None
    band: str
    points: int
    what: What
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    seen: float | None = None
    why: str | None = None

    @property
    def tested(self) -> bool:
        """Whether it was looked at."""
        return self.ratio is not None


@dataclass(frozen=True, slots=True)
class _Estimate:
    """log ratio, its variance from the points, and the group that it is of."""

    change: Change
    value: float
    of_points: float
    error: float


def log_ratio(pair: Pair) -> float:
    """log(second / first) of the times."""
    return math.log(pair.second_us / pair.first_us)


def unknown(pair: Pair) -> float:
    """Variance of the log ratio that the iterations leave: both 95 % intervals of the medians; 0 unstated."""
    if not pair.stated:
        return 0.0
    total = 0.0
    for point in (pair.first, pair.second):
        if point.low_us and point.high_us:
            total += (math.log(point.high_us / point.low_us) / (2 * _Z95)) ** 2
    return total


def variance(pair: Pair, noise: Noise) -> float:
    """Of one point, beside what its group shares."""
    return max(noise.alone**2, unknown(pair))


def grouped(pairs: Sequence[Pair]) -> dict[tuple[str, str | None, str], list[Pair]]:
    """Pairs by collective, way of calling and band, in order of first sight."""
    found: dict[tuple[str, str | None, str], list[Pair]] = {}
    for pair in pairs:
        point = pair.first
        name = point.collective
        if point.ranks is not None:
            name += " of some ranks"
        if point.beside is not None:
            name += f" beside {point.beside}"
        found.setdefault((name, point.timing, band(point.size_bytes)), []).append(pair)
    return found


def changes(pairs: Sequence[Pair], noise: dict[str, Noise]) -> tuple[Change, ...]:
    """Every group, then every band with several collectives. ``noise`` by band."""
    groups = grouped(pairs)
    found = [_group(*key, own, noise[key[2]]) for key, own in groups.items()]
    known = [one for one in found if isinstance(one, _Estimate)]
    silent = [one for one in found if isinstance(one, Change)]
    asked = known + [
        together
        for name in BANDS
        if (together := _together(name, [e for e in known if e.change.band == name], noise))
    ]
    return (*_judged(asked), *silent)


def _group(
    collective: str, timing: str | None, name: str, pairs: Sequence[Pair], noise: Noise
) -> _Estimate | Change:
    empty = Change(collective, timing, name, len(pairs), What.NO_VERDICT)
    steady = [p for p in pairs if p.first.steady and p.second.steady]
    if 2 * len(steady) < len(pairs) or not steady:
        why = f"{len(pairs) - len(steady)} of {len(pairs)} points were unsteady while measured"
        return replace(empty, why=why)
    values = [log_ratio(pair) for pair in steady]
    own = statistics.fmean(variance(pair, noise) for pair in steady)
    if len(steady) >= FEWEST:
        value, of_points = statistics.median(values), _OF_MEDIAN * own / len(steady)
    elif not all(pair.stated for pair in steady):
        few = f"{len(steady)} points without an interval of their median"
        return replace(empty, why=f"{few}: {FEWEST} or more tell one that strays")
    else:
        # One point that strays must not decide: what all of them changed by at least.
        one_way = min(values) * max(values) > 0
        value, of_points = (min(values, key=abs) if one_way else 0.0), own
    error = math.sqrt(of_points + noise.between**2)
    return _Estimate(replace(empty, points=len(steady)), value, of_points, error)


def _together(name: str, parts: Sequence[_Estimate], noise: dict[str, Noise]) -> _Estimate | None:
    """All collectives of a band; None for one alone."""
    if len(parts) < 2:
        return None
    many = _OF_MEDIAN / len(parts) if len(parts) >= FEWEST else 1 / len(parts)
    of_points = statistics.fmean(part.of_points for part in parts) * many
    shared = noise[name].between ** 2
    error = math.sqrt(of_points + shared * (_COMMON + (1 - _COMMON) * many))
    change = Change(None, None, name, sum(p.change.points for p in parts), What.NO_VERDICT)
    value = statistics.median(part.value for part in parts)
    return _Estimate(change, value, of_points, error)


def _judged(asked: Sequence[_Estimate]) -> list[Change]:
    slower = holm([1 - _NORMAL.cdf(one.value / one.error) for one in asked])
    faster = holm([_NORMAL.cdf(one.value / one.error) for one in asked])
    reach = _NORMAL.inv_cdf(1 - SIGNIFICANCE / max(1, len(asked))) + _NORMAL.inv_cdf(_FOUND)
    found = []
    for one, slow, fast in zip(asked, slower, faster, strict=True):
        what = What.REGRESSION if slow else What.IMPROVEMENT if fast else What.SAME
        found.append(
            replace(
                one.change,
                what=what,
                ratio=math.exp(one.value),
                low=math.exp(one.value - _Z95 * one.error),
                high=math.exp(one.value + _Z95 * one.error),
                seen=math.exp(reach * one.error) - 1,
            )
        )
    return found


def holm(chances: Sequence[float], significance: float = SIGNIFICANCE) -> list[bool]:
    """Which of several chances are small enough that all of them together err with ``significance``."""
    order = sorted(range(len(chances)), key=lambda i: chances[i])
    rejected = [False] * len(chances)
    for place, i in enumerate(order):
        if chances[i] > significance / (len(chances) - place):
            break
        rejected[i] = True
    return rejected
