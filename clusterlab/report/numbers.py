"""How numbers are written for people: three significant digits, a dash for what is not known."""

from __future__ import annotations

import math

NOT_KNOWN = "–"


def three_digits(value: float | None) -> str:
    """``value`` with three significant digits and no exponent: 0.00123, 12.3, 1,230."""
    if value is None or math.isnan(value):
        return NOT_KNOWN
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if value == 0:
        return "0"
    exponent = int(f"{value:.2e}".partition("e")[2])  # after rounding: 0.9996 is 1.00
    return f"{round(value, 2 - exponent):,.{max(0, min(2 - exponent, 12))}f}"


def percent(value: float | None, *, signed: bool = False) -> str:
    """A share as a percentage: 0.083 -> ``8.3 %``; from 100 % up without decimals."""
    if value is None or not math.isfinite(value):
        return NOT_KNOWN
    decimals = 0 if abs(value) >= 0.995 else 1
    return f"{value * 100:{'+' if signed else ''},.{decimals}f} %"


def ratio(value: float | None) -> str:
    """Measured over predicted: ``0.97``."""
    return NOT_KNOWN if value is None or not math.isfinite(value) else f"{value:.2f}"
