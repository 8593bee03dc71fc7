"""Plain data checked against a dataclass: exactly its fields, values of the annotated types."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from typing import Any

from clusterlab.core.errors import UsageError
from clusterlab.core.suggest import reject_unknown_keys, unknown

_JSON_NAMES = {
    types.NoneType: "null",
    str: "a string",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    dict: "a mapping",
    list: "a list",
}

SMALLEST, LARGEST = -(1 << 63), (1 << 63) - 1
"""Of whole numbers: those of int64."""


@cache
def json_types(kind: type) -> dict[str, tuple[type, ...]]:
    """Field name to the types its value has after ``json.loads``, from ``kind``'s annotations.

    Mappings and dataclasses arrive as dict, tuples as list.
    """
    found: dict[str, tuple[type, ...]] = {}
    for name, hint in typing.get_type_hints(kind).items():
        parts = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
        found[name] = tuple(_json_type(part) for part in parts)
    return found


def _json_type(hint: Any) -> type:
    plain = typing.get_origin(hint) or hint
    if plain is tuple:
        return list
    if plain in _JSON_NAMES or (isinstance(plain, type) and issubclass(plain, StrEnum)):
        return typing.cast("type", plain)
    return dict  # Mapping[…] or another dataclass


def check_value(name: str, value: Any, allowed: tuple[type, ...], *, where: str) -> Any:
    """``value`` when its type is allowed; a whole number where a float is, a word of an enum where one
    is. Raises UsageError.
    """
    if type(value) in allowed:
        if type(value) is int and not SMALLEST <= value <= LARGEST:
            raise too_large(name, value, where=where)
        return value
    for kind in allowed:
        if issubclass(kind, StrEnum):
            if value not in list(kind):
                raise unknown(name, str(value), [word.value for word in kind], where=where)
            return kind(value)
    if float in allowed and type(value) is int:
        if not SMALLEST <= value <= LARGEST:
            raise too_large(name, value, where=where)
        return float(value)
    expected = " or ".join(_JSON_NAMES[kind] for kind in allowed)
    raise UsageError(f"{value!r:.60}", where=f"{where}: {name}", expected=expected)


def too_large(name: str, value: int, *, where: str) -> UsageError:
    """Of a whole number that 64 bits do not hold: JSON has them of any length."""
    return UsageError(
        f"{value!r:.60}", where=f"{where}: {name}", expected="a number of at most 64 bits"
    )


def checked(data: Any, kind: type, *, where: str) -> dict[str, Any]:
    """``data`` as keyword arguments for ``kind``, its ``schema_version`` left out. Raises UsageError."""
    if not isinstance(data, Mapping):
        raise UsageError("not a mapping", where=where)
    fields = {name: value for name, value in data.items() if name != "schema_version"}
    known = json_types(kind)
    reject_unknown_keys(fields, known, where=where)
    missing = [name for name in known if name not in fields]
    if missing:
        raise UsageError(f"lacks {', '.join(missing)}", where=where)
    return {
        name: check_value(name, value, known[name], where=where) for name, value in fields.items()
    }
