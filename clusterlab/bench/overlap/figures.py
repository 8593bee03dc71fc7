"""From the rounds of a pair to its figures: medians, their intervals, and what follows from them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clusterlab.core.overlap import Figure

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Times = NDArray[np.float64]

RESAMPLES = 2000
_SEED = 1


@dataclass(frozen=True, slots=True)
class Round:
    """One round's times (µs a call): each alone, both together, and each one's own time in that."""

    alone: float
    other_alone: float
    both: float
    beside: float
    other_beside: float


def figures(rounds: Sequence[Round]) -> dict[str, Figure]:
    """All of an Overlap's figures from at least one round.

    Intervals are 95 % percentile bootstrap intervals over whole rounds: what was measured in one round
    stays together, so what slows a whole round down (a clock, a neighbour) cancels in ratios.
    """
    import numpy as np

    # Columns: alone, other alone, both, beside, other beside.
    table = np.array(
        [[r.alone, r.other_alone, r.both, r.beside, r.other_beside] for r in rounds],
        dtype=np.float64,
    )
    picks = np.random.default_rng(_SEED).integers(0, len(table), (RESAMPLES, len(table)))
    medians = np.median(table, axis=0)
    resampled = np.median(table[picks], axis=1)
    return {
        name: _figure(formula(medians), formula(resampled.T)) for name, formula in FORMULAS.items()
    }


def _figure(value: Any, resampled: Times) -> Figure:
    import numpy as np

    low, high = np.quantile(resampled, (0.025, 0.975))
    return Figure(float(value), float(min(low, value)), float(max(high, value)))


def _slowdown(alone: Times, beside: Times) -> Times:
    import numpy as np

    # One rank alone may have nothing to do: no time is not slowed down.
    ratio: Times = np.where(alone > 0, beside / np.where(alone > 0, alone, 1), 1.0)
    return ratio


def efficiency(alone: Times, other_alone: Times, both: Times) -> Times:
    """(alone + other alone - both) / the shorter of the two; 0 where that is no time at all."""
    import numpy as np

    shorter = np.minimum(alone, other_alone)
    hidden = alone + other_alone - both
    share: Times = np.where(shorter > 0, hidden / np.where(shorter > 0, shorter, 1), 0.0)
    return share


FORMULAS: dict[str, Callable[[Times], Times]] = {
    "alone_us": lambda t: t[0],
    "other_alone_us": lambda t: t[1],
    "both_us": lambda t: t[2],
    "beside_us": lambda t: t[3],
    "other_beside_us": lambda t: t[4],
    "slowdown": lambda t: _slowdown(t[0], t[3]),
    "other_slowdown": lambda t: _slowdown(t[1], t[4]),
    "efficiency": lambda t: efficiency(t[0], t[1], t[2]),
    "exposed_us": lambda t: t[2] - t[1],
}
"""Figure to its formula over the medians of alone, other alone, both, beside, other beside."""
