"""How far runs differ by themselves, and where that is known from. Pure.

The difference of two runs at a point is a change, plus what all points of one collective and size band
share (``between``, a run's own pace), plus what the point has alone (``alone``), plus what its iterations
leave unknown. The first two are standard deviations of log(time ratio) of two runs.

Defaults are measured (``tests/benchmarks/between_runs.csv``: five sweeps in graph mode on two H200 within a
quarter of an hour; by band the root mean square of the change of a collective's median over pairs of them):
2.9 % below 64 KiB, 0.9 % up to 16 MiB, 0.6 % above. Published tables of one class of machine, other hosts
and sites, differ by a median of 6.8 % over all sizes and 1.0 % at the plateau: 10 % and 1.5 % as deviations.
Over gloo, six sweeps of all_reduce on one idle host differ by 2.0 and 2.4 % (docs/decisions/017): 2.5 %.
In those sweeps bands moved by 1.3 to 2.9 times what their points scatter by around their own median; where
points scatter so much that 1.5 times that is more than the default, it is the measure. Repeated runs, where
given, say it themselves.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clusterlab.core.sizes import human_size

SMALL_BELOW, LARGE_FROM = 64 << 10, 16 << 20
BANDS = ("small", "mid", "large")
SAME_MACHINE = {"small": 0.029, "mid": 0.009, "large": 0.006}
OVER_GLOO = dict.fromkeys(BANDS, 0.025)
OTHER_MACHINE = {"small": 0.10, "mid": 0.10, "large": 0.015}
_WEIGHT = 4
"""Bands of earlier experience that a default counts as, beside what repeats say."""
_ENOUGH = 6
"""Residuals from which their scatter is a measure."""
_NORMAL = 1.4826  # of the median absolute deviation
_OF_SCATTER = 1.5


@dataclass(frozen=True, slots=True)
class Noise:
    """Of one band: standard deviations of log(time ratio), and where they are from."""

    between: float
    alone: float
    source: str


def band(size_bytes: int) -> str:
    """``small`` below 64 KiB, ``large`` from 16 MiB on, ``mid`` between."""
    if size_bytes < SMALL_BELOW:
        return "small"
    return "mid" if size_bytes < LARGE_FROM else "large"


def band_words(name: str) -> str:
    """The sizes of a band."""
    low, high = human_size(SMALL_BELOW), human_size(LARGE_FROM)
    return {"small": f"below {low}", "mid": f"{low} to {high}", "large": f"{high} and above"}[name]


def noise_of(
    cells: Sequence[Sequence[float]],
    repeats: Sequence[float],
    default: float,
    source: str,
    stated: float | None = None,
) -> Noise:
    """The noise of one band. ``cells``: the differences (log ratios) of each collective's points,
    ``repeats``: what each collective's median changed by between runs that were to be the same.

    ``stated``: what the user says instead.
    """
    residuals = [
        difference - statistics.median(cell)
        for cell in cells
        if len(cell) > 2
        for difference in cell
    ]
    # A median is closer to its own points than the truth is: n - 1 of n residuals are free.
    free = sum(len(cell) - 1 for cell in cells if len(cell) > 2) / max(1, len(residuals))
    scatter = None
    if len(residuals) >= _ENOUGH:
        scatter = _NORMAL * statistics.median(map(abs, residuals)) / math.sqrt(free)
    alone = default if scatter is None else scatter
    if stated is not None:
        return Noise(stated, alone, f"{stated:.1%}, as stated")
    if repeats:
        squares = _WEIGHT * default**2 + math.fsum(change**2 for change in repeats)
        between = math.sqrt(squares / (_WEIGHT + len(repeats)))
        return Noise(
            between, alone, f"{between:.1%}: {len(repeats)} medians of repeated runs, and {source}"
        )
    if scatter is not None and _OF_SCATTER * scatter > default:
        between = _OF_SCATTER * scatter
        said = f"{between:.1%}: {_OF_SCATTER} times the scatter of this band's own points"
        return Noise(between, alone, said)
    return Noise(default, alone, f"{default:.1%}: {source}")


def default_noise(
    same_machine: bool | None, backend: str | None = None
) -> tuple[Mapping[str, float], str]:
    """The deviations by band and their source. None: not known whether it is the same machine."""
    if same_machine is False:
        return OTHER_MACHINE, "published tables of one class of machine on other hosts"
    if backend == "gloo":
        return OVER_GLOO, "repeated sweeps over gloo on one idle host"
    known = "repeated sweeps on one machine with two H200"
    return SAME_MACHINE, known if same_machine else f"{known}; that it is one machine is assumed"
