"""InfraGraph's link types: bandwidths and latencies in the units of all its versions."""

from __future__ import annotations

import contextlib
import math
import re

from clusterlab.core.errors import UsageError
from clusterlab.core.suggest import unknown
from clusterlab.formats.fields import at, mapping, sequence, text
from clusterlab.formats.infragraph_model import LinkType
from clusterlab.formats.strict_yaml import Document, Path

_GIGA = re.compile(
    r"(?i)^(?:giga_?|g_?)(bits|bytes|transfers)_?per_?second$|^(g(?:bits|bytes))_?ps$"
)
_MICROSECONDS = {"ms": 1e3, "us": 1.0, "ns": 1e-3}


def read_links(document: Document, path: Path) -> tuple[LinkType, ...]:
    """The link types listed below ``path``."""
    return tuple(
        _link(document, (*path, "links", i))
        for i in range(len(sequence(document, (*path, "links"))))
    )


def _link(document: Document, path: Path) -> LinkType:
    entry = mapping(document, path, None)
    physical = (*path, "physical") if isinstance(entry.get("physical"), dict) else path
    GBps, gigatransfers, unit = _bandwidth(document, (*physical, "bandwidth"))
    return LinkType(
        name=text(document, (*path, "name")),
        description=text(document, (*path, "description"), default="", may_be_empty=True),
        GBps=GBps,
        gigatransfers=gigatransfers,
        unit=unit,
        latency_us=_latency(document, (*physical, "latency")),
    )


def _bandwidth(document: Document, path: Path) -> tuple[float | None, float | None, str]:
    """(GB/s, GT/s, the unit's word as written)."""
    entry = mapping(document, path, None, optional=True)
    unit = _chosen(document, path, entry)
    if not unit:
        return None, None, ""
    match = _GIGA.match(unit)
    if match is None:
        raise unknown(
            "unit of bandwidth",
            unit[:60],
            ("gigabits_per_second", "gigabytes_per_second", "gigatransfers_per_second"),
            where=document.where(*path),
        )
    value = _figure(document, (*path, unit))
    word = (match[1] or match[2]).lower()
    if value is None or value == 0:
        return None, None, unit
    if "transfers" in word:
        return None, value, unit
    return (value / 8 if "bits" in word else value), None, unit


def _latency(document: Document, path: Path) -> float | None:
    entry = mapping(document, path, None, optional=True)
    unit = _chosen(document, path, entry)
    if not unit:
        return None
    if unit not in _MICROSECONDS:
        raise unknown("unit of latency", unit[:60], _MICROSECONDS, where=document.where(*path))
    value = _figure(document, (*path, unit))
    return None if value is None else value * _MICROSECONDS[unit]


def _chosen(document: Document, path: Path, entry: dict[str, object]) -> str:
    """The unit in use: what ``choice`` says, else the one other key."""
    choice = text(document, (*path, "choice"), default="", may_be_empty=True)
    others = [key for key in entry if key != "choice"]
    if choice or len(others) == 1:
        return choice or others[0]
    if others:
        raise UsageError(
            f"{len(others)} units without a choice", where=document.where(*path), expected="choice"
        )
    return ""


def _figure(document: Document, path: Path) -> float | None:
    value = at(document, path)
    if value is None:
        return None
    if isinstance(value, str):  # YAML 1.1 reads 1e3 as text
        with contextlib.suppress(ValueError):
            value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise UsageError(
            f"{str(value)[:60]!r}", where=document.where(*path), expected="a finite number"
        )
    return float(value)
