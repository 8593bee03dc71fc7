"""Where a curve is looked at: its floor, its middle, its plateau, and a hump between them. Pure.

Each is one figure: log of measured over expected time, the median of the rows concerned, so that single rows
accuse nobody.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from clusterlab.verdict.why.likelihood import Array

FLOOR_BELOW = 64 << 10
PLATEAU_FROM = 64 << 20
_LEAST_PLATEAU = 1 << 20
_LEAST_SIZES = 5
BANDS = ("floor", "middle", "plateau", "hump")


def bands_of(sizes: Array, ratio: Array) -> dict[str, float]:
    """Log of measured over expected by band; a band without rows is not there.

    ``plateau`` are the two largest sizes (three where each has one row), from 1 MiB on. ``middle`` counts
    from the floor on, where that is slow: one and the same delay is not two. ``hump`` is by how much two
    neighbouring sizes are slower than both the floor and the plateau.
    """
    distinct = np.unique(sizes)
    few = len(sizes) < 2 * len(distinct)  # of three single rows the median is none that is far off
    largest = (sizes >= distinct[-3 if few else -2 :][0]) & (sizes >= _LEAST_PLATEAU)
    where = {
        "floor": (sizes < FLOOR_BELOW) & ~largest,
        "middle": (sizes >= FLOOR_BELOW) & (sizes < PLATEAU_FROM) & ~largest,
        "plateau": largest,
    }
    found = {name: float(np.median(ratio[mask])) for name, mask in where.items() if mask.any()}
    if "middle" in found:
        found["middle"] -= max(0.0, found.get("floor", 0.0))
    ends = [found[name] for name in ("floor", "plateau") if name in found]
    if len(distinct) >= _LEAST_SIZES and ends:
        found["hump"] = _hump(sizes, ratio, distinct) - max(ends)
    return found


def _hump(sizes: Array, ratio: Array, distinct: Array) -> float:
    """The slowest two neighbouring sizes, by the fastest row of each; neither the first nor the last."""
    least = [float(np.min(ratio[sizes == size])) for size in distinct]
    return max(min(a, b) for a, b in pairwise(least[1:-1]))
