"""NCCL's and RCCL's topology XML (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE) as plain data.

Grammar: NVIDIA/nccl src/graph/xml.cc and topo.cc. Numbers are kept as the file has them (Mb/s, µs).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from clusterlab.core.errors import UsageError
from clusterlab.formats.nccl_tables import PcieRate, gigatransfers, pcie_rate
from clusterlab.formats.xml_tree import Element, first_tag, parse_xml, without_comments

_BUS_ID = re.compile(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F]")
_MASK_WORD = re.compile(r"[0-9a-fA-F]{1,8}")
_INTEGER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]{1,16}|[0-9]{1,19})")
_NCCL_ELEMENTS = 256  # NCCL_TOPO_XML_MAX_NODES of versions 2.18 to 2.30
_MAX_CPUS = 1 << 16
_MAX_LANES = 32
_VERSIONS = (1, 2)  # NCCL wants 1, RCCL since 2.21 wants 2

_FABRICATED = ("pci", "busid", "bus_id", "gputype")
"""Attributes of <gpu> in examples on the web that NCCL has never written or read."""

_ELEMENTS = {"system", "cpu", "pci", "pcilink", "gpu", "nvlink", "xgmi", "c2c", "nic", "net"}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NcclGpuLink:
    """``<nvlink>``, ``<xgmi>`` or ``<c2c>``: ``count`` links to ``target`` of PCI class ``tclass``."""

    tag: str
    target: str | None
    count: int
    tclass: str | None
    MBps: int | None
    line: int


@dataclass(frozen=True, slots=True)
class NcclGpu:
    """``<gpu>``. ``sm`` is the compute capability times 10 (AMD: the number of compute units)."""

    dev: int | None
    sm: int | None
    gcn: str | None
    rank: int | None
    gdr: int | None
    links: tuple[NcclGpuLink, ...]
    line: int


@dataclass(frozen=True, slots=True)
class NcclNet:
    """``<net>``: a port. ``speed_Mbps`` and ``latency_us`` are None where they are absent."""

    name: str | None
    dev: int | None
    speed_Mbps: int | None
    port: int | None
    latency_us: float | None
    guid: str | None
    gdr: int | None
    coll: int | None
    maxconn: int | None
    rail: int | None
    plane: int | None
    line: int


@dataclass(frozen=True, slots=True)
class NcclPci:
    """``<pci>``: a switch (children), a GPU, a NIC, or a device that NCCL looks up itself (no class)."""

    bus_id: str
    pci_class: str | None
    vendor: str | None
    device: str | None
    subsystem_vendor: str | None
    subsystem_device: str | None
    link_speed: str | None
    link_width: int | None
    children: tuple[NcclPci, ...]
    gpus: tuple[NcclGpu, ...]
    nets: tuple[NcclNet, ...]
    has_nic: bool
    peers: tuple[str, ...]
    line: int


@dataclass(frozen=True, slots=True)
class NcclCpu:
    """``<cpu>``: a NUMA domain. ``nets`` are those of no PCI device, ``logical_cpus`` its affinity."""

    numa: int
    host_hash: str | None
    logical_cpus: tuple[int, ...] | None
    arch: str | None
    vendor: str | None
    family: int | None
    model: int | None
    children: tuple[NcclPci, ...]
    nets: tuple[NcclNet, ...]
    line: int


@dataclass(frozen=True, slots=True)
class NcclSystem:
    """The whole file. ``unreadable`` says, line by line, what NCCL's own reader stops at or passes over."""

    version: int | None
    cpus: tuple[NcclCpu, ...]
    unreadable: tuple[str, ...] = field(default=())


def recognise(text: str) -> bool:
    """Whether ``text`` begins as NCCL's topology XML (or a fragment of one) or its graph XML does."""
    tag, attributes = first_tag(text) or ("", "")
    if tag in {"system", "graphs"}:
        return True
    return (tag == "cpu" and "numaid" in attributes) or (tag == "pci" and "busid" in attributes)


def parse_nccl_xml(text: str, *, file: str) -> NcclSystem:
    """Read ``text``. Raises UsageError (``file:line``) for what is not NCCL's schema."""
    text = text.lstrip("\ufeff")
    root = parse_xml(text, file=file)
    where = f"{file}:{root.line}"
    if root.tag != "system":
        raise UsageError(
            f"the root element is <{root.tag}>",
            where=where,
            expected="<system version=…> around everything, as NCCL_TOPO_DUMP_FILE writes it",
            fix='wrap a fragment in <system version="1">' if root.tag in {"cpu", "pci"} else None,
        )
    _reject_fabricated(root, file)
    version = _integer(root, "version", file)
    if version is not None and version not in _VERSIONS:
        raise UsageError(
            f"topology version {version}", where=where, expected="1 (NCCL) or 2 (RCCL)"
        )
    cpus = tuple(_cpu(e, file) for e in root.children if e.tag == "cpu")
    if not cpus:
        raise UsageError(
            "no <cpu> in <system>",
            where=where,
            expected="<cpu numaid=…> elements with the PCI devices below them",
        )
    return NcclSystem(version, cpus, tuple(_unreadable(root, text)))


def stated_rate(pci: NcclPci) -> PcieRate | None:
    """The link above a device, from the speed and width written; None where either is not said."""
    GTps = gigatransfers(pci.link_speed or "")
    width = pci.link_width or 0
    return pcie_rate(GTps, width) if GTps and 1 <= width <= _MAX_LANES else None


def _reject_fabricated(root: Element, file: str) -> None:
    """Refuse schemas that NCCL does not have, rather than read half of them."""
    parents = {"cpu": "system", "gpu": "pci", "net": "nic", "nvlink": "gpu", "xgmi": "gpu"}
    for parent in root.walk():
        for child in parent.children:
            place = f"{file}:{child.line}"
            wanted = parents.get(child.tag)
            if wanted is not None and parent.tag != wanted:
                raise UsageError(
                    f"<{child.tag}> inside <{parent.tag}> is not NCCL's schema",
                    where=place,
                    expected=f"<{child.tag}> inside <{wanted}>",
                    fix="dump a real one with NCCL_TOPO_DUMP_FILE=topo.xml",
                )
            foreign = [a for a in _FABRICATED if a in child.attributes]
            if child.tag == "gpu" and foreign:
                raise UsageError(
                    f"<{child.tag} {foreign[0]}=…> is not NCCL's schema",
                    where=place,
                    expected="what NCCL_TOPO_DUMP_FILE writes: <cpu numaid=…>, <pci busid=…>, "
                    "<gpu dev=… sm=…>",
                    fix="dump a real one with NCCL_TOPO_DUMP_FILE=topo.xml",
                )


def _cpu(element: Element, file: str) -> NcclCpu:
    numa = _integer(element, "numaid", file)
    if numa is None:
        raise _missing("numaid", element, file)
    return NcclCpu(
        numa=numa,
        host_hash=element.attributes.get("host_hash"),
        logical_cpus=_affinity(element, file),
        arch=element.attributes.get("arch"),
        vendor=element.attributes.get("vendor"),
        family=_integer(element, "familyid", file),
        model=_integer(element, "modelid", file),
        children=_all(element, "pci", _pci, file),
        nets=_nets(element, file),
        line=element.line,
    )


def _pci(element: Element, file: str) -> NcclPci:
    bus_id = element.attributes.get("busid")
    if bus_id is None:
        raise _missing("busid", element, file)
    if not _BUS_ID.fullmatch(bus_id):
        raise UsageError(
            f"busid {bus_id[:40]!r}",
            where=f"{file}:{element.line}",
            expected="domain:bus:device.function in hexadecimal, such as 0000:1b:00.0",
        )
    width = element.attributes.get("link_width")
    attributes = element.attributes
    return NcclPci(
        bus_id=bus_id.lower(),
        pci_class=attributes.get("class"),
        vendor=attributes.get("vendor"),
        device=attributes.get("device"),
        subsystem_vendor=attributes.get("subsystem_vendor"),
        subsystem_device=attributes.get("subsystem_device"),
        link_speed=attributes.get("link_speed"),
        link_width=None if width in {None, ""} else _integer(element, "link_width", file),
        children=_all(element, "pci", _pci, file),
        gpus=_all(element, "gpu", _gpu, file),
        nets=_nets(element, file),
        has_nic=any(e.tag == "nic" for e in element.children),
        peers=tuple(e.attributes.get("target", "") for e in element.children if e.tag == "pcilink"),
        line=element.line,
    )


def _gpu(element: Element, file: str) -> NcclGpu:
    links = tuple(
        _gpu_link(e, file) for e in element.children if e.tag in {"nvlink", "xgmi", "c2c"}
    )
    return NcclGpu(
        dev=_integer(element, "dev", file),
        sm=_integer(element, "sm", file),
        gcn=element.attributes.get("gcn"),
        rank=_integer(element, "rank", file),
        gdr=_integer(element, "gdr", file),
        links=links,
        line=element.line,
    )


def _gpu_link(element: Element, file: str) -> NcclGpuLink:
    count = _integer(element, "count", file)
    if count is None:
        raise _missing("count", element, file)
    if not 0 <= count <= 1024:
        raise UsageError(
            f"count {count}", where=f"{file}:{element.line}", expected="the number of links"
        )
    MBps = _integer(element, "bw", file)
    if element.tag == "c2c" and MBps is None:
        raise _missing("bw", element, file)
    target = element.attributes.get("target")
    return NcclGpuLink(
        element.tag,
        target.lower() if target is not None else None,
        count,
        element.attributes.get("tclass"),
        MBps,
        element.line,
    )


def _nets(parent: Element, file: str) -> tuple[NcclNet, ...]:
    nics = (e for e in parent.children if e.tag == "nic")
    return tuple(net for nic in nics for net in _all(nic, "net", _net, file))


def _net(element: Element, file: str) -> NcclNet:
    latency = element.attributes.get("latency")
    try:
        latency_us = float(latency) if latency is not None else None
    except ValueError:
        raise UsageError(
            f"latency {latency!r}"[:60], where=f"{file}:{element.line}", expected="microseconds"
        ) from None
    if latency_us is not None and not 0 <= latency_us < 1e9:
        raise UsageError(
            f"latency {latency}"[:60], where=f"{file}:{element.line}", expected="0 µs or more"
        )
    return NcclNet(
        name=element.attributes.get("name"),
        dev=_integer(element, "dev", file),
        speed_Mbps=_integer(element, "speed", file),
        port=_integer(element, "port", file),
        latency_us=latency_us,
        guid=element.attributes.get("guid"),
        gdr=_integer(element, "gdr", file),
        coll=_integer(element, "coll", file),
        maxconn=_integer(element, "maxconn", file),
        rail=_integer(element, "rail", file),
        plane=_integer(element, "plane", file),
        line=element.line,
    )


def _all(parent: Element, tag: str, read: Callable[[Element, str], T], file: str) -> tuple[T, ...]:
    return tuple(read(e, file) for e in parent.children if e.tag == tag)


def _integer(element: Element, name: str, file: str) -> int | None:
    """An attribute as C's strtol(…, 0) reads it; None where it is absent."""
    text = element.attributes.get(name)
    if text is None:
        return None
    if not _INTEGER.fullmatch(text.strip()):
        raise UsageError(
            f"{name} {text[:40]!r}", where=f"{file}:{element.line}", expected="a whole number"
        )
    value = text.strip()
    return int(value, 16 if "x" in value.lower() else 10)


def _affinity(element: Element, file: str) -> tuple[int, ...] | None:
    """The CPU numbers of a mask in 32-bit words, most significant first; None where absent or empty."""
    text = element.attributes.get("affinity", "").strip()
    if not text:
        return None
    words = [word.strip() for word in text.split(",")]
    if len(words) * 32 > _MAX_CPUS or not all(_MASK_WORD.fullmatch(word) for word in words):
        raise UsageError(
            f"affinity {text[:40]!r}",
            where=f"{file}:{element.line}",
            expected="a mask of hexadecimal words, such as 00000000,0000ffff (not a list of CPUs)",
        )
    bits = [(i, int(word, 16)) for i, word in enumerate(reversed(words))]
    return tuple(32 * i + b for i, word in bits for b in range(32) if word >> b & 1)


def _missing(name: str, element: Element, file: str) -> UsageError:
    return UsageError(
        f"<{element.tag}> without {name}",
        where=f"{file}:{element.line}",
        expected=f"<{element.tag} {name}=…>, as NCCL_TOPO_DUMP_FILE writes it",
    )


def _unreadable(root: Element, text: str) -> list[str]:
    """What NCCL's own XML reader (xml.cc) does not take, though it is well-formed XML."""
    found = []
    if "version" not in root.attributes:
        found.append(f"line {root.line}: <system> without version")
    if text.lstrip().startswith("<?xml"):
        found.append("line 1: an XML declaration")
    plain = without_comments(text)
    tab = plain.find("\t")
    if tab >= 0:
        found.append(f"line {plain.count(chr(10), 0, tab) + 1}: a tab between elements")
    stray = next((e for e in root.walk() if e.text.strip()), None)
    if stray is not None:
        shown = stray.text.strip()[:20]
        found.append(f"line {stray.line}: text {shown!r} inside <{stray.tag}>")
    if re.search(r"<[^<>!?]*[\n\r][^<>]*>", plain):
        found.append("a line break inside a tag")
    foreign = sorted({e.tag for e in root.walk()} - _ELEMENTS)
    found.extend(f"<{tag[:40]}> elements, which it passes over" for tag in foreign[:8])
    elements = sum(1 for _ in root.walk())
    if elements > _NCCL_ELEMENTS and root.attributes.get("version", "1") == "1":
        found.append(f"{elements} elements, of which it reads at most {_NCCL_ELEMENTS}")
    return found
