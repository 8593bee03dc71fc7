"""NCCL's path types between any two devices of a fabric's hosts, with the bandwidth of the path.

What ncclTopoComputePaths (NCCL 2.30.7, src/graph/paths.cc) makes of the paths of ``host_graph``: GPUs
that are too far apart for P2P meet in the CPU, a GPU with C2C reaches a NIC on its CPU as P2C, and any
other NIC through the GPU next to it over NVLink (PXN, when sending). Assumed, as no fabric says it: no
GPU pair has P2P switched off, and no environment variable moves NCCL's levels.
"""

from __future__ import annotations

from dataclasses import dataclass

from clusterlab.core.errors import UsageError
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.routing.host_graph import (
    DISCONNECTED,
    HostGraph,
    HostPath,
    PathType,
    host_graph,
    local_gpu,
    local_nic,
    nearest,
)


@dataclass(frozen=True, slots=True)
class Levels:
    """How far NCCL goes without the CPU: ``p2p`` the farthest path by which GPUs access each other
    (NCCL_P2P_LEVEL), ``gpu_direct`` by which NICs access GPUs (NCCL_NET_GDR_LEVEL; LOC: not at all),
    ``pxn`` whether a GPU sends through another's NIC (NCCL_PXN_DISABLE).
    """

    p2p: PathType = PathType.PXB
    gpu_direct: PathType = PathType.P2C
    pxn: bool = True


DEFAULT_LEVELS = Levels()
_NO_GPU_DIRECT = Levels(gpu_direct=PathType.LOC)


@dataclass(frozen=True, slots=True)
class TypedPath:
    """``GBps`` is the least on the path per direction; None: unknown, or no link at all (LOC, DIS).

    ``devices`` are crossed in this order, ends included; where several NVSwitches are used at once the
    first stands for all. ``relay`` is the GPU that forwards (PXN, NVB).
    """

    type: PathType
    GBps: float | None
    devices: tuple[str, ...]
    relay: str | None = None


def host_path(fabric: Fabric, src: str, dst: str, *, gpu_direct: bool = True) -> TypedPath:
    """The path between two devices of one host, or of one NVLink domain; type DIS where there is none.

    ``gpu_direct``: NICs read and write GPU memory; without it all of that passes the CPU and there is
    no PXN. Raises UsageError for devices that stand outside the hosts.
    """
    for name in (src, dst):
        device = fabric.device(name)
        if device.host is None and device.kind != "nvswitch":
            raise UsageError(
                f"{name} is a {device.kind}",
                where=f"fabric {fabric.name}",
                expected="a device inside a host",
            )
    if src == dst:
        return TypedPath(PathType.LOC, None, (src,))
    a, b = fabric.device(src), fabric.device(dst)
    home = a.host or b.host
    if home is None:
        return TypedPath(PathType.DIS, None, ())
    graph = host_graph(fabric, home)
    if src not in graph.node_of or dst not in graph.node_of:
        return TypedPath(PathType.DIS, None, ())
    levels = DEFAULT_LEVELS if gpu_direct else _NO_GPU_DIRECT
    return _typed(graph, path_between(graph, graph.node_of[src], graph.node_of[dst], levels))


def nic_of(fabric: Fabric, gpu: str, *, channel: int = 0) -> str | None:
    """The NIC NCCL gives a GPU on a channel (ncclTopoGetLocalNet); None where it reaches none.

    NICs that are down or not cabled are none for NCCL.
    """
    host = fabric.device(gpu).host
    if host is None:
        return None
    graph = host_graph(fabric, host)
    to_nics = {n: graph.path(gpu, n) for n in graph.network_nics(host)}
    if graph.kind.get(gpu) != "gpu":
        return next(iter(nearest(to_nics)), None)
    return local_nic(graph, gpu, channel, to_nics)


def _typed(graph: HostGraph, path: HostPath) -> TypedPath:
    known = 0 < path.bw < float("inf") and path.type is not PathType.LOC
    between = [n for n in path.nodes[1:-1] if graph.kind[n] == "gpu"]
    return TypedPath(
        type=path.type,
        GBps=path.bw if known else None,
        devices=path.nodes,
        relay=between[0] if between else None,
    )


def path_between(graph: HostGraph, src: str, dst: str, levels: Levels = DEFAULT_LEVELS) -> HostPath:
    """The path between two nodes after what NCCL does about P2P, PXN and GPU Direct."""
    kinds = (graph.kind[src], graph.kind[dst])
    if kinds == ("gpu", "gpu"):
        path = graph.path(src, dst)
        return _through_cpu(graph, src, dst, near=dst) if path.type > levels.p2p else path
    if kinds == ("gpu", "nic"):
        host = graph.host[src]
        if host != graph.host[dst] or host is None:
            return DISCONNECTED
        return _to_nics(graph, host, levels)[src][dst]
    if kinds == ("nic", "gpu"):
        path = _with_p2c(graph, dst, src, graph.path(src, dst))
        return _through_cpu(graph, src, dst, near=dst) if _diverted(path, levels) else path
    return graph.path(src, dst)


def _diverted(path: HostPath, levels: Levels) -> bool:
    """Whether traffic between a GPU and a NIC goes by the CPU, as GPU Direct does not reach so far."""
    return levels.gpu_direct < path.type < PathType.PHB


def _to_nics(graph: HostGraph, host: str, levels: Levels) -> dict[str, dict[str, HostPath]]:
    """The paths of every GPU of a host to every NIC of it, in NCCL's order of settling them."""
    key = ("to_nics", host, levels)
    if key not in graph.memo:
        graph.memo[key] = _settled(graph, host, levels)
    paths: dict[str, dict[str, HostPath]] = graph.memo[key]
    return paths


def _settled(graph: HostGraph, host: str, levels: Levels) -> dict[str, dict[str, HostPath]]:
    gpus, nics = graph.of_kind("gpu", host), graph.of_kind("nic", host)
    paths = {g: {n: graph.path(g, n) for n in nics} for g in gpus}
    paths = {g: {n: _with_p2c(graph, g, n, p) for n, p in to.items()} for g, to in paths.items()}
    for nic in nics:
        for gpu in gpus:
            if levels.pxn:
                paths[gpu][nic] = _with_pxn(graph, gpu, nic, paths, levels)
            if paths[gpu][nic].type is not PathType.PXN and _diverted(paths[gpu][nic], levels):
                paths[gpu][nic] = _through_cpu(graph, gpu, nic, near=gpu)
    return paths


def _with_p2c(graph: HostGraph, gpu: str, nic: str, path: HostPath) -> HostPath:
    """P2C where GPU and NIC meet in a CPU, one over C2C, and no NIC is nearer to the GPU."""
    host = graph.host[gpu]
    if nic not in nearest({n: graph.path(gpu, n) for n in graph.network_nics(host)}):
        return path
    cpu = _local_cpu(graph, gpu)
    if cpu is None:
        return path
    both = _merged_type(graph.path(gpu, cpu).type, graph.path(nic, cpu).type)
    if both is not PathType.P2C:
        return path
    return HostPath(min(PathType.P2C, path.type), path.bw, path.nodes)


def _with_pxn(
    graph: HostGraph,
    gpu: str,
    nic: str,
    paths: dict[str, dict[str, HostPath]],
    levels: Levels,
) -> HostPath:
    """The path through the NIC's own GPU where NCCL prefers that; else the path as it is."""
    own = paths[gpu][nic]
    if nic not in graph.leading_out:
        return own
    live = {g: {n: p for n, p in to.items() if n in graph.leading_out} for g, to in paths.items()}
    peer = local_gpu(graph, nic, live)
    if peer is None or peer == gpu:
        return own
    there, over = paths[peer][nic], graph.path(gpu, peer)
    joined = over.type <= min(PathType.NVL, levels.p2p)  # without peer access there is no relay
    near = there.type <= min(PathType.P2C, levels.gpu_direct)
    if joined and near and (there.bw > own.bw or own.type > PathType.PXN):
        return HostPath(PathType.PXN, min(over.bw, there.bw), (*over.nodes, *there.nodes[1:]))
    return own


def _through_cpu(graph: HostGraph, src: str, dst: str, *, near: str) -> HostPath:
    """addInterStep over the CPU local to ``near``; the direct path where there is no such CPU."""
    cpu = _local_cpu(graph, near)
    if cpu is None:
        return graph.path(src, dst)
    first, second = graph.path(src, cpu), graph.path(cpu, dst)
    if PathType.DIS in (first.type, second.type):
        return DISCONNECTED
    return HostPath(
        _merged_type(first.type, second.type),
        min(first.bw, second.bw),
        (*first.nodes, *second.nodes[1:]),
    )


def _merged_type(a: PathType, b: PathType) -> PathType:
    return PathType.P2C if {a, b} == {PathType.PHB, PathType.C2C} else max(a, b)


def _local_cpu(graph: HostGraph, gpu: str) -> str | None:
    """ncclGetLocalCpu: of the nearest CPUs the one with the fewest links between."""
    cpus = nearest({c: graph.path(gpu, c) for c in graph.of_kind("cpu", graph.host[gpu])})
    return min(cpus, key=lambda c: graph.path(gpu, c).count, default=None)
