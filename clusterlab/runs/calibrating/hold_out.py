"""Rows kept from a fit to be predicted by it: which, and how well beside what else could be done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from clusterlab.core.collectives import collective as named
from clusterlab.core.dtypes import dtype
from clusterlab.core.errors import UsageError
from clusterlab.core.suggest import unknown
from clusterlab.cost.bands import BANDS, percentile, size_band
from clusterlab.cost.calibrated.alpha_beta import AlphaBeta
from clusterlab.cost.scoring.asked import version_said
from clusterlab.cost.scoring.measured import MeasuredPoint
from clusterlab.cost.scoring.scored import ScoredPoint
from clusterlab.cost.types import Issue

_KEYS: dict[str, Callable[[MeasuredPoint], str]] = {
    "n": lambda p: str(p.n_ranks),
    "n_nodes": lambda p: str(p.n_nodes or 1),
    "nccl_version": lambda p: version_said(p) or "",
    "collective": lambda p: p.collective,
    "dtype": lambda p: p.dtype,
    "table_id": lambda p: p.table,
}
_NAMED: dict[str, Callable[[str], str]] = {
    "collective": lambda word: named(word).name,
    "dtype": lambda word: dtype(word).name,
}
_SHOWN = 12

HALF = "half"
"""Every second size of each collective, type and number of ranks, the least not among them."""

Condition = tuple[str, frozenset[str]]


def read_conditions(words: Sequence[str]) -> tuple[Condition, ...]:
    """``n=4`` and ``nccl_version=2.27.3,2.29.2``: of each the key, and its values, any of which it may be;
    ``half`` has none. Raises UsageError naming the word.
    """
    found = []
    for word in words:
        if word == HALF:
            found.append((HALF, frozenset[str]()))
            continue
        key, equals, text = word.partition("=")
        if key not in _KEYS:
            raise unknown("key", key, (*_KEYS, HALF), where=f"--hold-out {word}")
        values = [value.strip() for value in text.split(",")]
        if not equals or not all(values):
            raise UsageError(
                f"{word!r}",
                where="--hold-out",
                expected=f"{key}=VALUE, several with commas between",
            )
        found.append((key, frozenset(_NAMED.get(key, str)(value) for value in values)))
    return tuple(found)


def held(points: Sequence[MeasuredPoint], conditions: Sequence[Condition]) -> list[bool]:
    """Of each of ``points`` whether it meets all of ``conditions``; none does without any."""
    if not conditions:
        return [False] * len(points)
    half = _every_second_size(points)
    return [
        all(
            _place(p) in half if key == HALF else _value(p, key) in values
            for key, values in conditions
        )
        for p in points
    ]


def _every_second_size(points: Sequence[MeasuredPoint]) -> set[tuple[object, ...]]:
    curves: dict[tuple[object, ...], set[int]] = {}
    for point in points:
        curves.setdefault(_place(point)[:-1], set()).add(point.size_bytes)
    return {(*curve, size) for curve, sizes in curves.items() for size in sorted(sizes)[1::2]}


def _place(point: MeasuredPoint) -> tuple[object, ...]:
    """The curve that a point stands on, and where."""
    nodes = point.n_nodes or 1
    return point.collective, point.dtype, point.n_ranks, nodes, point.size_bytes


def _value(point: MeasuredPoint, key: str) -> str:
    text = _KEYS[key](point)
    return _NAMED[key](text) if key in _NAMED and text else text


def check_held(points: Sequence[MeasuredPoint], conditions: Sequence[Condition]) -> None:
    """Raise UsageError where ``conditions`` keep no row, or all."""
    count = sum(held(points, conditions))
    if 0 < count < len(points):
        return
    key, _ = conditions[0]
    if key == HALF:
        raise UsageError(
            f"holds {count} of {len(points)} rows", where=f"--hold-out {HALF}",
            expected="rows of two or more sizes",
        )  # fmt: skip
    known = sorted({_value(p, key) for p in points})
    more = ", …" if len(known) > _SHOWN else ""
    raise UsageError(
        "holds no row" if count == 0 else "holds every row",
        where="--hold-out " + " ".join(f"{k}={','.join(sorted(v))}" for k, v in conditions),
        expected=f"some of {key}={', '.join(known[:_SHOWN])}{more}",
    )


@dataclass(frozen=True, slots=True)
class Errors:
    """|predicted / measured - 1| in percent of ``n`` rows: mean, median, 90th percentile (interpolated)."""

    n: int
    mape_pct: float
    median_pct: float
    p90_pct: float


@dataclass(frozen=True, slots=True)
class HeldScore:
    """Rows of one collective, one size band, or all. ``calibrated`` is ours, ``by_class`` without the
    calibration; ``coverage_pct``: rows in their interval. None where a model has nothing to say.
    """

    group: str
    n: int
    unpredicted: int
    calibrated: Errors | None
    coverage_pct: float | None
    by_class: Errors | None
    alpha_beta: Errors | None
    library: Errors | None


def held_scores(
    scored: Sequence[ScoredPoint],
    plain: Sequence[ScoredPoint],
    alpha_beta: dict[str, AlphaBeta],
    issues: Sequence[Issue],
) -> tuple[HeldScore, ...]:
    """Of all rows, by how calls were issued where that differs, by collective and by size band. ``plain``
    are the same rows by the class's constants.
    """
    rows = list(zip(scored, plain, strict=True))
    groups = {"all rows": rows}
    if len(set(issues)) > 1:
        for issue in sorted(set(issues)):
            mine = (r for r, i in zip(rows, issues, strict=True) if i == issue)
            groups[f"timing {issue}"] = list(mine)
    for name in sorted({s.point.collective for s in scored}):
        groups[name] = [r for r in rows if r[0].point.collective == name]
    for band in BANDS:
        groups[band] = [r for r in rows if size_band(r[0].point.size_bytes) == band]
    return tuple(_score(name, found, alpha_beta) for name, found in groups.items() if found)


def _score(
    group: str, rows: Sequence[tuple[ScoredPoint, ScoredPoint]], alpha_beta: dict[str, AlphaBeta]
) -> HeldScore:
    ours = [s for s, _ in rows]
    inside = [s.in_interval for s in ours if s.in_interval is not None]
    return HeldScore(
        group=group,
        n=len(rows),
        unpredicted=sum(s.predicted_us is None for s in ours),
        calibrated=_errors([s.error for s in ours]),
        coverage_pct=100 * fmean(inside) if inside else None,
        by_class=_errors([p.error for _, p in rows]),
        alpha_beta=_errors([_alpha_beta_error(s.point, alpha_beta) for s in ours]),
        library=_errors([s.library_error for s in ours]),
    )


def _alpha_beta_error(point: MeasuredPoint, models: dict[str, AlphaBeta]) -> float | None:
    model = models.get(point.collective)
    if model is None:
        return None
    return model.time_us(point.collective, point.n_ranks, point.size_bytes) / point.time_us - 1


def _errors(errors: Sequence[float | None]) -> Errors | None:
    sizes = sorted(100 * abs(e) for e in errors if e is not None)
    if not sizes:
        return None
    return Errors(len(sizes), fmean(sizes), percentile(sizes, 0.5), percentile(sizes, 0.9))
