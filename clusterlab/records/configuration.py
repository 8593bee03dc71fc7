"""The configuration in run.json: whatever it says, the words that readers go by are of their kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from clusterlab.core.collectives import OPERATIONS, REDUCE_OPS
from clusterlab.core.dtypes import DTYPES
from clusterlab.core.errors import UsageError
from clusterlab.core.patterns import pattern_name
from clusterlab.core.suggest import unknown
from clusterlab.records.strict import LARGEST, SMALLEST, check_value

Check = Callable[[str, Any, str], None]


def check_configuration_words(configuration: Mapping[str, Any], *, where: str) -> None:
    """Raise UsageError naming ``where`` and the first field that is none of what a command writes."""
    _check_numbers(configuration, where)
    _check_words(configuration, where)
    if configuration.get("measures") == "overlap":
        _check_overlap(configuration, where)
    elif isinstance(typed := configuration.get("typed"), Mapping):
        _check_words(typed, f"{where}: typed")


def _check_overlap(configuration: Mapping[str, Any], where: str) -> None:
    """What tells how many overlaps were planned."""
    typed = check_value("typed", configuration.get("typed"), (dict,), where=where)
    for name in ("collectives", "sizes_bytes"):
        check_value(name, typed.get(name), (list,), where=f"{where}: typed")
    _check_words(typed, f"{where}: typed")
    _texts("beside", configuration.get("beside"), where)


def _check_words(configuration: Mapping[str, Any], where: str) -> None:
    for name, check in _CHECKS.items():
        value = configuration.get(name)
        if value is not None:
            check(name, value, where)


def _text(name: str, value: Any, where: str) -> None:
    check_value(name, value, (str,), where=where)


def _texts(name: str, value: Any, where: str) -> None:
    for i, one in enumerate(check_value(name, value, (list,), where=where)):
        check_value(f"{name}[{i}]", one, (str,), where=where)


def _of(kind: str, known: Mapping[str, Any]) -> Check:
    def check(name: str, value: Any, where: str) -> None:
        _texts(name, value, where)
        for i, word in enumerate(value):
            if word not in known:
                raise unknown(kind, word[:60], known, where=f"{where}: {name}[{i}]")

    return check


def _sizes(name: str, value: Any, where: str) -> None:
    for i, size in enumerate(check_value(name, value, (list,), where=where)):
        if check_value(f"{name}[{i}]", size, (int,), where=where) < 0:
            raise UsageError(f"{size}", where=f"{where}: {name}[{i}]", expected="0 or more")


def _pattern(name: str, value: Any, where: str) -> None:
    try:
        pattern_name(check_value(name, value, (str,), where=where))
    except UsageError as error:
        if error.where is not None and error.where.startswith(where):
            raise
        raise UsageError(error.message, where=f"{where}: {name}", expected=error.expected) from None


_CHECKS: Mapping[str, Check] = {
    "collectives": _of("collective", OPERATIONS),
    "dtypes": _of("dtype", DTYPES),
    "ops": _of("operator", dict.fromkeys(REDUCE_OPS)),
    "timings": _texts,
    "sizes_bytes": _sizes,
    "pattern": _pattern,
    "backend": _text,
    "fabric": _text,
    "measures": _text,
    "command": _text,
}


def _check_numbers(configuration: Mapping[str, Any], where: str) -> None:
    """Whole numbers of 64 bits, at any depth."""
    waiting: list[tuple[str, Any]] = [("", configuration)]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, Mapping):
            waiting += ((f"{name}.{key}" if name else key, one) for key, one in value.items())
        elif isinstance(value, list):
            waiting += ((f"{name}[{i}]", one) for i, one in enumerate(value))
        elif type(value) is int and not SMALLEST <= value <= LARGEST:
            raise UsageError(
                f"{value!r:.60}", where=f"{where}: {name}", expected="a number of at most 64 bits"
            )
