"""JSON that every reader takes: the one way in which commands and pages write it."""

from __future__ import annotations

import json
import math
from typing import Any


def json_text(
    data: Any, *, indent: int | None = None, separators: tuple[str, str] | None = None
) -> str:
    """``data`` as JSON (RFC 8259), which knows no NaN and no infinity: null stands for them."""
    try:
        return json.dumps(data, allow_nan=False, indent=indent, separators=separators)
    except ValueError:
        return json.dumps(finite(data), allow_nan=False, indent=indent, separators=separators)


def finite(data: Any) -> Any:
    """``data`` with None for every number that is not finite."""
    if isinstance(data, dict):
        return {
            "null" if isinstance(key, float) and not math.isfinite(key) else key: finite(value)
            for key, value in data.items()
        }
    if isinstance(data, (list, tuple)):
        return [finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data
