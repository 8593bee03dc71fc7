"""hwloc's XML (``lstopo --of xml``), versions 1 to 3: the tree of objects and the matrices beside it.

Version 1 files name none and call a package Socket. ``osdev_type`` is an index in versions 1 and 2
and a bit mask in 3 (hwloc.h, hwloc_obj_osdev_type_e), so the version is read first.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from clusterlab.core.errors import UsageError
from clusterlab.formats.xml_tree import Element, parse_xml

MAX_DISTANCE_OBJECTS = 1024

_V2_OSDEVS = ("storage", "gpu", "network", "openfabrics", "dma", "coproc")
_V3_OSDEVS = ("storage", "memory", "gpu", "coproc", "network", "openfabrics", "dma")
_KINDS = {"Socket": "Package"}
_PCI_TYPE = re.compile(r"([0-9a-fA-F]{4})(?: \[([0-9a-fA-F]{4}):([0-9a-fA-F]{4})\])?.*")
_BITMAP = re.compile(r"(?:0x[0-9a-fA-F]{1,32}|0x)?(?:,(?:0x)?[0-9a-fA-F]{0,8})*")
_ROOT = re.compile(r"<topology[\s>]")
_OBJECT = re.compile(
    r"<object\s[^>]*\btype=[\"'](?:Machine|System|Package|Socket|NUMANode|PU)[\"']"
)


@dataclass(frozen=True, slots=True)
class LstopoObject:
    """One object. ``cpuset`` and ``nodeset`` are bit masks, None where absent or unbounded.

    ``pci_class``, ``vendor``, ``device``: four hex digits each; ``link_GBps``: the PCI link's rate per
    direction, None for 0. ``osdev``: what an OS device is (``gpu``, ``openfabrics``, …).
    ``host_bridge``: a bridge from the CPU to PCI, not between PCI buses.
    """

    kind: str
    line: int
    os_index: int | None = None
    gp_index: int | None = None
    name: str | None = None
    subtype: str | None = None
    cpuset: int | None = None
    nodeset: int | None = None
    memory_bytes: int | None = None
    pci: str | None = None
    pci_class: str | None = None
    vendor: str | None = None
    device: str | None = None
    link_GBps: float | None = None
    host_bridge: bool = False
    osdev: frozenset[str] = frozenset()
    infos: Mapping[str, str] = field(default_factory=dict)
    children: tuple[LstopoObject, ...] = ()

    def walk(self) -> Iterator[LstopoObject]:
        """This object and all below it, in the file's order."""
        pending = [self]
        while pending:
            found = pending.pop()
            yield found
            pending.extend(reversed(found.children))


@dataclass(frozen=True, slots=True)
class LstopoMatrix:
    """A matrix between objects, row by row. ``objects``: gp_index of each."""

    name: str
    line: int
    objects: tuple[int, ...]
    values: tuple[int, ...]


@dataclass(frozen=True)
class Lstopo:
    """A file: XML version (major), the Machine, the file's own infos, matrices of gp-indexed objects.

    ``unreadable``: lines of matrices that do not have a value for each pair.
    """

    version: int
    machine: LstopoObject
    infos: Mapping[str, str]
    matrices: tuple[LstopoMatrix, ...]
    unreadable: tuple[int, ...] = ()


def recognise(text: str) -> bool:
    """True for hwloc's root element with one of its objects below."""
    head = text[:20_000]
    return bool(_ROOT.search(head) and _OBJECT.search(head))


def parse_lstopo_xml(text: str, *, file: str) -> Lstopo:
    """The objects and matrices in ``text``. Raises UsageError, naming the line."""
    root = parse_xml(text, file=file, allow_doctype=True)
    if root.tag != "topology":
        raise UsageError(
            f"root element <{root.tag}>",
            where=f"{file}:{root.line}",
            expected="<topology> of hwloc (lstopo --of xml)",
        )
    version = _version(root, file)
    objects = [child for child in root.children if child.tag == "object"]
    if not objects:
        raise UsageError(
            "a topology without objects",
            where=f"{file}:{root.line}",
            expected='<object type="Machine" …>',
        )
    machine = _object(objects[0], version)
    matrices, unreadable = _matrices(root)
    return Lstopo(version, machine, _infos(root), tuple(matrices), tuple(unreadable))


def _version(root: Element, file: str) -> int:
    stated = root.attributes.get("version", "1.0")
    major = stated.split(".")[0]
    if major not in {"1", "2", "3"}:
        raise UsageError(
            f"hwloc XML version {stated[:20]!r}",
            where=f"{file}:{root.line}",
            expected="1, 2 or 3",
            fix="export with lstopo --export-xml-flags v2" if major.isdigit() else None,
        )
    return int(major)


def _object(element: Element, version: int) -> LstopoObject:
    said = element.attributes
    pci = _PCI_TYPE.fullmatch(said.get("pci_type", ""))
    kind = said.get("type", "")
    return LstopoObject(
        kind=_KINDS.get(kind, kind),
        line=element.line,
        os_index=_whole(said.get("os_index")),
        gp_index=_whole(said.get("gp_index")),
        name=said.get("name"),
        subtype=said.get("subtype"),
        cpuset=_bits(said.get("cpuset")),
        nodeset=_bits(said.get("nodeset")),
        memory_bytes=_whole(said.get("local_memory")),
        pci=said.get("pci_busid"),
        pci_class=pci[1].lower() if pci else None,
        vendor=pci[2].lower() if pci and pci[2] else None,
        device=pci[3].lower() if pci and pci[3] else None,
        link_GBps=_rate(said.get("pci_link_speed")),
        host_bridge=said.get("bridge_type", "").startswith("0-"),
        osdev=_osdev(said.get("osdev_type"), version),
        infos=_infos(element),
        children=tuple(_object(c, version) for c in element.children if c.tag == "object"),
    )


def _infos(element: Element) -> dict[str, str]:
    return {
        name: child.attributes.get("value", "")
        for child in element.children
        if child.tag == "info" and (name := child.attributes.get("name"))
    }


def _whole(said: str | None) -> int | None:
    return int(said) if said and said.isascii() and said.isdigit() and len(said) < 20 else None


def _rate(said: str | None) -> float | None:
    try:
        rate = float(said) if said is not None else 0.0
    except ValueError:
        return None
    return rate if 0 < rate < math.inf else None


def _bits(said: str | None) -> int | None:
    """A bit mask of 32-bit words, highest first; None for one without end (``0xf...f``)."""
    if said is None or len(said) > 20_000 or not _BITMAP.fullmatch(said):
        return None
    mask = 0
    for word in said.split(","):
        mask = (mask << 32) | int(word.removeprefix("0x") or "0", 16)
    return mask


def _osdev(said: str | None, version: int) -> frozenset[str]:
    number = _whole(said)
    if number is None:
        return frozenset()
    if version < 3:
        return frozenset(_V2_OSDEVS[number : number + 1])
    return frozenset(name for bit, name in enumerate(_V3_OSDEVS) if number >> bit & 1)


def _matrices(root: Element) -> tuple[list[LstopoMatrix], list[int]]:
    """The named matrices whose objects are given by gp_index, and the lines of broken ones."""
    found: list[LstopoMatrix] = []
    unreadable: list[int] = []
    for element in root.children:
        said = element.attributes
        by_gp = element.tag == "distances2hetero" or said.get("indexing") == "gp"
        if element.tag not in {"distances2", "distances2hetero"} or not by_gp or "name" not in said:
            continue
        words = _words(element, "indexes")
        objects = [_whole(word.rpartition(":")[2]) for word in words]
        values = [_whole(word) for word in _words(element, "u64values")]
        known_objects = tuple(o for o in objects if o is not None)
        known_values = tuple(v for v in values if v is not None)
        size = len(known_objects)
        whole = size == len(objects) and size**2 == len(known_values) == len(values)
        if not whole or size > MAX_DISTANCE_OBJECTS:
            unreadable.append(element.line)
            continue
        found.append(LstopoMatrix(said["name"], element.line, known_objects, known_values))
    return found, unreadable


def _words(element: Element, tag: str) -> list[str]:
    return [word for child in element.children if child.tag == tag for word in child.text.split()]
