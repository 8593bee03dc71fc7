"""run.json as data: what was to be run, by whom, and every attempt at it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from clusterlab.core.errors import UsageError
from clusterlab.core.rows import SCHEMA_VERSION
from clusterlab.records.configuration import check_configuration_words
from clusterlab.records.files import check_schema
from clusterlab.records.strict import check_value, checked


@dataclass(frozen=True, slots=True)
class Context:
    """Who did something, and with what: the command line, the host, versions, allowed environment."""

    command: tuple[str, ...]
    host: str
    versions: Mapping[str, str | None]
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One stretch of measuring. ``ended_utc`` and ``exit_code`` are None until it ends, and stay so
    when its process dies.
    """

    number: int
    started_utc: str
    ended_utc: str | None
    exit_code: int | None
    context: Context


@dataclass(frozen=True, slots=True)
class RunInfo:
    """run.json. ``planned_points`` is how many rows a complete run holds; None when not known."""

    run_id: str
    name: str
    created_utc: str
    configuration: Mapping[str, Any]
    planned_points: int | None
    created_by: Context
    attempts: tuple[Attempt, ...]


def plain_json(data: Mapping[str, Any]) -> dict[str, Any]:
    """``data`` as a JSON file would give it back: tuples as lists, paths and enums as text."""
    plain: dict[str, Any] = json.loads(json.dumps(data, default=str))
    return plain


def info_to_json(info: RunInfo) -> dict[str, Any]:
    """Plain data for run.json."""
    return {"schema_version": SCHEMA_VERSION, **plain_json(asdict(info))}


def info_from_json(data: Any, *, where: str) -> RunInfo:
    """The RunInfo that ``info_to_json`` wrote. Raises UsageError naming ``where`` and the field."""
    if not isinstance(data, dict) or "schema_version" not in data:
        raise UsageError("not a run's description: lacks schema_version", where=where)
    check_schema(data["schema_version"], SCHEMA_VERSION, where=where)
    fields = checked(data, RunInfo, where=where)
    attempts = tuple(
        _attempt(a, number, where=f"{where}: attempts[{number - 1}]")
        for number, a in enumerate(fields["attempts"], start=1)
    )
    if (fields["planned_points"] or 0) < 0:
        raise UsageError(
            f"{fields['planned_points']}", where=f"{where}: planned_points", expected="0 or more"
        )
    check_configuration_words(fields["configuration"], where=f"{where}: configuration")
    created_by = _context(fields["created_by"], where=f"{where}: created_by")
    return RunInfo(**{**fields, "created_by": created_by, "attempts": attempts})


def _attempt(data: Any, number: int, *, where: str) -> Attempt:
    fields = checked(data, Attempt, where=where)
    if fields["number"] != number:
        raise UsageError(
            f"number {fields['number']}", where=where, expected=f"{number}: attempts in order"
        )
    return Attempt(**{**fields, "context": _context(fields["context"], where=f"{where}: context")})


def _context(data: Any, *, where: str) -> Context:
    fields = checked(data, Context, where=where)
    for i, word in enumerate(fields["command"]):
        check_value(f"command[{i}]", word, (str,), where=where)
    for name, version in fields["versions"].items():
        check_value(name, version, (str, type(None)), where=f"{where}: versions")
    for name, value in fields["environment"].items():
        check_value(name, value, (str,), where=f"{where}: environment")
    return Context(**{**fields, "command": tuple(fields["command"])})
