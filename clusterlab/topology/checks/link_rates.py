"""Links that run slower than their siblings. Pure.

Siblings are the parallel cables of one connection, and the same adapters of hosts of one kind on one leaf.
Links of other hosts or other generations are no siblings: a QDR host on an FDR switch is as it should be.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from clusterlab.core.findings import Finding, Severity
from clusterlab.topology.fabric import SWITCH_KINDS, Fabric, Link

_MOST = 2 / 3
_FEWEST = 3
_SHOWN = 12

Ports = Mapping[tuple[str, str], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class _Slow:
    link: Link
    usual: float


def degraded_links(fabric: Fabric, *, ports: Ports | None = None) -> list[Finding]:
    """One finding for the links whose width or speed is below that of most siblings."""
    slow = _slow(fabric)
    if not slow:
        return []
    known = ports or {}
    lines = [_said(s, known) for s in slow]
    more = len(lines) - _SHOWN
    return [
        Finding(
            "degraded_links",
            Severity.WARNING,
            (*lines[:_SHOWN], *([f"… and {more} more"] if more > 0 else [])),
            "reseat or replace the cable or transceiver, then reset the port so that it retrains",
            links=tuple(f"{s.link.src}/{s.link.dst}" for s in slow),
        )
    ]


def _slow(fabric: Fabric) -> list[_Slow]:
    siblings: defaultdict[Hashable, list[Link]] = defaultdict(list)
    switches = {d.name for kind in SWITCH_KINDS for d in fabric.of_kind(kind)}
    tier = {d.name: d.kind for kind in SWITCH_KINDS for d in fabric.of_kind(kind)}
    for link in fabric.links:
        if link.health > 0 and _rate(link) is not None and link.dst in switches:
            if link.src in switches:
                # Both directions are in the fabric; the one that goes up stands for both.
                if (tier[link.src], link.src) < (tier[link.dst], link.dst):
                    siblings["between", link.src, link.dst].append(link)
                    siblings["beside", link.src, tier[link.dst]].append(link)
            elif (kind := _host_kind(fabric, link.src)) is not None:
                siblings["host", link.dst, kind].append(link)
    found: dict[tuple[str, str, float], _Slow] = {}
    for links in siblings.values():
        usual = _usual(links)
        for link in links:
            rate = _rate(link)
            if usual is not None and rate is not None and rate < usual:
                found.setdefault((link.src, link.dst, rate), _Slow(link, usual))
    return list(found.values())


def _host_kind(fabric: Fabric, nic: str) -> Hashable | None:
    """Hosts whose names differ in numbers only, with the same adapter model, are of one kind."""
    device = fabric.device(nic)
    if device.host is None or device.role == "aggregation":
        return None
    return re.sub(r"\d+", "#", device.host), device.model


def _usual(links: list[Link]) -> float | None:
    """The rate of most cables; None where they are too few or do not agree."""
    count: Counter[float] = Counter()
    for link in links:
        rate = _rate(link)
        if rate is not None:
            count[rate] += link.multiplicity
    if not count:
        return None
    rate, agreeing = count.most_common(1)[0]
    return rate if agreeing >= _FEWEST and agreeing >= _MOST * count.total() else None


def _rate(link: Link) -> float | None:
    return link.wire_GBps if link.wire_GBps is not None else link.GBps


def _said(slow: _Slow, ports: Ports) -> str:
    link = slow.link
    numbers = ports.get((link.dst, link.src), ())
    where = f" (port {', '.join(map(str, numbers))} of {link.dst})" if len(numbers) == 1 else ""
    source = link.wire_source.rpartition(": ")[2] or f"{_rate(link):g} GB/s"
    cables = f"{link.multiplicity} cable{'s' if link.multiplicity > 1 else ''}"
    return f"{link.src} – {link.dst}: {cables} at {source}{where}, siblings run {slow.usual:g} GB/s"
