"""How far the predictions that a run's rows keep were from what was then measured. Pure.

They were made before the points were measured (each row has both), so nothing here predicts again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from clusterlab.core.rows import Row
from clusterlab.cost.bands import BANDS, percentile, size_band
from clusterlab.verdict.run_verdict import signed_error


@dataclass(frozen=True, slots=True)
class Accuracy:
    """|predicted / measured - 1| of ``points`` in percent: mean, median, 90th percentile (interpolated).

    ``in_interval_pct``: of ``with_interval`` points those that lie in theirs, ``nominal_pct`` what the
    intervals say of it. ``library_mape_pct`` is of the times that the library itself expected, of
    ``library_points``. None where nothing of the kind was kept.
    """

    group: str
    points: int
    mape_pct: float
    median_pct: float
    p90_pct: float
    with_interval: int
    in_interval_pct: float | None
    nominal_pct: float | None
    library_points: int
    library_mape_pct: float | None


def accuracy(rows: Iterable[Row]) -> tuple[Accuracy, ...]:
    """Of all ``rows`` with a prediction, then by timing, collective and size band; empty without any. A row
    with something beside it has the prediction of being alone, and is left out.
    """
    alone = (row for row in rows if row.beside is None)
    kept = [(row, e) for row in alone if (e := signed_error(row)) is not None]
    groups = [("all points", kept)]
    keys: tuple[Callable[[Row], str], ...] = (
        lambda row: f"timing {row.timing}",
        lambda row: row.collective,
    )
    for key in keys:
        names = dict.fromkeys(key(row) for row, _ in kept)
        if len(names) > 1:
            groups += [(name, [one for one in kept if key(one[0]) == name]) for name in names]
    for band in BANDS:
        groups.append((band, [one for one in kept if size_band(one[0].size_bytes) == band]))
    return tuple(_accuracy(name, found) for name, found in groups if found)


def _accuracy(group: str, kept: Sequence[tuple[Row, float]]) -> Accuracy:
    sizes = sorted(100 * abs(error) for _, error in kept)
    rows = [row for row, _ in kept]
    inside = [held for row in rows if (held := _in_interval(row)) is not None]
    nominal = [
        row.predicted_coverage
        for row in rows
        if _in_interval(row) is not None and row.predicted_coverage is not None
    ]
    library = [e for row in rows if (e := _library_error(row)) is not None]
    return Accuracy(
        group=group,
        points=len(rows),
        mape_pct=fmean(sizes),
        median_pct=percentile(sizes, 0.5),
        p90_pct=percentile(sizes, 0.9),
        with_interval=len(inside),
        in_interval_pct=100 * fmean(inside) if inside else None,
        nominal_pct=100 * fmean(nominal) if nominal else None,
        library_points=len(library),
        library_mape_pct=100 * fmean(library) if library else None,
    )


def _in_interval(row: Row) -> bool | None:
    if row.predicted_low_us is None or row.predicted_high_us is None:
        return None
    return row.predicted_low_us <= row.time_us_loop <= row.predicted_high_us


def _library_error(row: Row) -> float | None:
    if row.library_time_us is None or not math.isfinite(row.library_time_us):
        return None
    return abs(row.library_time_us / row.time_us_loop - 1)
