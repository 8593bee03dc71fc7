"""Figures of a line that are amounts: none is below nothing, or not finite."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from clusterlab.core.errors import UsageError

_ROUNDING = -1e-3
"""A difference of times that is nothing may come out this far below it (µs)."""


def check_amounts(fields: Mapping[str, Any], *, where: str) -> None:
    """Raise UsageError naming the first figure of ``fields``, or inside them, that is no amount. ``loss`` may
    be any finite number.
    """
    for name, value in fields.items():
        _check(name, value, where)


def _check(name: str, value: Any, where: str) -> None:
    if isinstance(value, Mapping):
        for inner, one in value.items():
            _check(f"{name}: {inner}", one, where)
    elif isinstance(value, (list, tuple)):
        for one in value:
            _check(name, one, where)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        least = -math.inf if name == "loss" else _ROUNDING if isinstance(value, float) else 0
        if not (math.isfinite(value) and value >= least):
            expected = "a finite number" if name == "loss" else "0 or more"
            raise UsageError(f"{value!r:.60}", where=f"{where}: {name}", expected=expected)
