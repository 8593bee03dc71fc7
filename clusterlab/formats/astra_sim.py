"""ASTRA-sim's network files: analytical dimensions, ns-3 and SimAI link lists.

*Analytical* (YAML, JSON since 2026; astra-network-analytical input/*.yml), innermost dimension first:

    topology: [Switch, Ring]     Ring, FullyConnected, Switch per dimension
    npus_count: [8, 2]
    bandwidth: [400, 50]         GB/s of each link per direction; "tbd" occurs
    latency: [936.25, 1000]      ns of each link; through a switch it is paid twice

The simulator's older JSON (units-count, topologies-per-dim, link-bandwidth, link-latency) means the same.
Older analytical back ends count a GB as 2^30 bytes; the figures are kept as people write them, in 1e9.

*ns-3* (examples/network/ns3): ``nodes switches links``, the switches' ids, then one line per full-duplex
link, ``src dst 400Gbps 0.0005ms error_rate``. *SimAI* (astra-sim-alibabacloud/inputs/topo) has such links
under ``nodes gpus_per_server nvswitches switches links gpu_type`` and lists NVSwitches before switches.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from clusterlab.core.errors import UsageError
from clusterlab.core.suggest import unknown
from clusterlab.formats.documents import read_document
from clusterlab.formats.fields import at, mapping, sequence
from clusterlab.formats.strict_yaml import Document

Shape = Literal["Ring", "FullyConnected", "Switch"]
SHAPES: tuple[str, ...] = get_args(Shape)

MAX_NODES = 200_000
MAX_CHARACTERS = 64 << 20

_SPELLINGS = {"alltoall": "FullyConnected"}
_KEYS = {
    "topology": ("topology", "topologies-per-dim"),
    "npus_count": ("npus_count", "units-count"),
    "bandwidth": ("bandwidth", "link-bandwidth"),
    "latency": ("latency", "link-latency"),
}
_HEADER = re.compile(
    r"\s*(\d{1,9})((?:[ \t]+\d{1,9}){2,4})(?:[ \t]+([A-Za-z]\w*))?(?:[ \t]+\d+)?[ \t]*\n"
)
_LINK = re.compile(r"(?m)^[ \t]*\d{1,9}[ \t]+\d{1,9}[ \t]+[\d.]+[KMGT]?bps\b")
_RATE = re.compile(r"([0-9.]{1,20}(?:e[+-]?[0-9]{1,3})?)([KMGT]?)bps")
_DELAY = re.compile(r"([0-9.]{1,20}(?:e[+-]?[0-9]{1,3})?)(s|ms|us|ns)")
_BITS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_MICROSECONDS = {"s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3}


@dataclass(frozen=True, slots=True)
class Dimension:
    """One dimension: ``count`` NPUs joined as ``shape``. Figures per link and direction; None: not given."""

    shape: Shape
    count: int
    GBps: float | None
    latency_us: float | None


@dataclass(frozen=True, slots=True)
class CableLine:
    """One full-duplex link of an ns-3 or SimAI file."""

    src: int
    dst: int
    GBps: float
    latency_us: float
    error_rate: float
    line: int


@dataclass(frozen=True, slots=True)
class LinkList:
    """An ns-3 or SimAI topology. Nodes 0 to ``nodes``-1; those that are no switch are NPUs.

    ``npus_per_server`` and ``npu_model`` are None in ns-3 files; ``declared_links`` is the header's count.
    """

    nodes: int
    nvswitches: tuple[int, ...]
    switches: tuple[int, ...]
    links: tuple[CableLine, ...]
    declared_links: int
    npus_per_server: int | None = None
    npu_model: str | None = None


@dataclass(frozen=True, slots=True)
class LogicalDims:
    """ns-3's logical dimensions: sizes only, no wiring."""

    counts: tuple[int, ...]


def recognise(text: str) -> bool:
    """Whether this is one of ASTRA-sim's network files."""
    if re.search(r'(?m)^[ \t]*"?npus_count"?[ \t]*:|"units-count"\s*:|"logical-dims"\s*:', text):
        return True
    return _HEADER.match(text) is not None and _LINK.search(text[:200_000]) is not None


def parse_astra_sim(text: str, *, file: str) -> tuple[Dimension, ...] | LinkList | LogicalDims:
    """Read any of them. Raises UsageError naming file, line and field."""
    if _HEADER.match(text):
        return _link_list(text, file)
    document = read_document(text, file=file)
    data = mapping(document, (), None)
    if "logical-dims" in data:
        counts = [_whole(document, "logical-dims", i) for i in _each(document, "logical-dims")]
        return LogicalDims(tuple(counts))
    return _dimensions(document)


def _dimensions(document: Document) -> tuple[Dimension, ...]:
    keys = {
        field: next((k for k in names if k in document.data), names[0])
        for field, names in _KEYS.items()
    }
    shapes = [_shape(document, keys["topology"], i) for i in _each(document, keys["topology"])]
    if not shapes:
        raise UsageError(
            "no dimensions", where=document.where(keys["topology"]), expected="topology: [ Ring ]"
        )
    for field in ("npus_count", "bandwidth", "latency"):
        found = len(_each(document, keys[field]))
        if found != len(shapes):
            raise UsageError(
                f"{found} entries for {len(shapes)} dimensions",
                where=document.where(keys[field]),
                expected="one per dimension",
            )
    counts = [_whole(document, keys["npus_count"], i) for i in range(len(shapes))]
    if math.prod(counts) > MAX_NODES:
        raise UsageError(
            f"{math.prod(counts)} NPUs",
            where=document.where(keys["npus_count"]),
            expected=f"at most {MAX_NODES}",
        )
    return tuple(
        Dimension(
            shape,
            count,
            GBps=_figure(document, keys["bandwidth"], i, above_zero=True),
            latency_us=_ns_to_us(_figure(document, keys["latency"], i)),
        )
        for i, (shape, count) in enumerate(zip(shapes, counts, strict=True))
    )


def _each(document: Document, key: str) -> range:
    """Indices of the list at ``key``; a bare value counts as none."""
    return range(len(sequence(document, (key,))))


def _shape(document: Document, key: str, i: int) -> Shape:
    value = at(document, (key, i))
    word = _SPELLINGS.get(str(value).lower(), value)
    for shape in SHAPES:
        if str(word).lower() == shape.lower():
            return shape  # type: ignore[return-value]  # one of Shape's words
    raise unknown("topology", str(value)[:60], SHAPES, where=document.where(key, i))


def _whole(document: Document, key: str, i: int) -> int:
    value = at(document, (key, i))
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value):
        value = int(value)  # logical-dims are written as text
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_NODES:
        raise UsageError(
            f"{str(value)[:60]!r}", where=document.where(key, i), expected=f"1 to {MAX_NODES}"
        )
    return value


def _figure(document: Document, key: str, i: int, *, above_zero: bool = False) -> float | None:
    """A number; None for a word in its place (``tbd``)."""
    value = at(document, (key, i))
    if isinstance(value, str):
        try:
            value = float(value)  # YAML 1.1 reads 1e3 as text
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(
            f"{str(value)[:60]!r}", where=document.where(key, i), expected="a number or tbd"
        )
    if not math.isfinite(value) or value < 0 or (above_zero and value == 0):
        raise UsageError(
            f"{str(value)[:60]}", where=document.where(key, i), expected="a finite positive number"
        )
    return float(value)


def _ns_to_us(value: float | None) -> float | None:
    return None if value is None else value / 1000


def _link_list(text: str, file: str) -> LinkList:
    if len(text) > MAX_CHARACTERS:
        raise UsageError(
            f"{len(text)} characters", where=file, expected=f"at most {MAX_CHARACTERS}"
        )
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.strip())
    words = lines[start].split()
    numbers = [int(word) for word in words if word.isdigit()]
    simai = len(words) > 3
    if simai and len(numbers) < 5:
        raise UsageError(
            f"{len(words)} words",
            where=f"{file}:{start + 1}",
            expected="nodes gpus_per_server nvswitches switches links gpu_type",
        )
    nodes, per_server, nv_count, switch_count, declared = (
        numbers[:5] if simai else (numbers[0], None, 0, numbers[1], numbers[2])
    )
    if not 1 <= nodes <= MAX_NODES or nv_count + switch_count > nodes:
        raise UsageError(
            f"{nodes} nodes, {nv_count + switch_count} of them switches",
            where=f"{file}:{start + 1}",
            expected=f"1 to {MAX_NODES} nodes and no more switches than nodes",
        )
    ids, rest = _switch_ids(lines, start + 1, nv_count + switch_count, nodes, file)
    links = [
        _cable(line, number, nodes, file)
        for number, line in enumerate(lines[rest:], rest + 1)
        if line.strip()
    ]
    return LinkList(
        nodes=nodes,
        nvswitches=ids[:nv_count],
        switches=ids[nv_count:],
        links=tuple(links),
        declared_links=declared,
        npus_per_server=per_server,
        npu_model=next((w for w in words if not w.isdigit()), None),
    )


def _switch_ids(
    lines: Sequence[str], start: int, count: int, nodes: int, file: str
) -> tuple[tuple[int, ...], int]:
    """``count`` ids from line ``start`` on, which may be several lines or one empty one."""
    ids: list[int] = []
    while len(ids) < count:
        if start >= len(lines):
            raise UsageError(
                f"{len(ids)} switch ids", where=f"{file}:{start}", expected=f"{count} ids"
            )
        for word in lines[start].split():
            if not re.fullmatch(r"[0-9]{1,9}", word) or int(word) >= nodes or len(ids) == count:
                raise UsageError(
                    f"{word[:60]!r}",
                    where=f"{file}:{start + 1}",
                    expected=f"the ids of {count} switches, each below {nodes}",
                )
            ids.append(int(word))
        start += 1
    if len(set(ids)) < len(ids):
        raise UsageError("a switch id twice", where=f"{file}:{start}", expected="each id once")
    return tuple(ids), start


def _cable(line: str, number: int, nodes: int, file: str) -> CableLine:
    where = f"{file}:{number}"
    words = line.split()
    rate = _RATE.fullmatch(words[2]) if len(words) in (4, 5) else None
    delay = _DELAY.fullmatch(words[3]) if rate else None
    if rate is None or delay is None or not all(re.fullmatch(r"[0-9]{1,9}", w) for w in words[:2]):
        raise UsageError(
            f"{line.strip()[:60]!r} is no link", where=where, expected="src dst 400Gbps 0.0005ms 0"
        )
    src, dst = int(words[0]), int(words[1])
    if src >= nodes or dst >= nodes or src == dst:
        raise UsageError(
            f"a link from {src} to {dst}", where=where, expected=f"two nodes below {nodes}"
        )
    try:
        bits = float(rate[1]) * _BITS[rate[2]]
        latency_us = float(delay[1]) * _MICROSECONDS[delay[2]]
        error_rate = float(words[4]) if len(words) == 5 else 0.0
    except ValueError:
        raise UsageError(
            f"{line.strip()[:60]!r} is no link", where=where, expected="src dst 400Gbps 0.0005ms 0"
        ) from None
    if not (0 < bits < math.inf and 0 <= latency_us < math.inf):
        raise UsageError(f"{words[2]} {words[3]}", where=where, expected="finite figures above 0")
    return CableLine(src, dst, bits / 8e9, latency_us, error_rate, number)
