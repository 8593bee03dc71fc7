"""What a fabric holds, counted: for `topo show` and for whoever compares two fabrics."""

from __future__ import annotations

from collections import Counter
from typing import Any

from clusterlab.topology.fabric import DEVICE_KINDS, Fabric


def summary(fabric: Fabric) -> dict[str, Any]:
    """Plain data: devices by kind, links by class and rate, rails, hosts.

    A link counts once for its two directions, and ``multiplicity`` times where links run in parallel.
    ``GBps`` is one link's usable rate per direction, null when unknown.
    """
    kinds: Counter[str] = Counter(d.kind for d in fabric.devices)
    cables: Counter[tuple[str, float | None]] = Counter()
    seen: Counter[tuple[str, str, str, float | None]] = Counter()
    for link in fabric.links:
        kind = (link.link_class, link.GBps)
        seen[link.src, link.dst, *kind] += link.multiplicity
        # The way back of a cable that was counted on its way out adds nothing.
        if (
            link.src == link.dst
            or seen[link.src, link.dst, *kind] > seen[link.dst, link.src, *kind]
        ):
            cables[kind] += link.multiplicity
    rails = {d.rail for d in fabric.devices if d.rail is not None}
    return {
        "name": fabric.name,
        "description": fabric.description,
        "origin": fabric.origin,
        "hosts": len(fabric.hosts),
        "devices": {kind: kinds[kind] for kind in DEVICE_KINDS if kinds[kind]},
        "links": [
            {"class": link_class, "count": count, "GBps": rate}
            for (link_class, rate), count in cables.items()
        ],
        "rails": len(rails),
    }
