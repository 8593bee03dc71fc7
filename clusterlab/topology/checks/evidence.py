"""Evidence that stays readable: a thousand equal faults are one finding with a few lines."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

from clusterlab.core.order import natural
from clusterlab.formats.hostlist import compress_hostlist
from clusterlab.topology.fabric import Fabric

MOST_LINES = 10
MOST_LINKS = 100
_MOST_CHARACTERS = 60

Key = TypeVar("Key", bound=Hashable)


def bounded(lines: Sequence[str], what: str = "more") -> tuple[str, ...]:
    """The first lines, and how many there are besides."""
    if len(lines) <= MOST_LINES:
        return tuple(lines)
    return (*lines[:MOST_LINES], f"… and {len(lines) - MOST_LINES} {what}")


def names_text(names: Sequence[str], what: str) -> str:
    """``n[0-31] (32 hosts)``, or a few of them where the list would be long."""
    if len(names) == 1:
        return names[0]
    ordered = sorted(names, key=natural)
    text = compress_hostlist(ordered)
    if len(text) > _MOST_CHARACTERS:
        text = ", ".join(ordered[:3]) + ", …"
    return f"{text} ({len(names)} {what})"


def hosts_text(hosts: Sequence[str]) -> str:
    """Hosts, compressed."""
    return names_text(hosts, "hosts")


def merged(items: Iterable[tuple[str, str, str]], what: str) -> tuple[str, ...]:
    """Bounded lines of (name, remark, text); names with the same text share a line, without remarks."""
    by_text: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for name, remark, text in items:
        by_text[text].append((name, remark))
    return bounded(
        [
            f"{names[0][0] + names[0][1] if len(names) == 1 else names_text([n for n, _ in names], what)}"
            f": {text}"
            for text, names in by_text.items()
        ]
    )


def port_numbers(fabric: Fabric, device: str, other: str) -> tuple[int, ...]:
    """The ports of ``device`` that its cables to ``other`` are in, as far as a source tells."""
    return tuple(
        sorted(port for k in fabric.links_from(device) if k.dst == other for port in k.ports)
    )


def at_port(fabric: Fabric, device: str, other: str) -> str:
    """``leaf3 port 7``: where the cable to ``other`` is plugged in; the device alone where nobody knows."""
    numbers = port_numbers(fabric, device, other)
    return f"{device} port {', '.join(map(str, numbers))}" if numbers else device


def rate(GBps: float | None) -> str:
    """``48 GB/s``."""
    return "unknown GB/s" if GBps is None else f"{GBps:.4g} GB/s"


def usual(values: Counter[Key]) -> Key | None:
    """The value that most have; None where it is not more than half of at least three."""
    if values.total() < 3:
        return None
    value, count = values.most_common(1)[0]
    return value if 2 * count > values.total() else None
