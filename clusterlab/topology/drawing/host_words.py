"""What a picture of a host says: names, second lines, what its links carry. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from clusterlab.formats.hostlist import compress_hostlist
from clusterlab.topology.drawing.pci_tree import Cell
from clusterlab.topology.drawing.words import GBps_text, plural
from clusterlab.topology.parts import Device, Link


def link_classes(links: Iterable[Link]) -> dict[str, list[str]]:
    counts: Counter[tuple[str, float | None, float | None]] = Counter()
    for link in once(links):
        if link.src != link.dst:
            counts[link.link_class, link.GBps, link.wire_GBps] += link.multiplicity
    found: dict[str, list[str]] = {}
    for (link_class, rate, wire), count in counts.items():
        signalling = "" if wire is None or wire == rate else f" (wire {wire:g})"
        found.setdefault(link_class, []).append(
            f"{plural(count, 'link')} of {GBps_text(rate)}{signalling} each way"
        )
    return found


def once(links: Iterable[Link]) -> list[Link]:
    """Each connection once for its two directions, the worse direction; faults last, so drawn on top."""
    kept: dict[tuple[str, str, str, int], Link] = {}
    nth: Counter[tuple[str, str, str]] = Counter()
    for link in links:
        nth[link.src, link.dst, link.link_class] += 1
        number = nth[link.src, link.dst, link.link_class]
        a, b = sorted((link.src, link.dst))
        key = (a, b, link.link_class, number)
        if key not in kept or link.health < kept[key].health:
            kept[key] = link
    return sorted(kept.values(), key=lambda link: -link.health)


def cell_name(cell: Cell) -> str:
    return cell[0].name if len(cell) == 1 else compress_hostlist(d.name for d in cell)


def second_line(d: Device, cell: Cell) -> list[str]:
    if len(cell) > 1:
        return [plural(len(cell), "NIC")]
    if d.kind == "nic":
        if d.rail is not None:
            return [f"rail {d.rail}"]
        return [d.role] if d.role else []
    if d.kind == "gpu":
        return [] if d.numa is None else [f"NUMA {d.numa}"]
    return []


def cpu_words(d: Device) -> list[str]:
    """What a CPU's box may say, longest first."""
    numa = "" if d.numa is None else f"NUMA {d.numa}"
    cores = "" if d.cores is None else f"{d.cores} cores"
    choices = [
        [d.name, d.model or "", numa, cores],
        [d.name, numa, cores],
        [d.name, numa],
        [d.name],
    ]
    return [" · ".join(part for part in parts if part) for parts in choices]


def about_device(d: Device) -> str:
    parts = [
        d.name,
        d.kind,
        d.model,
        d.interface,
        d.cage,
        None if d.numa is None else f"NUMA {d.numa}",
    ]
    return ", ".join(part for part in parts if part)


def shorter(text: str) -> list[str]:
    """``text`` and shorter ways to say it."""
    found = [text]
    for word, short in (("host_bridge", "bridge"), ("pcie_switch", "switch"), ("NUMA ", "N")):
        if word in text:
            found.append(text.replace(word, short))
            found.append(text.replace(word, short[0]))
    return found
