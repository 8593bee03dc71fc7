"""NCCL's graph XML (NCCL_GRAPH_FILE, NCCL_GRAPH_DUMP_FILE): the channels its search chose.

Grammar: NVIDIA/nccl src/graph/search.cc, ncclTopoGetXmlFromGraphs and ncclTopoGetGraphFromXml.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from clusterlab.core.errors import UsageError
from clusterlab.formats.xml_tree import Element, first_tag, parse_xml

PATTERNS = {
    1: "balanced tree",
    2: "split tree",
    3: "tree",
    4: "ring",
    5: "nvls",
    6: "collnet direct",
}
"""src/include/graph.h NCCL_TOPO_PATTERN_*."""


@dataclass(frozen=True, slots=True)
class GraphHop:
    """A GPU or a NIC of a channel. ``dev`` is NCCL's device number, with the host above bit 56."""

    kind: Literal["gpu", "net"]
    dev: int
    rank: int | None


@dataclass(frozen=True, slots=True)
class NcclGraph:
    """One search result. Speeds are GB/s of one channel, inside and between hosts."""

    id: int
    pattern: int
    cross_nic: int
    channels_declared: int
    speed_intra_GBps: float
    speed_inter_GBps: float
    latency_inter_us: float | None
    type_intra: str
    type_inter: str
    same_channels: bool
    channels: tuple[tuple[GraphHop, ...], ...]

    @property
    def pattern_name(self) -> str:
        """``ring``, ``balanced tree``, … or the number NCCL does not name."""
        return PATTERNS.get(self.pattern, f"pattern {self.pattern}")


def recognise(text: str) -> bool:
    """Whether ``text`` begins as NCCL's graph XML does."""
    tag, _ = first_tag(text) or ("", "")
    return tag == "graphs"


def parse_nccl_graph(text: str, *, file: str) -> tuple[NcclGraph, ...]:
    """The graphs in the file's order. Raises UsageError with file and line."""
    root = parse_xml(text.lstrip("\ufeff"), file=file)
    if root.tag != "graphs":
        raise UsageError(
            f"the root element is <{root.tag}>",
            where=f"{file}:{root.line}",
            expected="<graphs version=…>, as NCCL_GRAPH_DUMP_FILE writes it",
        )
    return tuple(_graph(e, file) for e in root.children if e.tag == "graph")


def _graph(element: Element, file: str) -> NcclGraph:
    channels = tuple(
        tuple(_hop(hop, file) for hop in channel.children if hop.tag in {"gpu", "net"})
        for channel in element.children
        if channel.tag == "channel"
    )
    attributes = element.attributes
    return NcclGraph(
        id=_integer(element, "id", file),
        pattern=_integer(element, "pattern", file),
        cross_nic=_integer(element, "crossnic", file),
        channels_declared=_integer(element, "nchannels", file),
        speed_intra_GBps=_number(element, "speedintra", file),
        speed_inter_GBps=_number(element, "speedinter", file),
        latency_inter_us=(
            _number(element, "latencyinter", file) if "latencyinter" in attributes else None
        ),
        type_intra=attributes.get("typeintra", ""),
        type_inter=attributes.get("typeinter", ""),
        same_channels=_integer(element, "samechannels", file) != 0,
        channels=channels,
    )


def _hop(element: Element, file: str) -> GraphHop:
    # NCCL reads dev in base 16 whether or not "0x" stands before it.
    dev = _integer(element, "dev", file, base=16)
    rank = _integer(element, "rank", file) if "rank" in element.attributes else None
    return GraphHop("gpu" if element.tag == "gpu" else "net", dev, rank)


def _integer(element: Element, name: str, file: str, base: int = 10) -> int:
    text = element.attributes.get(name, "")
    try:
        value = int(text, 16 if base == 16 or text.lower().startswith("0x") else 10)
    except ValueError:
        raise _wrong(element, name, text, "a whole number", file) from None
    if abs(value) >= 1 << 64:
        raise _wrong(element, name, text, "a number of 64 bits", file)
    return value


def _number(element: Element, name: str, file: str) -> float:
    text = element.attributes.get(name, "")
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise _wrong(element, name, text, "0 or more", file)
    return value


def _wrong(element: Element, name: str, text: str, expected: str, file: str) -> UsageError:
    return UsageError(
        f"<{element.tag}> {name} {text[:40]!r}",
        where=f"{file}:{element.line}",
        expected=expected,
    )
