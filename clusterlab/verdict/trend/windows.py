"""Medians over some runs of a series, as the points that ``against`` compares. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from clusterlab.verdict.against.pairing import Pair
from clusterlab.verdict.against.side import Timed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from clusterlab.verdict.trend.model import Numbers, Places, Series

_NORMAL_MAD = 1.4826
_OF_MEDIAN = 1.2533  # its standard error over the mean's
_Z95 = 1.96
_STATES = 3
"""Runs from which on the spread between them gives their median an interval."""


def pair_of(series: Series, before: Places, after: Places) -> Pair | None:
    """The medians of a series over some runs before and after; None where it has none of either."""
    first, second = median_of(series, before), median_of(series, after)
    return None if first is None or second is None else Pair(first, second, series.loops)


def median_of(series: Series, places: Places) -> Timed | None:
    """One point for the runs ``places``: those of them that were steady, or all where none was. From three
    runs on it states a 95 % interval, by their spread.
    """
    import numpy as np

    own = in_places(series, places)
    own = own[np.isfinite(series.times_us[own])]
    if not len(own):
        return None
    steady = own[series.steady[own]]
    logs = np.log(series.times_us[steady if len(steady) else own])
    middle = float(np.median(logs))
    half = math.inf
    if len(logs) >= _STATES:
        spread = _NORMAL_MAD * float(np.median(np.abs(logs - middle)))
        half = _Z95 * _OF_MEDIAN * spread / math.sqrt(len(logs))
    return at_time(series, math.exp(middle), half=half, steady=2 * len(steady) >= len(own))


def in_places(series: Series, places: Places) -> Places:
    """Where in the series the runs ``places`` (ascending) are."""
    import numpy as np

    if not len(places):
        return np.zeros(0, dtype=np.int64)
    low, high = np.searchsorted(series.at, [places[0], places[-1] + 1])
    return np.asarray(low + np.flatnonzero(np.isin(series.at[low:high], places)))


def at_time(
    series: Series, time_us: float, *, half: float = math.inf, steady: bool = True
) -> Timed:
    """The series' point with this time, known to a factor of exp(``half``)."""
    known = math.isfinite(half)
    return replace(
        series.point,
        loop_us=time_us,
        p50_us=None if series.loops else time_us,
        low_us=time_us * math.exp(-half) if known else None,
        high_us=time_us * math.exp(half) if known else None,
        steady=steady,
    )


def paces_of(members: Sequence[Series]) -> tuple[Places, Numbers]:
    """The runs that measured some of ``members``, and by how much each run was slower in all of them: the
    median over points of the log ratio to that point's own median. A run of which most points were unsteady
    says nothing.
    """
    import numpy as np

    runs = np.unique(np.concatenate([one.at for one in members]))
    logs = np.full((len(members), len(runs)), np.nan)
    steady = np.zeros((len(members), len(runs)), dtype=bool)
    for i, one in enumerate(members):
        columns = np.searchsorted(runs, one.at)
        logs[i, columns] = np.log(one.times_us)
        steady[i, columns] = one.steady
    measured = np.isfinite(logs)
    fit = 2 * (measured & steady).sum(axis=0) >= np.maximum(1, measured.sum(axis=0))
    logs[~steady] = np.nan
    logs -= medians(logs, 1)[:, None]
    paces = medians(logs, 0)
    kept = fit & np.isfinite(paces)
    return runs[kept], paces[kept]


def medians(values: NDArray[np.float64], axis: int) -> Numbers:
    """Medians of what is no NaN; NaN where nothing is. (numpy's nanmedian goes row by row.)"""
    import numpy as np

    ordered = np.sort(values, axis=axis)  # NaN stands last
    count = np.isfinite(values).sum(axis=axis, keepdims=True)
    low = np.take_along_axis(ordered, np.maximum(count - 1, 0) // 2, axis)
    high = np.take_along_axis(ordered, np.minimum(count // 2, values.shape[axis] - 1), axis)
    middle = np.where(count > 0, (low + high) / 2, np.nan)
    return np.asarray(np.squeeze(middle, axis=axis))
