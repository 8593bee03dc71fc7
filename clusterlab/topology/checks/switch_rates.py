"""Switches all of whose links run slower than those of their equals. Pure.

Within such a switch everything agrees, so comparing siblings (``link_rates``) shows nothing. Equals are
switches of one tier and model that serve the same kind of hosts. Two speeds by design (a storage pod, an
older row) show on more than a few switches, or on those of another model or with other hosts.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass

from clusterlab.core.findings import Finding, Severity
from clusterlab.topology.checks.evidence import MOST_LINKS, bounded, rate
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import SWITCH_KINDS, Device, Link

_FEW = 1 / 8
"""The part of the equals that may be at fault; one always may."""

_FEWEST = 4


@dataclass(frozen=True, slots=True)
class _Pace:
    """What the live cables of a switch to one other tier run at, where all agree."""

    switch: str
    other: str
    GBps: float
    cables: int


def slow_switches(fabric: Fabric) -> list[Finding]:
    """One finding for the switches whose links to another tier all run below their equals' links."""
    lines, names = [], []
    for paces in _equals(fabric).values():
        usual, agreeing = Counter(pace.GBps for pace in paces).most_common(1)[0]
        if len(paces) < _FEWEST or len(paces) - agreeing > max(1, _FEW * len(paces)):
            continue
        for pace in paces:
            if pace.GBps < usual:
                names.append(pace.switch)
                lines.append(
                    f"{pace.switch}: all {pace.cables} cables to the {pace.other} switches run "
                    f"{rate(pace.GBps)}; those of {agreeing} of {len(paces)} equal switches run {rate(usual)}"
                )
    if not lines:
        return []
    return [
        Finding(
            "slow_switch",
            Severity.WARNING,
            bounded(lines, "switches"),
            "look at the speed that its ports are set to and may use (ibportstate, mlxlink), its firmware "
            "and its type of cables and transceivers",
            links=tuple(names[:MOST_LINKS]),
        )
    ]


def _equals(fabric: Fabric) -> dict[Hashable, list[_Pace]]:
    found: defaultdict[Hashable, list[_Pace]] = defaultdict(list)
    for kind in SWITCH_KINDS:
        for switch in fabric.of_kind(kind):
            hosts = _hosts(fabric, switch) if kind == "leaf" else None
            for pace in _paces(fabric, switch):
                # A spine is judged by what it gives to leaves, a leaf by what it gives to spines.
                found[kind, switch.model, switch.role, hosts, pace.other].append(pace)
    return found


def _paces(fabric: Fabric, switch: Device) -> Iterator[_Pace]:
    links: defaultdict[str, list[Link]] = defaultdict(list)
    for link in fabric.links_from(switch.name):
        far = fabric.device(link.dst)
        if far.kind in SWITCH_KINDS and far.kind != switch.kind and link.health > 0:
            links[far.kind].append(link)
    for other, own in links.items():
        rates = {_rate(link) for link in own}
        only = next(iter(rates)) if len(rates) == 1 else None
        if only is not None:
            yield _Pace(switch.name, other, only, sum(link.multiplicity for link in own))


def _hosts(fabric: Fabric, leaf: Device) -> Hashable:
    """What most ports below a leaf are: the host's role, its name without numbers, and the port's rate."""
    ends: Counter[Hashable] = Counter()
    for link in fabric.links_from(leaf.name):
        nic = fabric.device(link.dst)
        if nic.kind == "nic" and nic.role != "aggregation":
            ends[nic.role, re.sub(r"\d+", "#", nic.host or ""), _rate(link)] += link.multiplicity
    return max(ends, key=lambda end: (ends[end], str(end)), default=None)


def _rate(link: Link) -> float | None:
    return link.wire_GBps if link.wire_GBps is not None else link.GBps
