"""Numbers and names as a picture says them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from clusterlab.topology.failures.faults import total
from clusterlab.topology.parts import Link

CLASS_NAMES = {
    "nvlink": "NVLink",
    "xgmi": "xGMI",
    "c2c": "C2C",
    "pcie": "PCIe",
    "upi": "socket link",
    "ib": "InfiniBand",
    "ethernet": "Ethernet",
    "memory": "memory",
}


def plural(count: int, noun: str) -> str:
    """``1 leaf``, ``8 leaves``, ``2,048 PCIe switches``."""
    if count != 1:
        noun = (
            "leaves"
            if noun == "leaf"
            else noun + ("es" if noun.lower().endswith("switch") else "s")
        )
    return f"{count:,} {noun}"


def GBps_text(GBps: float | None) -> str:
    """``48 GB/s``, ``12.3 TB/s``, ``unknown GB/s``."""
    if GBps is None:
        return "unknown GB/s"
    if GBps >= 10_000:
        return f"{GBps / 1000:,.4g} TB/s"
    return f"{GBps:,.4g} GB/s"


def whole_GBps(links: Iterable[Link]) -> float | None:
    """What the links carry together when nothing is down; None when a rate is unknown."""
    return total(None if k.GBps is None else k.GBps * k.multiplicity for k in links)


def live_GBps(links: Iterable[Link]) -> float | None:
    """What the links carry now; None when a rate is unknown."""
    return total(k.capacity_GBps for k in links)


def cables(links: Iterable[Link]) -> int:
    """How many cables or lanes the links are."""
    return sum(k.multiplicity for k in links)


def common_prefix(names: Sequence[str]) -> str:
    """What all names begin with, up to where their numbers begin; nothing for a single name."""
    if len(names) < 2:
        return ""
    first, last = min(names), max(names)
    length = 0
    while length < min(len(first), len(last)) and first[length] == last[length]:
        length += 1
    while length and first[length - 1].isdecimal():
        length -= 1
    return first[:length]


def printable(text: str) -> str:
    """``text`` without what XML 1.0 cannot hold."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
