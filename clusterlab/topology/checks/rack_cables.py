"""Hosts cabled unlike the other groups of hosts: a cable in another group's leaf of its rail, and a whole
group whose rails are exchanged against what its leaves' names say. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clusterlab.core.findings import Finding, Severity
from clusterlab.topology.checks.evidence import at_port, bounded
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.rails.infer import Rails, Stray, foreign_cables, infer_rails
from clusterlab.topology.rails.leaf_names import rails_named

_MOST_GROUPS = 3
"""With fewer groups of hosts it cannot be told which of them is cabled otherwise."""


def cross_wired_racks(fabric: Fabric) -> list[Finding]:
    """Cables in the right rail's leaf of another group of hosts; one finding for two that were swapped."""
    rails = infer_rails(fabric)
    return [_cross_wired(fabric, rails, cables) for cables in _swaps(foreign_cables(rails))]


def _swaps(strays: Sequence[Stray]) -> Iterator[list[Stray]]:
    left = list(strays)
    while left:
        first = left.pop(0)
        partner = next(
            (
                s
                for s in left
                if (s.cable.leaf, s.belongs_to) == (first.belongs_to, first.cable.leaf)
            ),
            None,
        )
        if partner is not None:
            left.remove(partner)
        yield [first] if partner is None else [first, partner]


def _cross_wired(fabric: Fabric, rails: Rails, cables: Sequence[Stray]) -> Finding:
    evidence = []
    for stray in cables:
        cable = stray.cable
        local = cable.nic.removeprefix(f"{cable.host}/")
        others = sum(map(len, rails.hosts[cable.host].values())) - 1
        evidence.append(
            f"{at_port(fabric, cable.leaf, cable.nic)} – host {cable.host} device {local} is on its rail "
            f"{stray.rail}, and its other {others} cables are beside {stray.belongs_to}"
        )
    if len(cables) == 2:
        ends = " and ".join(at_port(fabric, s.cable.leaf, s.cable.nic) for s in cables)
        fix = f"exchange the two cables in {ends}"
    else:
        fix = f"move {cables[0].cable.nic} to {cables[0].belongs_to}, unless that leaf has no free port"
    return Finding(
        "cross_wired_racks",
        Severity.WARNING,
        tuple(evidence),
        fix,
        links=tuple(f"{s.cable.nic}/{s.cable.leaf}" for s in cables),
    )


def exchanged_rails(fabric: Fabric) -> list[Finding]:
    """Groups all of whose hosts have rails exchanged against their leaves' names and the other groups."""
    rails = infer_rails(fabric)
    if len(rails.groups) < _MOST_GROUPS:
        return []
    told = rails_named(rails.of_leaf)
    lines, names = [], []
    for leaves in rails.groups:
        off = [
            leaf for leaf in leaves if told.get(leaf, rails.of_leaf[leaf]) != rails.of_leaf[leaf]
        ]
        # Only where the rails go round among its own leaves; else the names are not of this pattern.
        if off and sorted(told[x] for x in off) == sorted(rails.of_leaf[x] for x in off):
            names += off
            lines += [
                f"{leaf}: its hosts plug in their device of rail {rails.of_leaf[leaf]}; by its "
                f"name, as in the other groups of hosts, it is the leaf of rail {told[leaf]}"
                for leaf in off
            ]
    if not lines:
        return []
    return [
        Finding(
            "exchanged_rails",
            Severity.WARNING,
            bounded(lines, "leaves"),
            "exchange all hosts' cables between these leaves, or correct the switches' names: as named, "
            "these hosts' rails are not those of the others",
            links=tuple(names),
        )
    ]
