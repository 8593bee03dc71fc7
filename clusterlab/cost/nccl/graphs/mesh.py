"""RCCL's graphs on MI300X and later, where every pair of GPUs has an xGMI link of its own.

RCCL knows these boxes and takes its rings from a list (src/graph/rome_models.cc) instead of searching: n
GPUs have n - 1 rings that together use every link both ways, each laid four times; beyond a host each NIC
carries two.
"""

from __future__ import annotations

from clusterlab.cost.nccl.communicator import Graph, PathName
from clusterlab.cost.nccl.graphs.system import System
from clusterlab.topology.routing.host_graph import PathType

_COPIES = 4
_PER_NIC = 2


def mesh_graphs(system: System) -> dict[str, Graph] | None:
    """Ring and tree of a full mesh; None where some pair of GPUs has no xGMI link of its own."""
    gpus = system.gpus
    rates = []
    for a in gpus:
        direct = {e.to: e.bw for e in system.graph.edges.get(a, ()) if e.type is PathType.NVL}
        if any(b not in direct for b in gpus if b != a):
            return None
        rates += [direct[b] for b in gpus if b != a]
    if len(gpus) < 2 or not rates:
        return None
    link = min(rates)
    if not system.inter:
        channels, speed = _COPIES * (len(gpus) - 1), link / _COPIES
        ring = Graph("ring", channels, speed, speed)
        return {"ring": ring, "tree": Graph("balanced_tree", channels, speed, speed)}
    if not system.nics:
        return None
    nic = min(
        min(left / 1000, system.way(n, gpus[o]).MBps / 1000 if o is not None else left / 1000)
        for n, left, o in zip(system.nics, system.net_left, system.nic_owner, strict=True)
    )
    channels = _PER_NIC * len(system.nics)
    inside = link * (len(gpus) - 1) / channels
    speed = min(nic / _PER_NIC, max(inside, link / _PER_NIC))
    kind = system.least_types[2]
    far: PathName = "PXB" if kind > PathType.PIX else "PIX"
    return {
        "ring": Graph("ring", channels, speed, speed, "NVL", far),
        "tree": Graph("balanced_tree", channels, speed, speed, "NVL", far),
    }
