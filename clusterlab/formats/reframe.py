"""ReFrame's performance references: the ``reference`` of a test, as Python or JSON text.

A reference is ``(value, lower, upper, unit)`` by system and variable; ``lower`` and ``upper`` are shares of
the value (-0.05: 5 % below), None is no limit (reframe-hpc.readthedocs.io, RegressionTest.reference)::

    reference = {
        "daint:gpu": {"all_reduce_bw_1GiB": (345.0, -0.05, None, "GB/s")},
    }
"""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clusterlab.core.errors import UsageError

ANY_SYSTEM = "*"
_EXPECTED = (
    "reference = {'system:partition': {'all_reduce_bw_1GiB': (value, lower, upper, 'GB/s')}}"
)
_MAX_CHARACTERS = 8 << 20


@dataclass(frozen=True, slots=True)
class ReframeReference:
    """One reference as it stands in the file."""

    system: str
    name: str
    value: float
    lower: float | None
    upper: float | None
    unit: str | None


def recognise(text: str) -> bool:
    """Whether a text begins as a reference does: the name, or a mapping of systems as a literal."""
    first = next((line for line in text.splitlines() if line.strip(" \t") and line[0] != "#"), "")
    word, equals, _ = first.partition("=")
    if equals and word.strip() == "reference":
        return True
    return first.lstrip().startswith("{") and '"schema_version"' not in text[:4096]


def parse_reframe(text: str, *, file: str) -> list[ReframeReference]:
    """All references in a text, in its order. Raises UsageError naming ``file`` and what is wrong."""
    data = _literal(text, file)
    if not isinstance(data, dict) or not data:
        raise UsageError("no references", where=file, expected=_EXPECTED)
    found = []
    for system, variables in data.items():
        where = f"{file}: {system!r}"
        if not isinstance(system, str) or not isinstance(variables, dict):
            raise UsageError("not a mapping of variables", where=where, expected=_EXPECTED)
        found += [_reference(system, name, value, where) for name, value in variables.items()]
    return found


def render_reframe(references: Sequence[ReframeReference], *, as_json: bool = False) -> str:
    """The text of a file: a Python assignment, or JSON (whose lists are ReFrame's tuples)."""
    systems: dict[str, dict[str, tuple[Any, ...]]] = {}
    for one in references:
        row = (one.value, one.lower, one.upper, one.unit)
        systems.setdefault(one.system, {})[one.name] = row
    if as_json:
        return json.dumps(systems, indent=2) + "\n"
    lines = ["reference = {"]
    for system, variables in systems.items():
        lines.append(f"    {system!r}: {{")
        lines += [f"        {name!r}: {row!r}," for name, row in variables.items()]
        lines.append("    },")
    return "\n".join([*lines, "}"]) + "\n"


def _literal(text: str, file: str) -> Any:
    """A JSON document, a Python literal, or the one assignment of a literal to ``reference``."""
    if len(text) > _MAX_CHARACTERS:
        raise UsageError(f"{len(text)} characters", where=file, expected=_EXPECTED)
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        tree = ast.parse(text)
        body = [node for node in tree.body if not _is_words(node)]
        (only,) = body
        if not isinstance(only, (ast.Assign, ast.Expr)):
            raise ValueError
        return ast.literal_eval(only.value)
    except SyntaxError as error:
        raise UsageError(
            f"not Python: {error.msg}", where=f"{file}:{error.lineno}", expected=_EXPECTED
        ) from None
    except (ValueError, TypeError, RecursionError, MemoryError):
        raise UsageError("no literal mapping alone", where=file, expected=_EXPECTED) from None


def _is_words(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _reference(system: str, name: Any, value: Any, where: str) -> ReframeReference:
    place = f"{where}: {name!r}"
    if (
        not isinstance(name, str)
        or not isinstance(value, (tuple, list))
        or not 3 <= len(value) <= 4
    ):
        raise UsageError(f"{value!r:.60}", where=place, expected="(value, lower, upper, unit)")
    number, lower, upper = value[:3]
    unit = value[3] if len(value) == 4 else None
    if not _is_number(number) or not (unit is None or isinstance(unit, str)):
        raise UsageError(f"{value!r:.60}", where=place, expected="(value, lower, upper, unit)")
    for limit, allowed, word in ((lower, (-1, 0), "lower"), (upper, (0, math.inf), "upper")):
        if limit is not None and not (_is_number(limit) and allowed[0] <= limit <= allowed[1]):
            raise UsageError(
                f"{word} is {limit!r}",
                where=place,
                expected="a share of the value, as -0.05 below or 0.05 above, or None",
            )
    return ReframeReference(
        system,
        name,
        float(number),
        None if lower is None else float(lower),
        None if upper is None else float(upper),
        unit,
    )


def _is_number(value: Any) -> bool:
    return type(value) in {int, float} and math.isfinite(value)


def systems_of(references: Sequence[ReframeReference]) -> Mapping[str, int]:
    """How many references each system has."""
    found: dict[str, int] = {}
    for one in references:
        found[one.system] = found.get(one.system, 0) + 1
    return found
