"""A fabric in a few numbers: devices by kind, links by class and speed."""

from __future__ import annotations

from collections import Counter
from typing import Any

from clusterlab.topology.fabric import Fabric, Link


def summary(fabric: Fabric) -> dict[str, Any]:
    """Plain data. A link of ``links`` is a connection: its two directions count once."""
    counts: Counter[tuple[str, float | None]] = Counter()
    for link in fabric.links:
        if _counted_here(link, fabric):
            counts[link.link_class, link.GBps] += link.multiplicity
    rails = {d.rail for d in fabric.devices if d.rail is not None}
    return {
        "name": fabric.name,
        "description": fabric.description,
        "origin": fabric.origin,
        "devices": dict(Counter(d.kind for d in fabric.devices)),
        "hosts": len(fabric.hosts),
        "rails": len(rails),
        "links": [
            {"class": kind, "GBps": speed, "count": count}
            for (kind, speed), count in sorted(counts.items(), key=str)
        ],
    }


def _counted_here(link: Link, fabric: Fabric) -> bool:
    """Of a connection's two directions the first by name counts; one that has no return counts too."""
    if link.src <= link.dst:
        return True
    return not any(back.dst == link.src for back in fabric.links_from(link.dst))
