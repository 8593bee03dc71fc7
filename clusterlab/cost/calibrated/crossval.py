"""How far a system's constants are off where they were not fitted: sizes left out, and numbers of ranks."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from clusterlab.cost.bands import percentile, size_band
from clusterlab.cost.calibrated.alpha_beta import alpha_beta_us, fit_alpha_beta
from clusterlab.cost.calibrated.calibration import LeftOut, Score, Spread
from clusterlab.cost.calibrated.fit import Fitted, fit, log_times
from clusterlab.cost.calibrated.points import FitPoint

SIZE_FOLDS = 4
NOMINAL = 0.8
"""Share of points that an interval is meant to hold, as gloo's."""

FEWEST = 6
"""Different points (size, ranks) below which a collective's band does not tell its range alone: of fewer the
least and the most hold too little."""

LEAST_SPREAD = 1.03
"""No interval is narrower than this factor either way: repeats of one point differ by as much."""


@dataclass(frozen=True, slots=True)
class Left:
    """One point that the fit of ``fold`` had not seen, and its log ratios of measured to predicted."""

    point: FitPoint
    left_out: LeftOut
    fold: int
    log_ratio: float
    alpha_beta_log_ratio: float | None

    @property
    def error(self) -> float:
        """|predicted / measured - 1|."""
        return abs(math.expm1(-self.log_ratio))


def cross_validate(points: Sequence[FitPoint], whole: Fitted) -> list[Left]:
    """Every point as fits without it meet it; ``whole`` is the fit of all, where each search begins."""
    found = []
    for number, (left_out, held) in enumerate(_folds(points)):
        rest = [p for i, p in enumerate(points) if i not in held]
        out = [points[i] for i in sorted(held)]
        models = fit_alpha_beta(rest)
        logs = log_times(fit(rest, start=whole), out)
        for p, log_time in zip(out, logs, strict=True):
            plain = alpha_beta_us(models, p)
            found.append(
                Left(
                    p, left_out, number, math.log(p.time_us) - float(log_time),
                    None if plain is None else math.log(p.time_us / plain),
                )
            )  # fmt: skip
    return found


def _folds(points: Sequence[FitPoint]) -> Iterator[tuple[LeftOut, set[int]]]:
    """Every fourth size, and each number of ranks on so many nodes; what leaves nothing is no fold."""
    sizes = sorted({p.size_bytes for p in points})
    for k in range(min(SIZE_FOLDS, len(sizes))):
        out = set(sizes[k::SIZE_FOLDS])
        yield "sizes", {i for i, p in enumerate(points) if p.size_bytes in out}
    shapes = sorted({(p.ranks, p.nodes) for p in points})
    for shape in shapes if len(shapes) > 1 else ():
        yield "ranks", {i for i, p in enumerate(points) if (p.ranks, p.nodes) == shape}


def spreads(left: Sequence[Left]) -> tuple[Spread, ...]:
    """By what was left out, collective and size band."""
    groups: defaultdict[tuple[LeftOut, str, str], list[Left]] = defaultdict(list)
    for one in left:
        groups[one.left_out, one.point.collective, size_band(one.point.size_bytes)].append(one)
    return tuple(_spread(*key, found, _enough(found, left)) for key, found in groups.items())


def _enough(found: Sequence[Left], left: Sequence[Left]) -> Sequence[Left]:
    """``found``, or where it is of too few sizes and ranks its whole band, or all that was left out so."""
    kind, band = found[0].left_out, size_band(found[0].point.size_bytes)
    alike = [one for one in left if one.left_out == kind]
    in_band = [one for one in alike if size_band(one.point.size_bytes) == band]
    return next((some for some in (found, in_band) if _different(some) >= FEWEST), alike)


def _different(some: Sequence[Left]) -> int:
    """Repeats of a point err alike: they count once."""
    points = (one.point for one in some)
    return len({(p.collective, p.size_bytes, p.ranks, p.nodes) for p in points})


def _spread(
    left_out: LeftOut, collective: str, band: str, found: Sequence[Left], near: Sequence[Left]
) -> Spread:
    errors = sorted(100 * one.error for one in found)
    low, high = _range([one.log_ratio for one in near])
    return Spread(
        collective=collective,
        size_band=band,
        left_out=left_out,
        points=len(found),
        error_p50_pct=percentile(errors, 0.5),
        error_p90_pct=percentile(errors, 0.9),
        low=math.exp(low),
        high=math.exp(high),
        coverage=fmean(_held(found, near)),
    )


def _range(log_ratios: Sequence[float]) -> tuple[float, float]:
    """Around 0, what holds NOMINAL of further ratios like these (ranks among one more than there are), at
    least LEAST_SPREAD.
    """
    ordered, least = sorted(log_ratios), math.log(LEAST_SPREAD)
    outside = (1 - NOMINAL) / 2 * (len(ordered) + 1)
    below = max(0, math.floor(outside) - 1)
    return min(ordered[below], -least), max(ordered[len(ordered) - 1 - below], least)


def _held(found: Sequence[Left], near: Sequence[Left]) -> list[bool]:
    """Of each point, whether the range of the other folds of ``near`` holds it; of a single fold, its own."""
    ranges = {}
    for fold in {one.fold for one in found}:
        others = [other.log_ratio for other in near if other.fold != fold]
        ranges[fold] = _range(others or [other.log_ratio for other in near])
    return [ranges[one.fold][0] <= one.log_ratio <= ranges[one.fold][1] for one in found]


def scores(left: Sequence[Left], residuals: Sequence[Spread]) -> tuple[Score, ...]:
    """All points of each kind together, in the order of ``left``."""
    kinds = dict.fromkeys(one.left_out for one in left)
    return tuple(
        _score(kind, [one for one in left if one.left_out == kind], residuals) for kind in kinds
    )


def _score(kind: LeftOut, found: Sequence[Left], residuals: Sequence[Spread]) -> Score:
    errors = sorted(100 * one.error for one in found)
    plain = [
        100 * abs(math.expm1(-one.alpha_beta_log_ratio))
        for one in found
        if one.alpha_beta_log_ratio is not None
    ]
    library = [
        100 * abs(one.point.library_us / one.point.time_us - 1)
        for one in found
        if one.point.library_us is not None
    ]
    mine = [r for r in residuals if r.left_out == kind]
    return Score(
        left_out=kind,
        points=len(found),
        mape_pct=fmean(errors),
        median_pct=percentile(errors, 0.5),
        p90_pct=percentile(errors, 0.9),
        coverage=sum(r.points * r.coverage for r in mine) / sum(r.points for r in mine),
        alpha_beta_mape_pct=fmean(plain) if plain else None,
        library_mape_pct=fmean(library) if library else None,
    )
