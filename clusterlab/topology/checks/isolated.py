"""Leaves whose hosts reach no other leaf. Pure, on any fabric."""

from __future__ import annotations

from clusterlab.core.findings import Finding, Severity
from clusterlab.topology.capacity import SwitchCapacity, leaves_without_uplink
from clusterlab.topology.checks.evidence import MOST_LINKS, bounded
from clusterlab.topology.fabric import Fabric


def isolated_leaves(fabric: Fabric) -> list[Finding]:
    """One finding for the leaves with live hosts and no live uplink, where their equals have some.

    Where links of class ``network`` only say which switch stands above which, nothing is found.
    """
    if all(link.link_class == "network" for link in fabric.network_links):
        return []
    cut = leaves_without_uplink(fabric)
    if not cut:
        return []
    return [
        Finding(
            code="leaf_isolated",
            severity=Severity.ERROR,
            evidence=bounded([_said(leaf) for leaf in cut], "leaves"),
            fix="nothing that spans leaves runs over it: check its uplinks' cables and port states, then "
            "whether the spines know it; keep jobs off its hosts or on this leaf alone until then",
            links=tuple(leaf.name for leaf in cut[:MOST_LINKS]),
        )
    ]


def _said(leaf: SwitchCapacity) -> str:
    hosts = f"{leaf.down.links + leaf.beside.links} host ports live"
    if leaf.nominal_up.links:
        return f"{leaf.name}: 0 of {leaf.nominal_up.links} uplinks live, {hosts}"
    return f"{leaf.name}: no uplink at all, {hosts}; the other leaves have uplinks"
