"""bringup.json, read again: what bringing up each rank took, every value of its kind."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from clusterlab.core.bringup import Bringup, InitSplit, RankBringup, Repeated
from clusterlab.core.errors import UsageError
from clusterlab.records.strict import check_value, checked

_KEPT = ("backend", "rendezvous", "identity_source", "versions")
_LISTS = ("create_s", "first_call_s", "destroy_s", "init_s")


def bringup_from_json(document: Any, *, where: str) -> Bringup:
    """The bring-up in bringup.json. Raises UsageError naming ``where`` and the field."""
    if not isinstance(document, dict) or not isinstance(document.get("ranks"), list):
        raise UsageError("not the document of a bring-up: no list of ranks", where=where)
    if not document["ranks"]:
        raise UsageError("no rank", where=f"{where}: ranks", expected="one at least")
    kept = {name: check_value(name, document.get(name), (str,), where=where) for name in _KEPT}
    ranks = (_rank(one, f"{where}: ranks[{i}]") for i, one in enumerate(document["ranks"]))
    return Bringup(**kept, ranks=tuple(ranks))


def _rank(data: Any, where: str) -> RankBringup:
    if isinstance(data, Mapping):  # the total follows from the phases
        data = {name: value for name, value in data.items() if name != "total_s"}
    fields = checked(data, RankBringup, where=where)
    fields["phases"] = _numbers_by_name(fields["phases"], f"{where}: phases")
    for name in ("started_unix_s", "ended_unix_s"):
        fields[name] = _number(name, fields[name], where)
    if fields["init"] is not None:
        init = checked(fields["init"], InitSplit, where=f"{where}: init")
        _number("total_s", init["total_s"], f"{where}: init")
        parts = _numbers_by_name(init["parts"], f"{where}: init: parts")
        fields["init"] = InitSplit(**{**init, "parts": parts})
    if fields["repeated"] is not None:
        fields["repeated"] = _repeated(fields["repeated"], f"{where}: repeated")
    return RankBringup(**fields)


def _repeated(data: Any, where: str) -> Repeated:
    fields = checked(data, Repeated, where=where)
    lists = {name: _numbers(fields[name], f"{where}: {name}") for name in _LISTS}
    usage = {
        name: _numbers(check_value(name, column, (list,), where=where), f"{where}: usage: {name}")
        for name, column in fields["usage"].items()
    }
    return Repeated(**{**fields, **lists, "usage": usage})


def _numbers(data: Any, where: str) -> tuple[float, ...]:
    return tuple(_number(str(i), one, where) for i, one in enumerate(data))


def _numbers_by_name(data: Mapping[str, Any], where: str) -> dict[str, float]:
    return {name: _number(name, one, where) for name, one in data.items()}


def _number(name: str, value: Any, where: str) -> Any:
    """As it stands: bytes are whole numbers, seconds are not."""
    check_value(name, value, (float, int), where=where)
    if not 0 <= value < math.inf:
        raise UsageError(f"{value!r:.60}", where=f"{where}: {name}", expected="0 or more")
    return value
