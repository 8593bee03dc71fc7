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
from clusterlab.core.order import natural
from clusterlab.topology.checks.evidence import MOST_LINKS, port_numbers
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import DeviceKind

_STEPS: tuple[tuple[DeviceKind, DeviceKind], ...] = (("leaf", "spine"), ("spine", "core"))

_MOST = 0.6
"""The part of the peers that must agree before one that differs is a fault."""

_PEERS = 3
"""Fewer peers than this agree by chance."""

_SHOWN = 16


@dataclass(frozen=True, slots=True)
class Short:
    """A switch with fewer cables to an upper switch than its peers."""

    upper: str
    found: int
    expected: int


@dataclass(frozen=True, slots=True)
class Shortage:
    """A switch that lacks uplinks: how many it has in all, and to which upper switches it has too few."""

    switch: str
    found: int
    short: tuple[Short, ...]

    @property
    def lost(self) -> int:
        """Cables that are not there."""
        return sum(s.expected - s.found for s in self.short)

    @property
    def expected(self) -> int:
        """Uplinks by the pattern."""
        return self.found + self.lost


def uplinks(fabric: Fabric) -> list[Finding]:
    """Missing and uneven uplinks of leaves and spines: one finding a kind of fault, a line each switch,
    those that lack most first. A switch with both kinds is told with the missing ones.
    """
    by_code: dict[str, list[Shortage]] = {"missing_uplinks": [], "uneven_parallel_links": []}
    for shortage in shortages(fabric).values():
        gone = any(s.found == 0 for s in shortage.short)
        by_code["missing_uplinks" if gone else "uneven_parallel_links"].append(shortage)
    return [_finding(fabric, code, found) for code, found in by_code.items() if found]


def shortages(fabric: Fabric) -> dict[str, Shortage]:
    """Leaves and spines that lack uplinks, by name; kept in the fabric's memo, as several ask."""
    known: dict[str, Shortage] | None = fabric.memo.get("shortages")
    if known is None:
        known = fabric.memo["shortages"] = {}
        for lower, upper in _STEPS:
            cables = _cables(fabric, lower, upper)
            for switch, short in _short(cables).items():
                known[switch] = Shortage(switch, cables[switch].total(), tuple(short))
    return known


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


def _short(cables: Mapping[str, Counter[str]]) -> dict[str, list[Short]]:
    alike: defaultdict[frozenset[str], list[Counter[str]]] = defaultdict(list)
    for own in cables.values():
        alike[frozenset(own)].append(own)
    near = {one: [other for other in alike if _near(one, other)] for one in alike}
    found: dict[str, list[Short]] = {}
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
                short.append(Short(upper, own[upper], expected))
        if short and not _built_smaller(own, short):
            found[switch] = short
    return found


def _built_smaller(own: Counter[str], short: Sequence[Short]) -> bool:
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


def _finding(fabric: Fabric, code: str, found: Sequence[Shortage]) -> Finding:
    ordered = sorted(found, key=lambda s: (-s.lost, natural(s.switch)))
    more = len(ordered) - _SHOWN
    lines = [_said(fabric, shortage) for shortage in ordered[:_SHOWN]]
    return Finding(
        code,
        Severity.WARNING,
        (*lines, *([f"… and {more} more switches"] if more > 0 else [])),
        "check cables, transceivers and port state at both ends of the missing links",
        links=tuple(f"{s.switch}/{t.upper}" for s in ordered for t in s.short)[:MOST_LINKS],
    )


def _said(fabric: Fabric, shortage: Shortage) -> str:
    """``leaf3: 14 uplinks live, 18 by the pattern: 0 of 2 cables to spine1, 0 of 2 cables to spine4``."""
    each = ", ".join(_lacking(fabric, shortage.switch, short) for short in shortage.short)
    down = sum(
        k.multiplicity
        for k in fabric.links_from(shortage.switch)
        if fabric.device(k.dst).kind == "nic" and fabric.device(k.dst).role in (None, "compute")
    )
    for_ports = f" for {down} host ports" if down else ""
    return (
        f"{shortage.switch}: {shortage.found} uplinks live{for_ports}, {shortage.expected} by the "
        f"pattern: {each}"
    )


def _lacking(fabric: Fabric, switch: str, short: Short) -> str:
    numbers = port_numbers(fabric, switch, short.upper)
    live = f" (up: port {', '.join(map(str, numbers))})" if numbers else ""
    return f"{short.found} of {short.expected} cables to {short.upper}{live}"
