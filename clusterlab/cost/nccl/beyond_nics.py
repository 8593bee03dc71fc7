"""What the network beyond the NICs leaves of their rate. NCCL does not know: its model ends at the port."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from clusterlab.topology.fabric import Fabric
from clusterlab.topology.routing.fluid import Crossing, route


def network_share(fabric: Fabric, devices: Sequence[str]) -> float:
    """Share (up to 1) of the NICs' rate that the switches pass between neighbouring hosts of a group.

    Taken between the first two hosts, all their ranks' ways at once; kept by the fabric. Links of unknown
    rate do not limit.
    """
    of_host: dict[str, list[str]] = {}
    for device in devices:
        host = fabric.host_of(device) or device
        if host not in of_host and len(of_host) == 2:
            break
        of_host.setdefault(host, []).append(device)
    if len(of_host) < 2:
        return 1.0
    here, there = of_host.values()
    key = ("network share", tuple(here), tuple(there))
    if key not in fabric.memo:
        fabric.memo[key] = min(
            (_share(fabric, route(fabric, a, b)) for a, b in zip(here, there, strict=False)),
            default=1.0,
        )
    found: float = fabric.memo[key]
    return found


def _share(fabric: Fabric, way: Sequence[Crossing]) -> float:
    nics = _rate(
        c
        for c in way
        if fabric.device(c.link.src).kind == "nic" and fabric.host_of(c.link.dst) is None
    )
    switches = _rate(
        c for c in way if fabric.host_of(c.link.src) is None and fabric.host_of(c.link.dst) is None
    )
    return min(1.0, switches / nics) if math.isfinite(nics) and nics > 0 else 1.0


def _rate(crossings: Iterable[Crossing]) -> float:
    """GB/s that all of a flow could have on these links: the least capacity by share."""
    return min(
        (c.link.capacity_GBps / c.share for c in crossings if c.link.capacity_GBps is not None),
        default=math.inf,
    )
