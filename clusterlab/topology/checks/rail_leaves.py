"""Leaves that a group of hosts lacks: the switch is not there, or no host's port on it is up. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from clusterlab.core.findings import Finding, Severity
from clusterlab.topology.checks.rail_names import leaf_would_be, rail_said
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.rails.infer import Rails, infer_rails


def missing_leaves(fabric: Fabric) -> list[Finding]:
    """Leaves that a group of hosts lacks though nearly all groups have one for each rail."""
    rails = infer_rails(fabric)
    empty = empty_leaves(fabric, rails)
    findings = []
    for group, rail in rails.missing_leaves():
        leaf = empty.get((group, rail))
        finding = _absent(rails, group, rail) if leaf is None else _empty(rails, group, rail, leaf)
        findings.append(finding)
    return findings


def empty_leaves(fabric: Fabric, rails: Rails) -> dict[tuple[int, int], str]:
    """(group, rail) that lacks a leaf → the leaf that is there and that no host's port is up on: the one
    named so, else one that is cabled to the spines of the group's other leaves.
    """
    free = [leaf.name for leaf in fabric.of_kind("leaf") if _is_empty(fabric, leaf.name)]
    found: dict[tuple[int, int], str] = {}
    lacking = rails.missing_leaves()
    for group, rail in lacking:
        name = leaf_would_be(rails, group, rail)
        if name in free:
            found[group, rail] = name
            free.remove(name)
    for group, rail in lacking:
        beside = {_above(fabric, leaf) for leaf in rails.groups[group]}
        fit = [leaf for leaf in free if _above(fabric, leaf) in beside]
        if (group, rail) not in found and fit:
            found[group, rail] = fit[0]
            free.remove(fit[0])
    return found


def _is_empty(fabric: Fabric, leaf: str) -> bool:
    """Whether only switches, and the SHARP node inside it, are cabled to a leaf, and some are."""
    others = [fabric.device(link.dst) for link in fabric.links_from(leaf)]
    switches = [d for d in others if d.kind in ("spine", "core")]
    rest = [d for d in others if d.kind not in ("spine", "core") and d.role != "aggregation"]
    return bool(switches) and not rest


def _above(fabric: Fabric, leaf: str) -> frozenset[str]:
    return frozenset(k.dst for k in fabric.links_from(leaf) if fabric.device(k.dst).kind == "spine")


def _absent(rails: Rails, group: int, rail: int) -> Finding:
    name = leaf_would_be(rails, group, rail)
    return Finding(
        "missing_leaf",
        Severity.ERROR,
        (
            f"no leaf of {rail_said(rails, rail)} beside {', '.join(rails.groups[group])}"
            + (f"; by the others' names it would be {name}" if name else ""),
            *_others(rails, group, rail),
        ),
        "bring the switch up or check why the subnet manager does not see it"
        " (power, cables to the spines)",
    )


def _empty(rails: Rails, group: int, rail: int, leaf: str) -> Finding:
    return Finding(
        "leaf_without_hosts",
        Severity.ERROR,
        (
            f"{leaf} is up and no host's port on it is; it is the leaf of {rail_said(rails, rail)}"
            f" beside {', '.join(rails.groups[group])}",
            *_others(rails, group, rail),
        ),
        "check that switch's ports to the hosts (disabled, wrong speed, splitter cables) and the"
        " transceivers, then the adapters of one host (ibstat)",
        links=(leaf,),
    )


def _others(rails: Rails, group: int, rail: int) -> Sequence[str]:
    """What the other groups have, and how many hosts of this one have no port on the rail."""
    hosts = [h for h, g in rails.group_of_host.items() if g == group]
    short = sum(rail not in rails.hosts.get(h, {}) for h in hosts)
    return (
        f"{len(rails.groups) - 1} other groups of hosts have all {rails.count} rails"
        if len(rails.missing_leaves()) == 1
        else f"most of {len(rails.groups)} groups of hosts have all {rails.count} rails",
        f"{short} of {len(hosts)} hosts there have no port on that rail",
    )
