"""Figures that are unknown and that a prediction would need. Pure."""

from __future__ import annotations

from collections import Counter

from clusterlab.core.findings import Finding, Severity
from clusterlab.topology.checks.evidence import bounded
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.failures.faults import connection_name
from clusterlab.topology.host_groups import host_groups
from clusterlab.topology.shapes import counted_links


def unknown(fabric: Fabric) -> list[Finding]:
    """Links without a bandwidth: a prediction whose traffic crosses one is refused. One line for each class
    of link and kinds of its ends.
    """
    counts: Counter[tuple[str, str, str]] = Counter()
    example: dict[tuple[str, str, str], str] = {}
    groups = {group.name for group in host_groups(fabric)}  # joined to hosts by no cable
    for link, times, host in counted_links(fabric):
        if link.GBps is not None or link.src in groups or link.dst in groups:
            continue
        ends = [f"{host}/{end}" if host else end for end in (link.src, link.dst)]
        kinds = sorted(fabric.device(end).kind for end in ends)
        key = (link.link_class, kinds[0], kinds[1])
        # Both directions of a cable are links; a loop (memory) is one.
        counts[key] += link.multiplicity * times * (2 if link.src == link.dst else 1)
        example.setdefault(key, connection_name(*ends))
    if not counts:
        return []
    lines = [
        f"{count // 2 or 1} {link_class} links between {a} and {b}, such as {example[link_class, a, b]}"
        for (link_class, a, b), count in counts.items()
    ]
    return [
        Finding(
            code="unknown_bandwidth",
            severity=Severity.INFO,
            evidence=bounded(lines),
            fix="a prediction whose traffic crosses one of them is refused: then give GBps with its "
            "source, or measure it (`clusterlab bench`); what nothing crosses needs no figure",
        )
    ]
