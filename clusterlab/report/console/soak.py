"""What a soak's passes say, as lines."""

from __future__ import annotations

import math
from collections.abc import Sequence

from clusterlab.report.numbers import percent, three_digits
from clusterlab.verdict.drift import LEAST_PASSES
from clusterlab.verdict.soak import Soaked, soak_word

_LEAST_HOURS = 0.25


def soak_lines(points: Sequence[Soaked]) -> list[str]:
    """A few lines for each point, a blank one before it."""
    return [line for point in points for line in ("", *_lines(point))]


def _lines(point: Soaked) -> list[str]:
    drift = point.drift
    lines = [
        f"Soak of {point.name}: {drift.passes} pass{'' if drift.passes == 1 else 'es'} in "
        f"{_hours(drift.hours)}, median {three_digits(drift.median_us)} us, cv {percent(drift.cv)}",
        f"  {soak_word(drift.verdict)}: {drift.reason}",
    ]
    # Of minutes, a drift per hour is a guess: the reason has it over the run.
    if drift.hours >= _LEAST_HOURS and math.isfinite(drift.per_hour_low):
        lines.append(
            f"  drift {percent(drift.per_hour, signed=True)} per hour "
            f"({percent(drift.per_hour_low, signed=True)} to "
            f"{percent(drift.per_hour_high, signed=True)})"
        )
    if drift.passes >= LEAST_PASSES:
        lines.append(
            f"  slow passes (over 5 MAD) {percent(drift.slow_share)}; worst window "
            f"{_hours(drift.worst.start_s / 3600)} to {_hours(drift.worst.end_s / 3600)}, "
            f"{drift.worst.ratio:.2f} x the median"
        )
    if point.wrong:
        lines.append(f"  wrong data: {point.wrong} elements; the soak ended there")
    for what, rho in (("temperature", point.with_temperature), ("clock", point.with_clock)):
        if rho is not None:
            lines.append(f"  rank correlation with the GPUs' {what} {rho:+.2f}")
    if point.throttled:
        lines.append(f"  GPUs were held back: {', '.join(point.throttled)}")
    return lines


def _hours(hours: float) -> str:
    seconds = hours * 3600
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{hours:.3g} h"
