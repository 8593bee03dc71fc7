"""The system section of an NCCL_DEBUG=INFO, NCCL_DEBUG_SUBSYS=GRAPH log: the topology as NCCL printed it.

Grammar: NVIDIA/nccl src/graph/topo.cc ncclTopoPrint and ncclTopoPrintRec of versions 2.5 to 2.30:
``GPU/8000 (0)`` until 2.21, ``GPU/0-8000 (0)`` with the host's number since; RCCL prints XGMI for NVL.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from clusterlab.formats.nccl_log_lines import LogLine

_BEGIN = re.compile(r"=== System : max(?:Bw|Width)\s+([\d.]+)")
_END = re.compile(r"={20,}\s*$")
_ITEM = re.compile(
    r"(?P<indent> *)(?:\+ (?P<link>[A-Z][A-Z0-9]*)\[ *(?P<bw>\d{1,9}(?:\.\d{1,9})?)\] - )?"
    r"(?P<kind>[A-Z]{3})/(?:(?P<system>[0-9a-fA-F]{1,2})-)?(?P<id>[0-9a-fA-F]{1,16})"
    r"(?: \((?P<detail>[^()]{0,80})\))?(?: \[MLOPart -?\d+\])?\s*$"
)
_KINDS = {"GPU", "PCI", "NVS", "CPU", "NIC", "NET", "GIN", "RMA", "DEV", "CXB"}
_MINUS_ONE = {(1 << 56) - 1, (1 << 64) - 1}

Key = tuple[str, int, int]
"""Kind, host number, id: what names a node of a section."""


@dataclass(frozen=True, slots=True)
class SystemNode:
    """``GPU/0-8000 (0)``: ``detail`` is what stands in brackets, split at slashes."""

    kind: str
    system: int
    id: int
    detail: tuple[str, ...]

    @property
    def key(self) -> Key:
        """What names it within its section."""
        return self.kind, self.system, self.id

    @property
    def numa(self) -> int | None:
        """Of a CPU: its NUMA domain; None for NCCL's -1."""
        return None if self.id in _MINUS_ONE else self.id


@dataclass(frozen=True, slots=True)
class SystemLink:
    """One printed link: from a node to another, GB/s as printed (one decimal)."""

    src: Key
    dst: Key
    kind: str
    GBps: float


@dataclass(frozen=True, slots=True)
class SystemSection:
    """One rank's view. ``complete`` is False where the log ends, or other lines cut in, before its end."""

    first: LogLine
    max_GBps: float
    nodes: tuple[SystemNode, ...]
    links: tuple[SystemLink, ...]
    unread: tuple[int, ...]
    complete: bool


@dataclass
class _Open:
    first: LogLine
    max_GBps: float
    nodes: dict[Key, SystemNode]
    links: list[SystemLink]
    unread: list[int]
    stack: list[tuple[int, Key]]

    def closed(self, *, complete: bool) -> SystemSection:
        return SystemSection(
            self.first,
            self.max_GBps,
            tuple(self.nodes.values()),
            tuple(self.links),
            tuple(self.unread),
            complete,
        )


def system_sections(lines: Iterable[LogLine]) -> list[SystemSection]:
    """All sections, in the order in which they end; lines of several ranks may be mixed."""
    open_: dict[object, _Open] = {}
    done: list[SystemSection] = []
    for line in lines:
        begin = _BEGIN.match(line.message)
        if begin is not None:
            if line.writer in open_:
                done.append(open_.pop(line.writer).closed(complete=False))
            open_[line.writer] = _Open(line, _number(begin.group(1)), {}, [], [], [])
            continue
        section = open_.get(line.writer)
        if section is None:
            continue
        if _END.match(line.message):
            done.append(open_.pop(line.writer).closed(complete=True))
        else:
            _add(section, line)
    return done + [section.closed(complete=False) for section in open_.values()]


def _add(section: _Open, line: LogLine) -> None:
    found = _ITEM.match(line.message)
    if found is None or found["kind"] not in _KINDS:
        section.unread.append(line.number)
        return
    column = len(found["indent"])
    while section.stack and section.stack[-1][0] > column:
        section.stack.pop()
    detail = tuple(found["detail"].split("/")) if found["detail"] else ()
    node = SystemNode(found["kind"], int(found["system"] or "0", 16), int(found["id"], 16), detail)
    known = section.nodes.get(node.key)
    if known is None or (detail and not known.detail):
        section.nodes[node.key] = node
    if found["link"] is None:
        section.stack = [(0, node.key)]
        return
    if not section.stack:
        section.unread.append(line.number)
        return
    section.links.append(
        SystemLink(section.stack[-1][1], node.key, found["link"], _number(found["bw"]))
    )
    if found["link"] == "PCI":
        section.stack.append((found.start("kind"), node.key))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
