"""Cables that a network of leaves and spines does not have elsewhere: leaf to leaf, host to spine, uplinks
exchanged between leaves. Pure; each judged by what nearly all others do.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from clusterlab.core.findings import Finding, Severity
from clusterlab.core.order import natural
from clusterlab.topology.checks.evidence import MOST_LINKS, at_port, bounded
from clusterlab.topology.checks.rail_names import rail_said
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.rails.infer import infer_rails

_FEW = 0.1
"""Leaves cabled to each other are a mistake where they are at most this part of the leaves, or two."""

_FEWEST = 4

_AGREE = 0.8
"""The part of the other leaves that must have the same number of cables to a spine."""


def leaf_to_leaf(fabric: Fabric) -> list[Finding]:
    """Cables between two leaves of which each goes up to spines, where the other leaves have none."""
    above = _uplinks(fabric)
    beside: defaultdict[str, set[str]] = defaultdict(set)
    leaves = {leaf.name: leaf for leaf in fabric.of_kind("leaf")}
    for leaf in leaves:
        beside[leaf] |= {k.dst for k in fabric.links_from(leaf) if k.dst in leaves and k.health > 0}
    joined = {leaf for leaf, others in beside.items() if others}
    rails = infer_rails(fabric).of_leaf
    if not joined or len(leaves) < _FEWEST or len(joined) > max(2, _FEW * len(leaves)):
        return []
    pairs = sorted(
        {(min(a, b), max(a, b)) for a in joined for b in beside[a] if above.get(a) and above.get(b)}
    )
    # Two switches of another network (storage, login) may be a pair by design.
    pairs = [(a, b) for a, b in pairs if not rails or a in rails or b in rails]
    if not pairs:
        return []
    return [
        Finding(
            "leaf_to_leaf_link",
            Severity.WARNING,
            bounded(
                [
                    f"{at_port(fabric, a, b)} – {at_port(fabric, b, a)}: two leaves; the other "
                    f"{len(leaves) - len(joined)} leaves go to spines and hosts only"
                    for a, b in pairs
                ],
                "cables",
            ),
            "move the cable to the spine it was meant for, or take it out: it fits no up/down routing and "
            "no subnet manager's fat-tree",
            links=tuple(f"{a}/{b}" for a, b in pairs[:MOST_LINKS]),
        )
    ]


def host_on_spine(fabric: Fabric) -> list[Finding]:
    """Hosts on every rail but one, whose device of that rail is plugged into a switch above the leaves."""
    lines, names = [], []
    for host, rail, leaf, nic, switch in misplaced(fabric):
        names.append(f"{nic}/{switch}")
        rails = infer_rails(fabric)
        lines.append(
            f"{at_port(fabric, switch, nic)} – host {host} device {nic.removeprefix(host + '/')}: up, "
            f"and belongs to {rail_said(rails, rail)}, leaf {leaf}"
        )
    if not lines:
        return []
    return [
        Finding(
            "host_on_spine",
            Severity.ERROR,
            bounded(lines, "cables"),
            "move the cable to that leaf: on a spine the host is off its rail",
            links=tuple(names[:MOST_LINKS]),
        )
    ]


def misplaced(fabric: Fabric) -> Iterator[tuple[str, int, str, str, str]]:
    """(host, rail, its leaf, NIC, switch) of each host that lacks one rail and has one port above a leaf."""
    rails = infer_rails(fabric)
    for host, own in rails.hosts.items():
        group = rails.group_of_host.get(host)
        lacking = [rail for rail in range(rails.count) if rail not in own]
        leaf = None if group is None or len(lacking) != 1 else rails.leaf_of(group, lacking[0])
        if leaf is None:
            continue
        above = [
            (nic.name, link.dst)
            for nic in fabric.on_host(host, "nic")
            for link in fabric.links_from(nic.name)
            if fabric.device(link.dst).kind in ("spine", "core")
        ]
        if len(above) == 1:
            yield host, lacking[0], leaf, *above[0]


def exchanged_uplinks(fabric: Fabric) -> list[Finding]:
    """Leaves with as many uplinks as the others and not the same to each spine, where nearly all agree."""
    cables = _uplinks(fabric)
    alike: defaultdict[tuple[frozenset[str], int], list[str]] = defaultdict(list)
    for leaf, own in cables.items():
        alike[frozenset(own), own.total()].append(leaf)
    lines, names = [], []
    for (spines, total), leaves in alike.items():
        near = [
            leaf
            for (others, _), own_leaves in alike.items()
            if 2 * len(spines & others) >= len(spines | others)
            for leaf in own_leaves
        ]
        # Leaves that lack uplinks are for ``uplinks`` to tell.
        if Counter(cables[leaf].total() for leaf in near).most_common(1)[0][0] != total:
            continue
        peers = [leaf for leaf in near if cables[leaf].total() == total]
        usual = _usual([cables[leaf] for leaf in peers])
        for leaf in leaves:
            off = {spine: n for spine, n in usual.items() if cables[leaf][spine] != n}
            if off:
                said = ", ".join(_has(fabric, leaf, s, off[s]) for s in sorted(off, key=natural))
                lines.append(f"{leaf}: {said}")
                names += [f"{leaf}/{spine}" for spine in off]
    if not lines:
        return []
    return [
        Finding(
            "exchanged_uplinks",
            Severity.WARNING,
            bounded(lines, "leaves"),
            "exchange the cables at the spines: as it is these leaves reach one spine with more cables than "
            "their equals and another with fewer",
            links=tuple(names[:MOST_LINKS]),
        )
    ]


def _has(fabric: Fabric, leaf: str, spine: str, usual: int) -> str:
    numbers = sorted(p for k in fabric.links_from(leaf) if k.dst == spine for p in k.ports)
    count = sum(k.multiplicity for k in fabric.links_from(leaf) if k.dst == spine)
    where = f" (port {', '.join(map(str, numbers))})" if numbers else ""
    return f"{count} cables to {spine}{where}, others have {usual}"


def _usual(cables: Sequence[Counter[str]]) -> dict[str, int]:
    """Cables to each spine, the same on nearly all of these leaves; empty where a spine shows no pattern."""
    if len(cables) < _FEWEST:
        return {}
    usual = {}
    for spine in dict.fromkeys(spine for own in cables for spine in own):
        count, agreeing = Counter(own[spine] for own in cables).most_common(1)[0]
        if agreeing < _AGREE * len(cables):
            return {}
        usual[spine] = count
    return usual


def _uplinks(fabric: Fabric) -> dict[str, Counter[str]]:
    """Leaf → cables to each spine."""
    spines = {spine.name for spine in fabric.of_kind("spine")}
    found: dict[str, Counter[str]] = {}
    for leaf in fabric.of_kind("leaf"):
        found[leaf.name] = Counter()
        for link in fabric.links_from(leaf.name):
            if link.dst in spines and link.health > 0:
                found[leaf.name][link.dst] += link.multiplicity
    return found
