"""The way between two GPUs without peer access: through the memory of their CPUs."""

from __future__ import annotations

from clusterlab.topology.routing.host_graph import DISCONNECTED, HostGraph, HostPath, nearest


def by_host_memory(graph: HostGraph, path: HostPath) -> HostPath:
    """``path``, or where it crosses GPUs on its way the one over the CPUs of both ends.

    Where C2C joins each GPU to a CPU, NCCL's nearest path to the other GPU's CPU is the NVLink to that GPU
    and its C2C. It counts that as the way through the CPU (addInterStep of src/graph/paths.cc), but a copy
    that may not touch the peer cannot take it.
    """
    if not any(graph.kind[n] == "gpu" for n in path.nodes[1:-1]):
        return path
    src, dst = path.nodes[0], path.nodes[-1]
    here, there = _cpu(graph, src), _cpu(graph, dst)
    if here is None or there is None:
        return DISCONNECTED
    legs = [graph.path(a, b) for a, b in ((src, here), (here, there), (there, dst)) if a != b]
    if any(not leg.nodes for leg in legs):
        return DISCONNECTED
    nodes = (src, *(n for leg in legs for n in leg.nodes[1:]))
    return HostPath(max(leg.type for leg in legs), min(leg.bw for leg in legs), nodes)


def _cpu(graph: HostGraph, gpu: str) -> str | None:
    cpus = nearest({c: graph.path(gpu, c) for c in graph.of_kind("cpu", graph.host[gpu])})
    return min(cpus, key=lambda c: graph.path(gpu, c).count, default=None)
