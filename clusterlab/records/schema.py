"""One row as one line of records.jsonl, and back.

A line is strict JSON and carries its own ``schema_version``, so that lines stay readable when they are
cut out, concatenated, or written by two versions of clusterlab in one file. JSON has no NaN: a wrong
element may well be one, so floats that are not finite are the strings ``NaN``, ``Infinity``,
``-Infinity``.
"""

from __future__ import annotations

import json
import math
from typing import Any

from clusterlab.core.errors import UsageError
from clusterlab.core.rows import SCHEMA_VERSION, Row, row_from_json
from clusterlab.records.bounds import check_row
from clusterlab.records.files import check_schema
from clusterlab.records.strict import check_value, json_types

NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def row_to_line(row: Row) -> bytes:
    """The line for ``row``, newline included."""
    data = {"schema_version": SCHEMA_VERSION, **jsonable(row)}
    return json.dumps(data, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def jsonable(row: Row) -> dict[str, Any]:
    """``row`` as plain data that strict JSON can carry."""
    # Not dataclasses.asdict, which copies every value: a row is flat, and reports hold many.
    return {name: _encode(getattr(row, name)) for name in Row.__dataclass_fields__}


def _encode(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def row_from_data(data: Any, *, where: str) -> Row:
    """The row in the parsed line ``data``. Raises UsageError naming ``where`` and the field.

    An unknown key is an error with a suggestion; a newer schema is named as such before anything else.
    """
    if not isinstance(data, dict):
        raise UsageError(f"not a mapping: {str(data)[:60]}", where=where)
    if "schema_version" not in data:
        raise UsageError("lacks schema_version", where=where)
    version = data["schema_version"]
    check_schema(version, SCHEMA_VERSION, where=where)
    known = json_types(Row)
    # Most values are of the right type as they are; millions of rows are read for an index.
    decoded = {
        name: value if type(value) in known.get(name, ()) else _decode(name, value, where)
        for name, value in data.items()
        if name != "schema_version"
    }
    row = row_from_json(decoded, where=where, schema_version=version)
    check_row(decoded, where=where)
    return row


def _decode(name: str, value: Any, where: str) -> Any:
    allowed = json_types(Row).get(name)
    if allowed is None:
        return value  # row_from_json names the unknown key and suggests the nearest
    if float in allowed and isinstance(value, str) and value in NOT_FINITE:
        return NOT_FINITE[value]
    return check_value(name, value, allowed, where=where)
