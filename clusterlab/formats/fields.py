"""Reading one field of a strict YAML document: each reader checks it and names file, line and field."""

from __future__ import annotations

import math
from typing import Any

from clusterlab.core.errors import UsageError
from clusterlab.core.suggest import reject_unknown_keys
from clusterlab.formats.strict_yaml import Document, Path


def at(document: Document, path: Path) -> Any:
    """What stands at ``path``; None where nothing does."""
    value = document.data
    for part in path:
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
        else:
            return None
    return value


def mapping(
    document: Document, path: Path, keys: tuple[str, ...] | None, *, optional: bool = False
) -> dict[str, Any]:
    """A mapping with only ``keys`` (None: any). Absent and ``optional``: empty."""
    value = at(document, path)
    if value is None and optional:
        return {}
    if not isinstance(value, dict):
        raise UsageError(
            f"{short(value)} is not a mapping",
            where=document.where(*path),
            expected="keys " + ", ".join(keys) if keys else "names and their entries",
        )
    if keys is not None:
        for key in value:
            reject_unknown_keys([key], keys, where=document.where(*path, key))
    return value


def sequence(document: Document, path: Path) -> list[Any]:
    """A list; absent: empty."""
    value = at(document, path)
    if value is None:
        return []
    if not isinstance(value, list):
        raise UsageError(
            f"{short(value)} is not a list", where=document.where(*path), expected="a list"
        )
    return value


def text(
    document: Document, path: Path, *, default: str | None = None, may_be_empty: bool = False
) -> str:
    """Text, not empty unless that is allowed."""
    value = at(document, path)
    if value is None and default is not None:
        return default
    if not isinstance(value, str) or not (value or may_be_empty):
        raise UsageError(
            f"{short(value)} is not text", where=document.where(*path), expected="text"
        )
    return value


def whole(document: Document, path: Path, *, default: int | None = None) -> int:
    """A whole number of at least 1."""
    value = at(document, path)
    if value is None and default is not None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(
            short(value), where=document.where(*path), expected="a whole number, at least 1"
        )
    return value


def flag(document: Document, path: Path) -> bool:
    """true or false; absent: false."""
    value = at(document, path)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise UsageError(short(value), where=document.where(*path), expected="true or false")
    return value


def number(
    document: Document,
    path: Path,
    *,
    default: float | None = None,
    required: bool = False,
) -> float | None:
    """A finite number; None for the word ``unknown``; ``default`` when absent."""
    value = at(document, path)
    if value == "unknown":
        return None
    if value is None and not required:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(
            f"{short(value)} is not a number",
            where=document.where(*path),
            expected="a number, or unknown",
        )
    try:
        finite = math.isfinite(value)
    except OverflowError:  # an integer of hundreds of digits
        finite = False
    if not finite:
        raise UsageError(
            f"{short(value)} is not finite",
            where=document.where(*path),
            expected="a number, or unknown",
        )
    return float(value)


def short(value: Any) -> str:
    """How an error shows a value."""
    return "nothing" if value is None else repr(value)[:60]
