"""JSON or YAML, whichever a file is, as a ``Document`` of plain data.

JSON is told by its first character. It is read by ``json`` (numbers as JSON has them, no YAML surprises);
its ``Document`` knows the line of the whole only.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from clusterlab.core.errors import UsageError
from clusterlab.formats.strict_yaml import MAX_BYTES, MAX_DEPTH, Document, read_yaml

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


def is_json(text: str) -> bool:
    """Whether the first character is that of a JSON object or array."""
    return text.lstrip("\ufeff \t\r\n")[:1] in ("{", "[")


def read_document(text: str, *, file: str) -> Document:
    """The one document in ``text``. Raises UsageError naming ``file`` and line."""
    return read_json(text, file=file) if is_json(text) else read_yaml(text, file=file)


def read_json(text: str, *, file: str) -> Document:
    """Strict JSON: no duplicate keys, no NaN, bounded size and depth. Raises UsageError."""
    if len(text) > MAX_BYTES:
        raise UsageError(
            f"{len(text)} characters of JSON", where=file, expected=f"at most {MAX_BYTES}"
        )
    _check_depth(text, file)
    try:
        data = json.loads(
            text.lstrip("\ufeff"), object_pairs_hook=_unique, parse_constant=_not_finite
        )
    except json.JSONDecodeError as error:
        raise UsageError(f"not JSON: {error.msg}", where=f"{file}:{error.lineno}") from None
    except ValueError as error:  # what the hooks found, or an integer of thousands of digits
        raise UsageError(f"not JSON: {error}", where=f"{file}:1") from None
    return Document(data, file, {(): 1})


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"key {key[:60]!r} twice")
        found[key] = value
    return found


def _not_finite(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _check_depth(text: str, file: str) -> None:
    depth = 0
    for char in re.findall(r"[\[\]{}]", _STRING.sub("", text)):
        depth += 1 if char in "[{" else -1
        if depth > MAX_DEPTH:
            raise UsageError("nested too deeply", where=file, expected=f"{MAX_DEPTH} levels")
