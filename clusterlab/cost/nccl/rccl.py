"""RCCL's tuning: `ncclTopoTuneModel` and `ncclTopoGetAlgoTime` of ROCm/rccl.

Ring and tree; a share of the graph's bandwidth and corrections by size from a model per machine.
MSCCL and MSCCL++ schedules, which RCCL may run instead on one node, are not in it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from clusterlab.cost.nccl.bandwidth import steps
from clusterlab.cost.nccl.communicator import Communicator
from clusterlab.cost.nccl.constants import Constants, Triple
from clusterlab.cost.nccl.entry import Cell, Entry, Setting
from clusterlab.cost.nccl.words import PROTOCOLS, ROOTED, as_near, graph_of

_SIZES = 27


def machine(comm: Communicator, constants: Constants) -> Mapping[str, Any]:
    """What RCCL knows of this kind of machine, by the beginning of the GPU's name."""
    chips = constants.rccl["chips"]
    name = max((c for c in chips if comm.gpu.upper().startswith(c)), key=len)
    known: Mapping[str, Any] = chips[name]
    return known


def model(comm: Communicator, constants: Constants) -> Mapping[str, Any]:
    """The tuning model of this machine."""
    which = machine(comm, constants)["one_node" if comm.nodes == 1 else "several_nodes"]
    found: Mapping[str, Any] = constants.rccl["models"][which]
    return found


def rccl_entry(cell: Cell, setting: Setting) -> Entry | None:
    """The table's entry; None where RCCL computes none."""
    collective, algorithm, protocol = cell
    comm, constants, overrides = setting
    known = machine(comm, constants)
    if algorithm not in ("tree", "ring") or (algorithm == "tree" and collective != "all_reduce"):
        return None
    if _meshed(setting) and (algorithm, protocol) == ("tree", "simple"):
        return None
    allowed = overrides.allows_protocol(collective, protocol)
    if allowed is None:
        allowed = protocol != "ll128" or _ll128(algorithm, comm, known)
    on = allowed and overrides.allows_algorithm(collective, algorithm)
    return Entry(_latency_us(cell, setting), _algbw_GBps(cell, setting) if on else 0.0)


def _meshed(setting: Setting) -> bool:
    """One node of gfx94x GPUs, each joined to all others."""
    known = machine(setting.comm, setting.constants)
    near = setting.comm.nodes == 1 and not setting.comm.host_memory
    return bool(known.get("mesh")) and near


def _ll128(algorithm: str, comm: Communicator, known: Mapping[str, Any]) -> bool:
    graph = graph_of(algorithm, comm)
    near = as_near(graph.type_inter, "PXB") and as_near(graph.type_intra, "NVL")
    return bool(known.get("ll128")) and comm.nodes > 1 and near


def _algbw_GBps(cell: Cell, setting: Setting) -> float:
    collective, algorithm, protocol = cell
    comm, constants, _ = setting
    graph, known = graph_of(algorithm, comm), machine(comm, constants)
    bus = graph.channels * (graph.intra_GBps if comm.nodes <= 2 else graph.inter_GBps)
    if comm.nodes > 1:
        bus = float(known.get("several_nodes_bus_GBps") or bus)
    scale = "two_nodes" if comm.nodes <= 2 else "more_nodes"
    shares: Triple = model(comm, constants)["bus_share"][scale][algorithm]
    bus *= shares[PROTOCOLS.index(protocol)]
    if _meshed(setting) and protocol == "ll" and collective in ROOTED:
        bus *= float(constants.rccl["mesh_one_node"]["ll_ring_rooted_factor"])
    if algorithm == "tree":
        return bus * 0.5
    return bus * comm.ranks / steps(collective, comm.ranks)


def _latency_us(cell: Cell, setting: Setting) -> float:
    collective, algorithm, protocol = cell
    comm, constants, _ = setting
    p, hops = PROTOCOLS.index(protocol), model(comm, constants)["hop_us"]
    graph, nodes, n = graph_of(algorithm, comm), comm.nodes, comm.ranks
    inside = hops["nvlink" if graph.type_intra == "NVL" else "pci"]
    intra, net = float(inside[algorithm][p]), float(hops["net"][algorithm][p])
    inter = graph.latency_inter_us or net
    inter += graph.latency_inter_us if protocol == "simple" else 0.0
    base = constants.base_us[algorithm][p]
    if algorithm == "tree":
        return base + 2 * ((n // nodes - 1) * intra + math.floor(math.log2(nodes)) * inter)
    if collective in ROOTED:
        if graph.same_channels:
            return base + (net if nodes > 1 else intra)
        row = "tree" if protocol == "simple" else "ring"
        return base + n * float((hops["net"] if nodes > 1 else inside)[row][p])
    if nodes > 1:
        intra = max(intra, _overhead_us(protocol, setting))
    crossing = 0 if nodes == 1 else 2 * nodes if collective == "all_reduce" else nodes - 1
    return base + (steps(collective, n) - crossing) * intra + crossing * inter


def _overhead_us(protocol: str, setting: Setting) -> float:
    comm, constants, overrides = setting
    known = constants.rccl["net_overhead_us"]
    x86 = comm.cpu_arch == "x86_64" and comm.cpu in ("intel", "amd")
    one = overrides.net_overhead_us
    one = float(known[comm.cpu if x86 else "other"]) if one is None else one
    return one * (float(known["simple_factor"]) if protocol == "simple" else 1.0)


def correction(
    algorithm: str, protocol: str, size_bytes: int, comm: Communicator, constants: Constants
) -> float:
    """What RCCL multiplies an entry's bandwidth with at a size: trees always, rings between nodes."""
    if algorithm == "ring" and comm.nodes == 1:
        return 1.0
    log2 = max(0, (size_bytes >> 6).bit_length() - 1)
    factors = model(comm, constants)[f"{algorithm}_correction"][protocol]
    return float(factors[min(log2, _SIZES - 1)])
