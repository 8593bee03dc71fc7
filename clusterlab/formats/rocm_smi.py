"""``rocm-smi --showtopo`` and its parts: weight, hops, link type and access between GPUs, NUMA nodes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from clusterlab.core.errors import UsageError
from clusterlab.formats.smi_text import RECOGNISED_CHARS, check_count, clean_lines

Table = Literal["weight", "hops", "link_type", "access"]
Cells = Mapping[tuple[int, int], str]

_TITLES: tuple[tuple[re.Pattern[str], Table], ...] = (
    (re.compile(r"Weight between two GPUs"), "weight"),
    (re.compile(r"Hops between two GPUs"), "hops"),
    (re.compile(r"Link Type between two GPUs"), "link_type"),
    (re.compile(r"Link accessibility between two GPUs"), "access"),
)
_GPU = re.compile(r"GPU(\d{1,4})")
_NUMA = re.compile(
    r"GPU\s*\[?(\d{1,4})\]?\s*:\s*\(Topology\)\s+Numa\s+(Node|Affinity):\s*(-?\d{1,4})\s*"
)


@dataclass(frozen=True)
class RocmTopology:
    """What the file holds. Tables by pair of GPU numbers, the diagonal left out; cells as printed.

    ``tables`` has only those that are there. ``numa``: GPU to NUMA node, None for -1. ``torn``: lines
    of rows with too few or too many cells, whose cells are left out.
    """

    gpus: tuple[int, ...]
    tables: Mapping[Table, Cells]
    numa: Mapping[int, int | None]
    torn: tuple[int, ...] = ()


@dataclass
class _Reading:
    tables: dict[Table, dict[tuple[int, int], str]] = field(default_factory=dict)
    gpus: dict[int, None] = field(default_factory=dict)
    numa: dict[tuple[int, str], int | None] = field(default_factory=dict)
    torn: list[int] = field(default_factory=list)
    table: Table | None = None
    columns: tuple[int, ...] = ()


def recognise(text: str) -> bool:
    """True for a title of one of the tables, or a NUMA line."""
    head = text[:RECOGNISED_CHARS]
    return "(Topology) Numa " in head or any(title.search(head) for title, _ in _TITLES)


def parse_rocm_smi(text: str, *, file: str) -> RocmTopology:
    """The tables and NUMA nodes in ``text``. Raises UsageError, naming the line, where there are none."""
    reading = _Reading()
    for number, line in clean_lines(text, file=file):
        _take(reading, line, number, file)
    if not reading.gpus:
        raise UsageError(
            "no GPU of rocm-smi --showtopo",
            where=f"{file}:1",
            expected="a table such as 'Weight between two GPUs', or lines 'GPU[0] : (Topology) Numa Node: 0'",
        )
    return RocmTopology(
        gpus=tuple(sorted(reading.gpus)),
        tables=reading.tables,
        numa=_numa(reading),
        torn=tuple(reading.torn),
    )


def _take(reading: _Reading, line: str, number: int, file: str) -> None:
    if not line:
        return
    title = next((t for pattern, t in _TITLES if pattern.search(line)), None)
    words = line.split()
    numa = _NUMA.fullmatch(line)
    if title is not None:
        reading.table, reading.columns = title, ()
    elif numa:
        node = int(numa[3])
        reading.gpus[int(numa[1])] = None
        reading.numa.setdefault((int(numa[1]), numa[2]), node if node >= 0 else None)
    elif line.startswith("="):
        reading.table = None
    elif reading.table is not None and words and all(map(_GPU.fullmatch, words)):
        reading.columns = _header(words, f"{file}:{number}")
        reading.gpus.update(dict.fromkeys(reading.columns))
    elif reading.table is not None and words and _GPU.fullmatch(words[0]):
        _take_row(reading, words, number)
    check_count(len(reading.gpus), where=f"{file}:{number}")


def _header(words: Sequence[str], where: str) -> tuple[int, ...]:
    columns = tuple(int(word[3:]) for word in words)
    if len(set(columns)) < len(columns):
        raise UsageError("a GPU twice in one header", where=where, expected="each GPU once")
    return columns


def _take_row(reading: _Reading, words: Sequence[str], number: int) -> None:
    row, cells = int(words[0][3:]), words[1:]
    if len(cells) != len(reading.columns) or row not in reading.columns:
        reading.torn.append(number)
        return
    table = reading.tables.setdefault(reading.table or "weight", {})
    for column, cell in zip(reading.columns, cells, strict=True):
        if column != row:
            table.setdefault((row, column), cell)


def _numa(reading: _Reading) -> dict[int, int | None]:
    """Numa Node where printed, else Numa Affinity."""
    affinity = {gpu: node for (gpu, what), node in reading.numa.items() if what == "Affinity"}
    return affinity | {gpu: node for (gpu, what), node in reading.numa.items() if what == "Node"}
