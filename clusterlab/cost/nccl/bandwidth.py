"""Bandwidth of one entry of the tuning table: the first half of `ncclTopoTuneModel`.

From the graph's channels and speeds to a bus bandwidth, refined by protocol, then to NCCL's algorithm
bandwidth (size over time without latency).
"""

from __future__ import annotations

from clusterlab.cost.nccl.communicator import Graph
from clusterlab.cost.nccl.constants import Triple
from clusterlab.cost.nccl.entry import Cell, Setting
from clusterlab.cost.nccl.words import GATHERS, graph_of

_LL_OF_TREE = 3.8
_LL128_OF_TREE = (7 / 9, 120 / 128)  # one node, several
_TREE = 0.92


def steps(collective: str, ranks: int) -> int:
    """Steps of the ring."""
    if collective == "all_reduce":
        return 2 * (ranks - 1)
    return ranks - 1 if collective in GATHERS else ranks


def algbw_GBps(cell: Cell, setting: Setting) -> float:
    """What NCCL expects of the cell's algorithm and protocol at large sizes, in GB/s of the buffer."""
    collective, algorithm, _ = cell
    comm, rules = setting.comm, setting.constants.rules
    bus = _bus_GBps(cell, setting)
    if collective in GATHERS and algorithm in rules["gathers_unconverted"]:
        return bus
    ratio = "steps" if algorithm == "ring" else rules.get(f"{algorithm}_algbw", 0.5)
    if ratio == "steps":
        return bus * comm.ranks / steps(collective, comm.ranks)
    if ratio == "nodes":
        return bus * 0.7 * comm.nodes / (2 * (comm.nodes - 1)) if comm.nodes > 1 else 0.0
    return bus * float(ratio)


def per_scale(row: Triple, nodes: int) -> float:
    """The entry of a row for one node, two, or four and more."""
    return row[min(nodes, 3) - 1]


def _bus_GBps(cell: Cell, setting: Setting) -> float:
    algorithm, rules = cell.algorithm, setting.constants.rules
    if algorithm in ("nvls", "nvls_tree"):
        return _nvls_GBps(cell, setting)
    bus = _graph_GBps(graph_of(algorithm, setting.comm), algorithm.startswith("collnet"), setting)
    if algorithm == "ring":
        return _ring_GBps(cell, bus, setting)
    if algorithm == "tree":
        return _tree_GBps(cell, bus, setting)
    if algorithm == "collnet_direct" and cell.protocol == "simple":
        return _collnet_direct_GBps(cell, bus, setting)
    if algorithm == "pat":
        return bus * float(rules["pat_share"])
    return bus * float(rules["collnet_chain_share"]) if cell.protocol == "simple" else 0.0


def _graph_GBps(graph: Graph, inside: bool, setting: Setting) -> float:
    """All channels of ``graph``: at their speed ``inside`` a node also for up to two nodes."""
    inside = inside or setting.comm.nodes <= 2
    bus = graph.channels * (graph.intra_GBps if inside else graph.inter_GBps)
    cap = setting.constants.rules["bus_cap_GBps"].get(setting.generation)
    return bus if cap is None else min(bus, float(cap))


def _ll_most_GBps(setting: Setting) -> float:
    """The most of LL: by GPU on one node, by the hosts' CPU beyond."""
    comm, row = setting.comm, setting.generation
    if comm.nodes > 1:
        row = "ampere" if comm.cpu == "amd" else "volta"
    return per_scale(setting.constants.ll_max_GBps[row], comm.nodes)


def _ring_GBps(cell: Cell, bus: float, setting: Setting) -> float:
    comm, rules = setting.comm, setting.constants.rules
    if cell.protocol == "ll":
        many = comm.nodes > 1 or cell.collective in ("all_reduce", "reduce")
        share = float(rules["ring_ll_share"][0 if many else 1])
        return min(_ll_most_GBps(setting), bus * share)
    if cell.protocol == "ll128":
        lone = comm.ranks < 2 * comm.nodes
        share = float(rules["ring_ll128_share"][0 if lone else 1])
        row = setting.constants.ring_ll128_per_channel_GBps[setting.generation]
        channels = graph_of("ring", comm).channels
        return min(bus * share, channels * per_scale(row, comm.nodes))
    return bus


def _tree_GBps(cell: Cell, bus: float, setting: Setting) -> float:
    constants, nodes = setting.constants, setting.comm.nodes
    graph = graph_of("tree", setting.comm)
    most = per_scale(constants.tree_per_channel_GBps[setting.generation], nodes)
    bus = min(bus * _TREE, graph.channels * most)
    if cell.protocol == "ll":
        bus = min(bus / _LL_OF_TREE, _ll_most_GBps(setting))
    elif cell.protocol == "ll128":
        most = per_scale(constants.tree_ll128_per_channel_GBps[setting.generation], nodes)
        bus = min(bus * _LL128_OF_TREE[nodes > 1], graph.channels * most)
    return bus * (float(constants.rules["plain_tree_share"]) if graph.pattern == "tree" else 1.0)


def _nvls_GBps(cell: Cell, setting: Setting) -> float:
    """NVLS and NVLSTree, as each family of releases took the graph's speeds."""
    rule, comm = setting.constants.rules["nvls_bus"], setting.comm
    graph = graph_of("ring" if rule == "ring_graph" else cell.algorithm, comm)
    intra, inter, per_node = graph.intra_GBps, graph.inter_GBps, comm.ranks / comm.nodes
    if rule == "efficiency":
        return _efficient_nvls_GBps(cell, graph, setting)
    if rule in ("graph", "ring_graph"):
        return _graph_GBps(graph, False, setting)
    if cell.algorithm == "nvls_tree":
        return graph.channels * min(intra, inter if comm.nodes <= 2 else inter / 2)
    if rule == "least_of_heads" and cell.collective in GATHERS:
        return graph.channels * min(intra * (per_node - 1) / per_node, inter * 0.9)
    return graph.channels * min(intra, inter)


def _efficient_nvls_GBps(cell: Cell, graph: Graph, setting: Setting) -> float:
    """NVLS since 2.28. An all_reduce pipelines two operations; a head's own part does not travel."""
    comm, constants, n = setting.comm, setting.constants, graph.channels
    if n == 0:
        return 0.0
    per_node = comm.ranks / comm.nodes
    intra = graph.intra_GBps * constants.nvls_efficiency[setting.generation] * (n - 1) / n
    intra *= (per_node - 1) / per_node if cell.collective in GATHERS else 2.0
    if cell.algorithm == "nvls":
        return n * min(intra, graph.inter_GBps)
    inter = graph.inter_GBps * (2 if comm.nodes <= 2 else 1)
    most = per_scale(constants.nvls_tree_per_channel_GBps[setting.generation], comm.nodes)
    return n * min(intra, inter, most)


def _collnet_direct_GBps(cell: Cell, bus: float, setting: Setting) -> float:
    rules, graph = setting.constants.rules, graph_of("collnet_direct", setting.comm)
    per_node = setting.comm.ranks / setting.comm.nodes
    if cell.collective in GATHERS:
        if rules["collnet_direct_gather"] == "least":
            return per_node * min(graph.intra_GBps, graph.inter_GBps * 0.9)
        share = (per_node - 1) / (8 - 1)  # measured at 1 and 8 per node, says NCCL
        return per_node * graph.intra_GBps * (share * 0.85 + (1 - share) * 0.95)
    if graph.channels == 0:
        return 0.0
    factor = per_node / graph.channels  # GPUs per NIC
    factor -= (factor - 1) / 2
    newer = float(rules["collnet_direct_sm90_share"]) if setting.sm >= 90 else 1.0
    return bus / factor * newer
