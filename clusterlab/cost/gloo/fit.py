"""Fit the constants of ``host.py`` to measured times. Pure.

Residuals are logarithmic (a factor of two counts the same everywhere) and robust (soft-L1), parameters
few, named and bounded. Residual statistics come from fits that leave one size out and meet it, so they
are errors on sizes that the constants had not seen.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterlab.core.errors import NoVerdictError
from clusterlab.cost.calibration import Residual
from clusterlab.cost.gloo.host import (
    PLAIN_REDUCTION,
    MiB,
    combine,
    effective_sent_MiB,
    message_constant,
    messages,
    reduction_constant,
)
from clusterlab.cost.gloo.schedule import gloo_schedule
from clusterlab.cost.types import Constant

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BOUNDS: dict[str, tuple[float, float, float]] = {
    "message_us": (0.1, 100.0, 1e6),
    "transport_us_per_MiB": (1.0, 200.0, 1e5),
    "copy_us_per_MiB": (0.1, 50.0, 1e5),
    "reduce_us_per_MiB": (0.1, 50.0, 1e6),
    "overlap": (1.0, 1.6, 4.0),
}
"""Least, first guess and most, by the part of a constant's name before the dot."""

UNITS = {
    "message_us": "µs",
    "transport_us_per_MiB": "µs/MiB",
    "copy_us_per_MiB": "µs/MiB",
    "reduce_us_per_MiB": "µs/MiB",
    "overlap": "1",
}

SOFT_L1_SCALE = 0.1
"""Residuals beyond 10 % weigh less and less: about the noise of one loop on a busy host."""

COVERAGE = 0.8
"""Share of points that an interval is meant to hold."""

LEAST_SPREAD = 1.3
"""No interval is narrower than a factor of this either way: between two calibrations of one quiet host
the cost of a message differs by up to a fifth, which a single calibration cannot see."""


@dataclass(frozen=True, slots=True)
class MeasuredTime:
    """One measured loop: nccl-tests' size, µs per call."""

    collective: str
    dtype: str
    op: str | None
    world_size: int
    size_bytes: int
    time_us: float


@dataclass(frozen=True, slots=True)
class _Terms:
    """One point reduced to the numbers the formula needs."""

    message: str
    messages: float
    sent_MiB: float
    copied_MiB: float
    reduction: str
    reduced_MiB: float


def fit_gloo(
    times: Sequence[MeasuredTime], *, cores: int, source: str
) -> tuple[tuple[Constant, ...], tuple[Residual, ...]]:
    """Constants for ``host`` and how well they meet sizes they were not fitted on.

    Raises NoVerdictError when there are too few points to say anything.
    """
    if len({t.size_bytes for t in times}) < 3:
        raise NoVerdictError(
            "too few sizes to calibrate from", expected="three or more, small and large"
        )
    values = _fit(times, cores)
    constants = [
        Constant(name, value, UNITS[name.split(".")[0]], source) for name, value in values.items()
    ]
    constants.append(Constant("cores", float(cores), "1", source))
    return tuple(constants), _residuals(times, cores)


def _terms(t: MeasuredTime, cores: int) -> _Terms:
    schedule = gloo_schedule(t.collective, t.world_size, t.size_bytes)
    return _Terms(
        message=message_constant(t.collective),
        messages=messages(schedule),
        sent_MiB=effective_sent_MiB(schedule, cores),
        copied_MiB=schedule.copied_bytes / MiB,
        reduction=reduction_constant(t.dtype, t.op),
        reduced_MiB=schedule.reduced_bytes / MiB,
    )


def _names(terms: Sequence[_Terms]) -> list[str]:
    names = dict.fromkeys(t.message for t in terms)
    names |= dict.fromkeys(["transport_us_per_MiB", "copy_us_per_MiB", PLAIN_REDUCTION])
    names |= dict.fromkeys(t.reduction for t in terms if t.reduced_MiB)
    return [*names, "overlap"]


def _time_us(values: dict[str, float], t: _Terms) -> float:
    work_us = (
        values["transport_us_per_MiB"] * t.sent_MiB
        + values["copy_us_per_MiB"] * t.copied_MiB
        # A reduction that no measured loop tells (one rank, a busy host) goes at the plain rate.
        + values.get(t.reduction, values[PLAIN_REDUCTION]) * t.reduced_MiB
    )
    return combine(values[t.message] * t.messages, work_us, values["overlap"])


def _fit(times: Sequence[MeasuredTime], cores: int) -> dict[str, float]:
    import numpy as np
    from scipy.optimize import least_squares

    terms = [_terms(t, cores) for t in times]
    names = _names(terms)
    limits = [BOUNDS[name.split(".")[0]] for name in names]
    measured = [math.log(t.time_us) for t in times]

    def residuals(logs: NDArray[np.float64]) -> NDArray[np.float64]:
        values = dict(zip(names, np.exp(logs).tolist(), strict=True))
        return np.array(
            [
                math.log(max(_time_us(values, t), 1e-9)) - m
                for t, m in zip(terms, measured, strict=True)
            ]
        )

    low, start, high = (np.log([limit[i] for limit in limits]) for i in range(3))
    found = least_squares(
        residuals, start, bounds=(low, high), loss="soft_l1", f_scale=SOFT_L1_SCALE
    )
    return dict(zip(names, np.exp(found.x).tolist(), strict=True))


def _residuals(times: Sequence[MeasuredTime], cores: int) -> tuple[Residual, ...]:
    """Leave each size out once, fit the rest, meet it."""
    ratios: dict[str, list[float]] = {}
    for size in sorted({t.size_bytes for t in times}):
        kept = [t for t in times if t.size_bytes != size]
        met = [t for t in times if t.size_bytes == size]
        values = _fit(kept, cores)
        for t in met:
            terms = _terms(t, cores)
            if terms.reduction in values and terms.message in values:
                ratios.setdefault(t.collective, []).append(t.time_us / _time_us(values, terms))
    return tuple(
        _residual(name, found, [t for t in times if t.collective == name])
        for name, found in ratios.items()
    )


def _residual(collective: str, ratios: Sequence[float], times: Sequence[MeasuredTime]) -> Residual:
    """``ratios``: measured over predicted."""
    errors = sorted(abs(1 / r - 1) * 100 for r in ratios)
    low, high = _span(ratios)
    return Residual(
        collective=collective,
        points=len(ratios),
        error_p50_pct=statistics.median(errors),
        error_p90_pct=errors[min(len(errors) - 1, math.ceil(0.9 * len(errors)) - 1)],
        noise_pct=noise_pct(times),
        low=low,
        high=high,
        coverage=COVERAGE,
    )


def _span(ratios: Sequence[float]) -> tuple[float, float]:
    """A factor around 1 that holds COVERAGE of the ratios, at least LEAST_SPREAD."""
    logs = sorted(abs(math.log(r)) for r in ratios)
    width = logs[min(len(logs) - 1, math.ceil(COVERAGE * len(logs)) - 1)]
    factor = max(LEAST_SPREAD, math.exp(width))
    return 1 / factor, factor


def noise_pct(times: Sequence[MeasuredTime]) -> float:
    """Median difference of a measurement from the median of its repetitions; 0 without repetitions."""
    repeated: dict[tuple[object, ...], list[float]] = {}
    for t in times:
        key = (t.collective, t.dtype, t.op, t.world_size, t.size_bytes)
        repeated.setdefault(key, []).append(t.time_us)
    away = [
        abs(u / statistics.median(us) - 1) * 100
        for us in repeated.values()
        if len(us) > 1
        for u in us
    ]
    return statistics.median(away) if away else 0.0
