"""NCCL Inspector's records: one JSON object for each collective and rank, one a line or pretty-printed.

Read in NVIDIA/nccl plugins/profiler/inspector (format v4.0): ``coll_msg_size_bytes`` is count times element
size, for AllGather and ReduceScatter one rank's part; algbw and busbw are of the whole buffer. ``p2p_perf``
holds sends and receives.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from clusterlab.core.collectives import COLLECTIVES, collective
from clusterlab.core.errors import UsageError
from clusterlab.formats import json_values

_MARKS = ('"coll_perf"', '"p2p_perf"')
_MAX_OBJECT = 4 << 20  # characters of one record: a verbose one has 20 kB
_NAMES = {"All2All": "all_to_all", "AllGatherV": None, "Send": "send", "Recv": "send"}


@dataclass(frozen=True, slots=True)
class InspectorRecord:
    """One collective as one rank saw it. ``size_bytes`` is nccl-tests' (the whole buffer). ``collective``
    is None for what nccl-tests does not have. Bandwidths are None where Inspector has none (all_to_all).
    """

    line: int
    collective: str | None
    called: str
    rank: int | None
    world_size: int | None
    n_nodes: int | None
    size_bytes: int
    time_us: float
    algbw_GBps: float | None
    busbw_GBps: float | None
    version: str | None


def recognise(text: str) -> bool:
    """Whether ``text`` begins with such a record."""
    head = text.lstrip("\ufeff \t\r\n")[:8192]
    return head.startswith("{") and (
        any(mark in head for mark in _MARKS) or '"inspector_output_format_version"' in head
    )


def records(lines: Iterable[str], *, broken: list[int]) -> Iterator[InspectorRecord]:
    """The records of ``lines``; the lines where an unreadable one begins go to ``broken``."""
    for number, text in _objects(lines):
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            broken.append(number)
            continue
        record = _record(data, number) if isinstance(data, dict) else None
        if record is None:
            broken.append(number)
        else:
            yield record


def _objects(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Texts that begin with a brace in the first column, with the line each begins at."""
    begun: list[str] = []
    length, first = 0, 0
    for number, whole in enumerate(lines, 1):
        line = whole.lstrip("\ufeff") if number == 1 else whole
        if line.startswith("{") and begun:  # the one before is cut
            yield first, "".join(begun)
            begun, length = [], 0
        if not begun:
            if not line.strip():
                continue
            first = number
        begun.append(line if line.endswith("\n") else line + "\n")
        length += len(line)
        if (line.startswith("}") or (len(begun) == 1 and line.rstrip().endswith("}"))) or (
            length > _MAX_OBJECT
        ):
            yield first, "".join(begun)
            begun, length = [], 0
    if begun:
        yield first, "".join(begun)


def _record(data: dict[str, Any], line: int) -> InspectorRecord | None:
    kind = "coll" if isinstance(data.get("coll_perf"), dict) else "p2p"
    perf, header, metadata = (
        value if isinstance(value := data.get(key), dict) else {}
        for key in (f"{kind}_perf", "header", "metadata")
    )
    called, size = perf.get(kind), json_values.whole(perf.get(f"{kind}_msg_size_bytes"))
    time_us = json_values.figure(perf.get(f"{kind}_exec_time_us"))
    if not isinstance(called, str) or size is None or time_us is None:
        return None
    name, ranks = _name(called), json_values.whole(header.get("n_ranks"))
    parts = name in COLLECTIVES and COLLECTIVES[name].per_rank
    if parts and ranks is None:
        return None
    algbw = json_values.figure(perf.get(f"{kind}_algobw_gbs"))
    known = bool(algbw) or size == 0
    version = metadata.get("inspector_output_format_version")
    return InspectorRecord(
        line,
        name,
        called[:40],
        json_values.whole(header.get("rank")),
        2 if name == "send" else ranks,
        json_values.whole(header.get("nnodes")),
        size * (ranks or 1) if parts else size,
        time_us,
        algbw if known else None,
        json_values.figure(perf.get(f"{kind}_busbw_gbs")) if known else None,
        version[:20] if isinstance(version, str) else None,
    )


def _name(called: str) -> str | None:
    if called in _NAMES:
        return _NAMES[called]
    try:
        return collective(called[:40]).name
    except UsageError:
        return None
