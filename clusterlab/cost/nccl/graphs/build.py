"""The communicator that NCCL would make of a fabric and a placement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from clusterlab.core.errors import UsageError
from clusterlab.core.placement import RankPlacement
from clusterlab.cost.nccl.communicator import NEWEST, Communicator, CpuVendor, Graph, Network
from clusterlab.cost.nccl.graphs.chips import Chip, chip, cpu_vendor
from clusterlab.cost.nccl.graphs.mesh import mesh_graphs
from clusterlab.cost.nccl.graphs.nodes import Node, kinds, nodes_of
from clusterlab.cost.nccl.graphs.search import find_graph
from clusterlab.cost.nccl.graphs.system import System
from clusterlab.cost.nccl.graphs.systems import Machine, system_of
from clusterlab.cost.nccl.graphs.transports import transport_of
from clusterlab.cost.nccl.overrides import GraphOverrides
from clusterlab.cost.recall import recalled
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.routing.host_graph import PathType
from clusterlab.topology.routing.path_types import Levels


def communicator(
    fabric: Fabric,
    ranks: Sequence[RankPlacement],
    devices: Sequence[str],
    *,
    version: str = NEWEST,
    overrides: GraphOverrides | None = None,
) -> Communicator:
    """What NCCL ``version`` knows of ``ranks`` on ``devices`` (the GPU of each); kept by the fabric.

    Raises UsageError where a rank has no GPU of its own, or no NIC leads from one node to the others.
    """
    asked = overrides or GraphOverrides()

    def make(names: Sequence[str]) -> Communicator:
        _check(fabric, ranks, names)
        return _communicator(fabric, names, version, asked)

    return recalled(fabric, ("nccl communicator", version, asked), devices, make)


def _check(fabric: Fabric, ranks: Sequence[RankPlacement], devices: Sequence[str]) -> None:
    if not devices:
        raise UsageError("no ranks", where=f"fabric {fabric.name}", expected="at least one")
    where = f"fabric {fabric.name}"
    taken: dict[str, int] = {}
    for rank, device in zip(ranks, devices, strict=True):
        if (fabric.kind_of(device) or fabric.device(device).kind) != "gpu":
            raise UsageError(
                f"rank {rank.rank} is on {device}, no GPU",
                where=where,
                expected="backend nccl on GPUs",
                fix="use --backend gloo, or a fabric with GPUs",
            )
        if device in taken:
            raise UsageError(
                f"ranks {taken[device]} and {rank.rank} are both on {device}",
                where=where,
                expected="a GPU for each rank (NCCL refuses two ranks on one)",
            )
        taken[device] = rank.rank


def _communicator(
    fabric: Fabric, devices: Sequence[str], version: str, asked: GraphOverrides
) -> Communicator:
    # Without peer access NCCL joins no hosts by NVLink (initTransportsRank of src/init.cc).
    nodes = nodes_of(fabric, devices, mnnvl=False if asked.no_peer_access else asked.mnnvl)
    by_kind = kinds(fabric, nodes)
    different = list(by_kind.values())
    chips = [_chip(fabric, node) for node in different]
    least = min(chips, key=lambda c: c.capability or 0)
    cpu = _cpu(fabric, different, least)
    inter = len(nodes) > 1
    transport = transport_of(fabric, different, asked) if inter else None
    levels = _levels(fabric, different, cpu, transport, asked)
    machine = Machine(least, cpu, transport or "", levels, inter, asked.ib_hca)
    collnet = inter and _collnet(fabric, transport)
    found = []
    for kind, node in by_kind.items():
        key = ("nccl node", kind, machine, version, asked, collnet)
        if key not in fabric.memo:
            fabric.memo[key] = _searched(fabric, node, machine, version, asked, collnet=collnet)
        found.append(fabric.memo[key])
    systems = [system for system, _ in found]
    graphs = least_of([graphs for _, graphs in found])
    hosts = sum(len(node.hosts) for node in nodes)
    return Communicator(
        ranks=len(devices),
        nodes=len(nodes),
        ranks_per_node=max(len(node.gpus) for node in nodes),
        compute_capability=least.capability,
        gpu=least.name,
        graphs=graphs,
        intra=_intra(systems),
        cpu=cpu,
        cpu_arch="arm64" if cpu == "arm" else "ppc64" if cpu == "power" else "x86_64",
        nvswitch=all(s.switched for s in systems),
        nvls="nvls" in graphs,
        collnet="collnet_chain" in graphs or "collnet_direct" in graphs,
        staged_hops=max(s.staged_hops for s in systems),
        staged_pairs=max(s.staged_pairs for s in systems),
        heads=min(_heads(s) for s in systems),
        hosts=hosts,
        network=_least_network(systems, transport, least) if transport else None,
        library=least.library,
        version=version,
        switch_GBps=min(min(s.hub_rates) / 1000 for s in systems)
        if all(s.switched for s in systems)
        else None,
    )


def _chip(fabric: Fabric, node: Node) -> Chip:
    """The chip of the node's first GPU of each model; of several the least capable."""
    found = []
    seen: set[str | None] = set()
    for gpu in node.gpus:
        model = fabric.device(gpu).model
        if model in seen:
            continue
        seen.add(model)
        links = [k.GBps for k in fabric.links_from(gpu) if k.link_class == "nvlink" and k.GBps]
        found.append(chip(model, min(links, default=None)))
    return min(found, key=lambda c: c.capability or 0)


def _cpu(fabric: Fabric, nodes: Iterable[Node], gpu: Chip) -> CpuVendor:
    models: list[str | None] = []
    nics: list[str | None] = []
    for node in nodes:
        host = fabric.host_of(node.gpus[0])
        if host is not None:
            models += [d.model for d in fabric.on_host(host, "cpu")]
            nics += [d.model for d in fabric.on_host(host, "nic")]
    return cpu_vendor(models, gpu.name, nics)


def _levels(
    fabric: Fabric,
    nodes: Sequence[Node],
    cpu: CpuVendor,
    transport: str | None,
    asked: GraphOverrides,
) -> Levels:
    """NCCL's defaults and what the user changed: P2P up to PXB (SYS between two GPUs beside AMD CPUs)."""
    gpus = max(len(node.gpus) for node in nodes)
    p2p = PathType.SYS if cpu == "amd" and gpus <= 2 else PathType.PXB
    if asked.p2p_level is not None:
        p2p = PathType[asked.p2p_level]
    if asked.no_peer_access:
        p2p = PathType.LOC
    by_c2c = PathType.PXB if asked.gdr_c2c is False else PathType.P2C
    direct = PathType.LOC if transport == "tcp" else by_c2c
    if asked.gdr_level is not None and transport != "tcp":
        direct = PathType[asked.gdr_level]
    return Levels(p2p, direct, not asked.pxn_disable)


def _searched(
    fabric: Fabric,
    node: Node,
    machine: Machine,
    version: str,
    asked: GraphOverrides,
    *,
    collnet: bool,
) -> tuple[System, dict[str, Graph]]:
    """A node's system and what NCCL's search finds on it. They stand for all nodes of its kind."""
    system = system_of(fabric, node, machine)
    if machine.inter:
        _check_way_out(fabric, node, system)
    return system, _graphs(system, machine.chip, version, asked, collnet=collnet)


def _graphs(
    system: System, gpu: Chip, version: str, asked: GraphOverrides, *, collnet: bool
) -> dict[str, Graph]:
    """The graphs of one node, in NCCL's order: the tree has as many channels as the ring."""
    near = system.levels.p2p >= PathType.NVL
    if gpu.library == "rccl" and near and (mesh := mesh_graphs(system)):
        return mesh
    cross = 2 if asked.cross_nic is None else asked.cross_nic
    found: dict[str, Graph] = {}

    def add(name: str, graph: Graph | None) -> Graph | None:
        if graph is not None:
            found[name] = graph
        return graph

    ring = add("ring", find_graph(system, "ring", version=version, cross_nic=cross))
    count = ring.channels if ring else 1
    equal = {"version": version, "cross_nic": cross, "least": count, "most": count}
    add("tree", find_graph(system, "balanced_tree", **equal))  # type: ignore[arg-type]
    if collnet:
        add("collnet_chain", find_graph(system, "collnet_chain", **equal))  # type: ignore[arg-type]
        add("collnet_direct", find_graph(system, "collnet_direct", version=version, most=64))
    if asked.nvls is not False and gpu.library == "nccl" and len(system.gpus) > 1:
        add("nvls", _nvls(system, version))
    return found


def _nvls(system: System, version: str) -> Graph | None:
    """The NVLS graph where the NVSwitches multicast; in every graph of a box they do or do not alike."""
    if not system.switched or not system.multicast:
        return None
    return find_graph(system, "nvls", version=version, most=64)


def least_of(found: Sequence[Mapping[str, Graph]]) -> dict[str, Graph]:
    """What all nodes have: fewest channels, lowest speeds, farthest types (initTransportsRank).

    Ring and tree then have the same number of channels.
    """
    names = [name for name in found[0] if all(name in graphs for graphs in found)]
    graphs = {name: _least([g[name] for g in found]) for name in names}
    both = [graphs[n] for n in ("ring", "tree") if n in graphs]
    channels = min((g.channels for g in both), default=1)
    for name in ("ring", "tree"):
        if name in graphs:
            graphs[name] = replace(graphs[name], channels=channels)
    return graphs


_TREE_ORDER = ("balanced_tree", "split_tree", "tree")


def _least(graphs: Sequence[Graph]) -> Graph:
    first = graphs[0]
    patterns = [g.pattern for g in graphs]
    trees = [p for p in patterns if p in _TREE_ORDER]
    return Graph(
        pattern=max(trees, key=_TREE_ORDER.index) if trees else first.pattern,
        channels=min(g.channels for g in graphs),
        intra_GBps=min(g.intra_GBps for g in graphs),
        inter_GBps=min(g.inter_GBps for g in graphs),
        type_intra=max((g.type_intra for g in graphs), key=lambda t: PathType[t]),
        type_inter=max((g.type_inter for g in graphs), key=lambda t: PathType[t]),
        latency_inter_us=max(g.latency_inter_us for g in graphs),
        same_channels=all(g.same_channels for g in graphs),
    )


def _intra(systems: Sequence[System]) -> Literal["nvlink", "xgmi", "pcie"]:
    """The link by which ranks of a node reach each other; nvlink where no node has two."""
    several = [s for s in systems if len(s.gpus) > 1]
    if any(s.least_types[1] > PathType.C2C for s in several):
        return "pcie"
    return "xgmi" if any(s.xgmi for s in several) else "nvlink"


def _heads(system: System) -> int:
    """GPUs that are the local one of a NIC; all of them where NICs play no part."""
    if not system.inter:
        return len(system.gpus)
    return max(1, len({owner for owner in system.nic_owner if owner is not None}))


def _least_network(systems: Sequence[System], transport: str, gpu: Chip) -> Network:
    """Of every kind of node: all wait for the one with the fewest and slowest NICs."""
    each = [_network(system, transport, gpu) for system in systems]
    return Network(
        transport,
        min(n.nics for n in each),
        min(n.nic_GBps for n in each),
        all(n.gdr for n in each),
    )


def _network(system: System, transport: str, gpu: Chip) -> Network:
    rates = [left / 1000 for left in system.net_left]
    near = min(
        (system.way(g, n).type for g in system.gpus for n in system.nics), default=PathType.DIS
    )
    if transport == "efa" and not _reached_by_efa(gpu):
        return Network(transport, len(system.nics), min(rates, default=0.0), False)
    direct = transport != "tcp" and near <= max(system.levels.gpu_direct, PathType.LOC)
    return Network(transport, len(system.nics), min(rates, default=0.0), direct)


def _reached_by_efa(gpu: Chip) -> bool:
    """AWS offers GPUDirect RDMA from P4d on: on data-centre chips since A100 (EFA user guide)."""
    return (gpu.capability or 0) >= 90 or gpu.capability == 80


def _collnet(fabric: Fabric, transport: str | None) -> bool:
    """SHARP: every leaf of an InfiniBand network can reduce on the way."""
    leaves = fabric.of_kind("leaf")
    return transport == "ib" and bool(leaves) and all(leaf.in_network for leaf in leaves)


def _check_way_out(fabric: Fabric, node: Node, system: System) -> None:
    if not system.nics:
        raise UsageError(
            f"no NIC of {node.hosts[0]} leads into the network",
            where=f"fabric {fabric.name}",
            expected="links that are up between all ranks",
        )
