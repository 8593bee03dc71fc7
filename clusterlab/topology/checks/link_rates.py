"""Links that run slower than their siblings. Pure.

Siblings are the parallel cables of one connection, and the same adapters of hosts of one kind on one leaf.
Links of other hosts or other generations are no siblings: a QDR host on an FDR switch is as it should be.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from clusterlab.core.findings import Finding, Severity
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import SWITCH_KINDS, DeviceKind, Link

_MOST = 2 / 3
_SHOWN = 12


@dataclass(frozen=True, slots=True)
class _Slow:
    link: Link
    usual: float


def degraded_links(fabric: Fabric) -> list[Finding]:
    """One finding for the links whose width or speed is below that of most siblings."""
    slow = _slow(fabric)
    if not slow:
        return []
    lines = [_said(fabric, s) for s in slow]
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
    tier = {d.name: d.kind for kind in SWITCH_KINDS for d in fabric.of_kind(kind)}
    to_hosts: defaultdict[Hashable, list[Link]] = defaultdict(list)
    between: list[Link] = []
    for link in fabric.network_links:
        if link.health <= 0 or _rate(link) is None or link.dst not in tier:
            continue
        if link.src in tier:
            # Both directions are in the fabric; the one that goes up stands for both.
            if _step(tier, link.src) < _step(tier, link.dst):
                between.append(link)
        elif (kind := _host_kind(fabric, link.src)) is not None:
            to_hosts[link.dst, kind].append(link)
    found = [s for links in to_hosts.values() for s in _below(links, _usual(links))]
    return found + _slow_between(between, tier)


def _step(tier: Mapping[str, str], switch: str) -> tuple[int, str]:
    return SWITCH_KINDS.index(cast(DeviceKind, tier[switch])), switch


def _slow_between(links: Sequence[Link], tier: Mapping[str, str]) -> list[_Slow]:
    """Links between switches that are slower than what both ends usually run to the other's tier, or
    than most of their parallel cables: a whole switch of an older generation is not degraded.
    """
    groups: defaultdict[Hashable, list[Link]] = defaultdict(list)
    for link in links:
        groups["pair", link.src, link.dst].append(link)
        groups["up", link.src, tier[link.dst]].append(link)
        groups["down", link.dst, tier[link.src]].append(link)
    usual = {key: _usual(own, fewest=2) for key, own in groups.items()}
    found = []
    for link in links:
        parallel = usual["pair", link.src, link.dst]
        ends = (usual["up", link.src, tier[link.dst]], usual["down", link.dst, tier[link.src]])
        both = None if None in ends else min(rate for rate in ends if rate is not None)
        expected = max((rate for rate in (parallel, both) if rate is not None), default=None)
        found += _below([link], expected)
    return found


def _below(links: Sequence[Link], usual: float | None) -> list[_Slow]:
    if usual is None:
        return []
    return [_Slow(link, usual) for link in links if (_rate(link) or usual) < usual]


def _host_kind(fabric: Fabric, nic: str) -> Hashable | None:
    """Hosts whose names differ in numbers only, with the same adapter model, are of one kind. Of unknown
    models none is: an older adapter is not a degraded one.
    """
    device = fabric.device(nic)
    if device.host is None or device.model is None or device.role == "aggregation":
        return None
    return re.sub(r"\d+", "#", device.host), device.model


def _usual(links: Sequence[Link], *, fewest: int = 3) -> float | None:
    """The rate of most cables; None where they are too few or do not agree."""
    count: Counter[float] = Counter()
    for link in links:
        rate = _rate(link)
        if rate is not None:
            count[rate] += link.multiplicity
    if not count:
        return None
    rate, agreeing = count.most_common(1)[0]
    return rate if agreeing >= fewest and agreeing >= _MOST * count.total() else None


def _rate(link: Link) -> float | None:
    return link.wire_GBps if link.wire_GBps is not None else link.GBps


def _said(fabric: Fabric, slow: _Slow) -> str:
    link = slow.link
    numbers = [
        port
        for back in fabric.links_from(link.dst)
        if back.dst == link.src and _rate(back) == _rate(link)
        for port in back.ports
    ]
    where = f" (port {', '.join(map(str, sorted(numbers)))} of {link.dst})" if numbers else ""
    source = link.wire_source.rpartition(": ")[2] or f"{_rate(link):g} GB/s"
    cables = f"{link.multiplicity} cable{'s' if link.multiplicity > 1 else ''}"
    return f"{link.src} – {link.dst}: {cables} at {source}{where}, siblings run {slow.usual:g} GB/s"
