"""Bounds on what any placement of channels can reach: they end the search early and change no result."""

from __future__ import annotations

from clusterlab.cost.nccl.graphs.system import System
from clusterlab.cost.nccl.graphs.wanted import Best, Wanted
from clusterlab.topology.routing.host_graph import PathType


def can_improve(system: System, wanted: Wanted, best: Best, ceiling: int) -> bool:
    """Whether ``ceiling`` channels as wanted would be better than the best so far."""
    now, then = best.channels * best.wanted.intra, ceiling * wanted.intra
    if wanted.pattern == "nvls":
        return True
    if then != now:
        return then > now
    return least_hops(system, wanted) * ceiling < best.hops


def least_hops(system: System, wanted: Wanted) -> int:
    """Fewest links that one channel can cross."""
    n = len(system.gpus)
    steps = n if wanted.pattern == "ring" and not system.inter else n - 1
    each = 2 if system.nvswitch and system.switched else 1
    outside = sum(system.shortest(wanted.type_inter)) if system.inter else 0
    if n > 1 and _comes_back_by_relay(system, wanted):
        outside += 2
    return steps * each + outside


def channel_ceiling(system: System, wanted: Wanted) -> int:
    """No placement has more channels: what leaves and enters the GPUs and NICs, whatever the order."""
    n = len(system.gpus)
    if wanted.pattern in ("nvls", "collnet_direct"):
        return wanted.most
    inside, outside = max(wanted.intra, 1), max(wanted.inter, 1)
    ceiling = wanted.most
    if system.inter:
        ceiling = min(ceiling, system.entries(wanted.type_inter, outside))
    if n > 1:
        out = [
            _room(system, gpu, min(inside, outside) if system.inter else inside)
            for gpu in system.gpus
        ]
        # All GPUs of a channel but its last hand it on to another GPU.
        onward = sum(_room(system, gpu, inside, wanted.type_intra) for gpu in system.gpus)
        ceiling = min(ceiling, onward // (n - 1))
        if wanted.pattern == "ring":
            ceiling = min(ceiling, *out)
            if _comes_back_by_relay(system, wanted):
                ceiling = min(ceiling, *(c // min(inside, outside) for c in system.hub_rates))
        else:
            ceiling = min(ceiling, sum(out) // (n - 1))
    return ceiling


def _comes_back_by_relay(system: System, wanted: Wanted) -> bool:
    ring = wanted.pattern == "ring" and system.inter and wanted.cross_nic == 0
    return ring and system.returns_by_relay(wanted.type_inter)


def _room(system: System, gpu: str, speed: int, farthest: PathType = PathType.DIS) -> int:
    """How many paths of this speed can leave a GPU; nearer than C2C they leave by NVLink only."""
    edges = system.graph.edges.get(gpu, ())
    nvlink_only = farthest < PathType.C2C
    return sum(
        round(edge.bw * 1000) // speed
        for edge in edges
        if not nvlink_only or edge.type is PathType.NVL
    )
