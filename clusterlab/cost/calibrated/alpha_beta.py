"""The usual two figures, to compare with: of each collective t = a + c × steps(n) + S × busbw factor(n) / B.

a + c × steps is the latency, whose steps are a ring's; the busbw factor is nccl-tests'. So both have a value
at numbers of ranks that were not measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clusterlab.core.collectives import busbw_factor
from clusterlab.cost.calibrated.points import FitPoint

_FEWEST = 3


@dataclass(frozen=True, slots=True)
class AlphaBeta:
    """µs, µs a step, GB/s."""

    alpha_us: float
    step_us: float
    busbw_GBps: float

    def time_us(self, collective: str, ranks: int, size_bytes: float) -> float:
        """µs of one call."""
        wire_us = size_bytes * busbw_factor(collective, ranks) / (self.busbw_GBps * 1e3)
        return self.alpha_us + self.step_us * _steps(collective, ranks) + wire_us


def _steps(collective: str, ranks: int) -> int:
    return (ranks - 1) * (2 if collective == "all_reduce" else 1)


def fit_alpha_beta(points: Sequence[FitPoint]) -> dict[str, AlphaBeta]:
    """Of each collective with three points or more: robust, on log residuals."""
    names = sorted({p.collective for p in points})
    groups = {n: [p for p in points if p.collective == n] for n in names}
    return {n: _fitted(n, group) for n, group in groups.items() if len(group) >= _FEWEST}


def _fitted(collective: str, points: Sequence[FitPoint]) -> AlphaBeta:
    import numpy as np
    from scipy.optimize import least_squares

    logs = np.log([p.time_us for p in points])
    steps = np.array([_steps(collective, p.ranks) for p in points], float)
    moved = np.array([p.size_bytes * busbw_factor(collective, p.ranks) for p in points])
    largest = max(points, key=lambda p: p.size_bytes)
    rate = largest.size_bytes * busbw_factor(collective, largest.ranks) / largest.time_us
    least = min(p.time_us for p in points)
    first = np.log([least, 0.01 * least, max(rate, 1e-9)])

    def residuals(x: np.ndarray) -> np.ndarray:
        alpha, step, bytes_per_us = np.exp(x)
        return np.asarray(np.log(alpha + step * steps + moved / bytes_per_us) - logs)

    found = least_squares(
        residuals, first, bounds=(first - 25, first + 5), loss="soft_l1", f_scale=0.1
    )
    alpha, step, bytes_per_us = np.exp(found.x)
    return AlphaBeta(float(alpha), float(step), float(bytes_per_us) / 1e3)


def alpha_beta_us(models: Mapping[str, AlphaBeta], point: FitPoint) -> float | None:
    """µs of ``point``; None for a collective that was not fitted."""
    model = models.get(point.collective)
    return None if model is None else model.time_us(point.collective, point.ranks, point.size_bytes)
