"""Values of other tools' JSON: what has not the type or range it should have is None."""

from __future__ import annotations

import math
from typing import Any


def whole(value: Any) -> int | None:
    """A whole number from 0 to below 2^63."""
    ok = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63
    return value if ok else None


def number(value: Any) -> float | None:
    """A finite number, 0 or more."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) > 1e300:
        return None
    return float(value) if math.isfinite(value) and value >= 0 else None


def figure(value: Any) -> float | None:
    """A figure as it stands: below 0 and no number at all (NaN, or the text ``nan``) happen."""
    if value in ("nan", "inf", "-nan", "-inf"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, int) and abs(value) >= 1 << 1000:
        return math.inf if value > 0 else -math.inf
    return float(value)
