"""How far runs differ by themselves, from the runs of a window: as a baseline of them has it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clusterlab.verdict.against.noise import Noise
from clusterlab.verdict.against.side import Side, Timed
from clusterlab.verdict.baseline.make import middle_of, noise_between
from clusterlab.verdict.trend.model import Part, Series
from clusterlab.verdict.trend.windows import at_time, in_places

_MOST = 8
"""Series of a cell that the noise is taken from."""


def noise_before(
    series: Sequence[Series],
    parts: Sequence[tuple[Part, int, int]],
    *,
    backend: str | None,
    one_machine: bool | None,
) -> Mapping[str, Noise]:
    """Of the places ``low`` to ``high`` (without) of each part's runs, proven steps taken out."""
    import numpy as np

    points: dict[int, list[Timed]] = {}
    for part, low, high in parts:
        levels = part.levels()
        for i in part.members[:: -(-len(part.members) // _MOST)]:
            own = series[i]
            chosen = in_places(own, part.runs[low:high])
            chosen = chosen[np.isfinite(own.times_us[chosen]) & own.steady[chosen]]
            level = levels[np.searchsorted(part.runs, own.at[chosen])]
            times_us = own.times_us[chosen] * np.exp(-level)
            for run, time_us in zip(own.at[chosen].tolist(), times_us.tolist(), strict=True):
                points.setdefault(run, []).append(at_time(own, time_us))
    sides = [
        Side(str(run), tuple(own), backend=backend, machine=_machine(run, one_machine))
        for run, own in sorted(points.items())
    ] or [Side("none", (), backend=backend, machine=_machine(0, one_machine))]
    held: dict[tuple[object, ...], list[Timed]] = {}
    for side in sides:
        for point in side.points:
            held.setdefault(point.key, []).append(point)
    return noise_between(sides, {key: middle_of(own) for key, own in held.items()})


def _machine(run: int, one_machine: bool | None) -> tuple[str, ...] | None:
    """Names that are alike where the machines are; what they are called is not looked at."""
    return None if one_machine is None else ("one",) if one_machine else (str(run),)
