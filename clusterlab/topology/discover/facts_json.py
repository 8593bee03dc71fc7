"""A machine's facts back from JSON: every field's type and range is checked, so that the rest need not."""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from clusterlab.core.errors import UsageError
from clusterlab.core.suggest import reject_unknown_keys
from clusterlab.topology.discover.distance import DISTANCES
from clusterlab.topology.discover.facts import FORM, MARK, MachineFacts
from clusterlab.topology.discover.pci import BUS_ID

_MOST = 1 << 62
_NAME = re.compile(r"[^/\s#]{1,255}")
_PREFIX = re.compile(r"[0-9a-f]{16}")


def machine_from_json(data: object, *, where: str = "machine") -> MachineFacts:
    """The inverse of ``MachineFacts.to_json``, after a trip through JSON. Raises UsageError naming
    ``where`` and the field.
    """
    if not isinstance(data, Mapping) or data.get(MARK) != FORM:
        raise UsageError(
            "not what a clusterlab of this version saw of a machine",
            where=where,
            expected=f'a mapping with "{MARK}": {FORM}',
            fix="use one version of clusterlab on all nodes",
        )
    plain = {key: value for key, value in data.items() if key != MARK}
    facts: MachineFacts = _dataclass(MachineFacts, plain, where)
    for a, b, word in facts.levels:
        if word not in DISTANCES or not (BUS_ID.fullmatch(a) and BUS_ID.fullmatch(b)):
            raise _wrong([a, b, word], f"{where}: levels", "two PCI bus ids and PIX … SYS")
    return facts


def _dataclass(kind: type[Any], data: object, where: str) -> Any:
    if not isinstance(data, Mapping):
        raise _wrong(data, where, "a mapping")
    hints = get_type_hints(kind)
    reject_unknown_keys(data, hints, where=where)
    values = {
        name: _checked(name, _value(hints[name], value, f"{where}: {name}"), f"{where}: {name}")
        for name, value in data.items()
    }
    for one in fields(kind):
        if one.default is MISSING and one.name not in values:
            raise UsageError(f"no {one.name}", where=where)
    return kind(**values)


def _value(hint: Any, value: object, where: str) -> Any:
    """``value`` as ``hint`` says: JSON's lists are tuples, its mappings dataclasses."""
    origin, choices = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        if value is None and NoneType in choices:
            return None
        return _value(next(c for c in choices if c is not NoneType), value, where)
    if origin is tuple:
        return _tuple(choices, value, where)
    if origin is Literal:
        if value not in choices:
            raise _wrong(value, where, "one of " + ", ".join(map(str, choices)))
        return value
    if is_dataclass(hint) and isinstance(hint, type):
        return _dataclass(hint, value, where)
    return _plain(hint, value, where)


def _tuple(choices: tuple[Any, ...], value: object, where: str) -> tuple[Any, ...]:
    open_ended = len(choices) == 2 and choices[1] is Ellipsis
    if not isinstance(value, list) or not (open_ended or len(value) == len(choices)):
        raise _wrong(value, where, "a list" if open_ended else f"a list of {len(choices)}")
    hints = [choices[0]] * len(value) if open_ended else choices
    return tuple(
        _value(h, v, f"{where}[{i}]") for i, (h, v) in enumerate(zip(hints, value, strict=True))
    )


def _plain(hint: Any, value: object, where: str) -> Any:
    if hint is bool and isinstance(value, bool):
        return value
    if hint is str and isinstance(value, str) and value.isprintable():
        return value
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int and number and isinstance(value, int) and 0 <= value < _MOST:
        return value
    if hint is float and isinstance(value, int | float) and number and 0 < value < math.inf:
        return float(value)
    words = {bool: "true or false", str: "text", int: "a whole number", float: "a number above 0"}
    raise _wrong(value, where, words[hint])


def _checked(name: str, value: Any, where: str) -> Any:
    """What a field's type does not say."""
    if value is None:
        return None
    if name in ("bus_id", "remote_bus_id", "src", "dst") and not BUS_ID.fullmatch(value):
        raise _wrong(value, where, "a PCI bus id such as 0000:1b:00.0")
    if name == "host" and not _NAME.fullmatch(value):
        raise _wrong(value, where, "a host's name")
    if name == "gid_prefix" and not _PREFIX.fullmatch(value):
        raise _wrong(value, where, "16 hexadecimal digits")
    if name == "subnets":
        for subnet in value:
            try:
                ipaddress.ip_network(subnet)
            except ValueError:
                raise _wrong(subnet, where, "an IP network such as 10.0.1.0/24") from None
    return value


def _wrong(value: object, where: str, expected: str) -> UsageError:
    shown = repr(value)
    return UsageError(
        shown if len(shown) <= 60 else shown[:57] + "…", where=where, expected=expected
    )
