"""Uplinks that a switch lacks, judged by the switches beside it. Pure.

Switches of one tier that share half or more of their upper switches are peers (a pod, a rail group, a small
fabric's leaves). What most peers have to an upper switch is expected of each; a peer that has as many
uplinks in all as the others is wired differently, not wrongly.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clusterlab.core.findings import Finding, Severity
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import DeviceKind

_STEPS: tuple[tuple[DeviceKind, DeviceKind], ...] = (("leaf", "spine"), ("spine", "core"))

_MOST = 0.6
"""The part of the peers that must agree before one that differs is a fault."""

_PEERS = 3
"""Fewer peers than this agree by chance."""

Ports = Mapping[tuple[str, str], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class _Short:
    """A switch with fewer cables to an upper switch than its peers."""

    upper: str
    found: int
    expected: int


def uplinks(fabric: Fabric, *, ports: Ports | None = None) -> list[Finding]:
    """Missing and uneven uplinks of leaves and spines; one finding a switch and kind of fault."""
    findings = []
    for lower, upper in _STEPS:
        cables = _cables(fabric, lower, upper)
        for switch, short in _short(cables).items():
            findings += _findings(switch, short, cables[switch], ports or {})
    return findings


def _cables(fabric: Fabric, lower: DeviceKind, upper: DeviceKind) -> dict[str, Counter[str]]:
    """Lower switch → live cables to each upper switch; 0 where there are some and all are down."""
    uppers = {d.name for d in fabric.of_kind(upper)}
    found: dict[str, Counter[str]] = {}
    for switch in fabric.of_kind(lower):
        count: Counter[str] = Counter()
        for link in fabric.links_from(switch.name):
            if link.dst in uppers:
                count[link.dst] += link.multiplicity if link.health > 0 else 0
        found[switch.name] = count
    return found


def _short(cables: Mapping[str, Counter[str]]) -> dict[str, list[_Short]]:
    alike: defaultdict[frozenset[str], list[Counter[str]]] = defaultdict(list)
    for own in cables.values():
        alike[frozenset(own)].append(own)
    near = {one: [other for other in alike if _near(one, other)] for one in alike}
    found: dict[str, list[_Short]] = {}
    for switch, own in cables.items():
        peers = [p for other in near[frozenset(own)] for p in alike[other] if p is not own]
        if len(peers) < _PEERS:
            continue
        usual = Counter(p.total() for p in peers).most_common(1)[0][0]
        if own.total() >= usual:
            continue
        short = []
        for upper, counts in sorted(_to_each(peers).items()):
            expected, agreeing = counts.most_common(1)[0]
            if agreeing > _MOST * len(peers) and own[upper] < expected:
                short.append(_Short(upper, own[upper], expected))
        if short and not _built_smaller(own, short):
            found[switch] = short
    return found


def _built_smaller(own: Counter[str], short: Sequence[_Short]) -> bool:
    """Whether it has fewer cables to every upper switch, and as many to each: a smaller leaf (storage,
    management) is built so; faults do not spread that evenly.
    """
    everywhere = len(short) > 1 and {s.upper for s in short} == own.keys()
    return everywhere and own.total() > 0 and len(set(own.values())) == 1


def _near(one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether two switches share at least half of the upper switches of either."""
    common = len(one & other)
    return common > 0 and 2 * common >= len(one | other)


def _to_each(peers: Sequence[Counter[str]]) -> dict[str, Counter[int]]:
    """Upper switch → how many peers have 1, 2, … cables to it."""
    found: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for peer in peers:
        for upper, count in peer.items():
            found[upper][count] += 1
    return found


def _findings(
    switch: str, short: Sequence[_Short], own: Counter[str], ports: Ports
) -> list[Finding]:
    lost = sum(s.expected - s.found for s in short)
    share = f"{own.total()} uplinks live, {own.total() + lost} by the pattern"
    findings = []
    for code, some in (
        ("missing_uplinks", [s for s in short if s.found == 0]),
        ("uneven_parallel_links", [s for s in short if s.found]),
    ):
        if some:
            findings.append(
                Finding(
                    code,
                    Severity.WARNING,
                    (f"{switch}: {share}", *(_said(switch, s, ports) for s in some)),
                    "check cables, transceivers and port state at both ends of the missing links",
                    links=tuple(f"{switch}/{s.upper}" for s in some),
                )
            )
    return findings


def _said(switch: str, short: _Short, ports: Ports) -> str:
    numbers = ports.get((switch, short.upper), ())
    live = f" (up: port {', '.join(map(str, numbers))})" if numbers else ""
    return f"{short.found} of {short.expected} cables to {short.upper}{live}"
