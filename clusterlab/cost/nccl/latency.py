"""Latency of one entry of the tuning table: the second half of `ncclTopoTuneModel`."""

from __future__ import annotations

import math

from clusterlab.cost.nccl.bandwidth import steps
from clusterlab.cost.nccl.entry import Cell, Setting
from clusterlab.cost.nccl.words import PROTOCOLS, ROOTED, graph_of

_PAT_PER_RANK_US = 2.8
_PAT_OVERLAP = 3.5
_PAT_BASE_US = 8.0


def latency_us(cell: Cell, setting: Setting) -> float:
    """What NCCL expects of the cell's algorithm and protocol at a size of nothing, in µs."""
    base = setting.constants.base_us[cell.algorithm][PROTOCOLS.index(cell.protocol)]
    return _STEPS_US[cell.algorithm](cell, base, setting)


def _hop_us(graph: str, row: str, protocol: str, setting: Setting) -> float:
    """One hop inside a node over the links of ``graph``'s graph, for the algorithm ``row``."""
    link = "nvlink" if graph_of(graph, setting.comm).type_intra == "NVL" else "pci"
    if setting.comm.cpu_arch == "ppc64" and (link, row, protocol) == ("pci", "tree", "simple"):
        row = "ring"  # tuning.cc: so that POWER prefers trees
    hop = setting.constants.hop_us[link][row][PROTOCOLS.index(protocol)]
    slow = setting.comm.nodes > 1 and protocol == "ll"
    return hop * float(setting.constants.rules["ll_intra_factor"]) if slow else hop


def _net_us(algorithm: str, protocol: str, setting: Setting) -> float:
    return setting.constants.hop_us["net"][algorithm][PROTOCOLS.index(protocol)]


def _intra_us(cell: Cell, setting: Setting) -> float:
    return _hop_us(cell.algorithm, cell.algorithm, cell.protocol, setting)


def _inter_us(cell: Cell, setting: Setting) -> float:
    """One step between nodes: the table's and the NIC's own, twice for Simple, which flushes."""
    comm, rules = setting.comm, setting.constants.rules
    lone = comm.ranks == comm.nodes and rules["lone_ranks_use_tree_latency"]
    hop = _net_us("tree" if lone else cell.algorithm, cell.protocol, setting)
    nic = graph_of(cell.algorithm, comm).latency_inter_us
    if rules["latency_inter"] == "replaces":
        return nic or hop
    return hop + nic * (2 if cell.protocol == "simple" else 1)


def _levels(setting: Setting) -> int:
    return math.floor(math.log2(setting.comm.nodes))


def _local(setting: Setting) -> int:
    return setting.comm.ranks // setting.comm.nodes


def _ring_us(cell: Cell, base: float, setting: Setting) -> float:
    collective, _, protocol = cell
    n, nodes, rules = setting.comm.ranks, setting.comm.nodes, setting.constants.rules
    if collective in ROOTED:
        return base + _chain_us(cell, setting)
    intra = _intra_us(cell, setting)
    if nodes > 1:
        intra = max(intra, _overhead_us(protocol, setting))
    crossing = nodes - 1
    if collective == "all_reduce":
        per_node = rules["all_reduce_ring_inter_steps"] == "two_per_node"
        crossing = 2 * (nodes if per_node else nodes - 1)
    crossing = crossing if nodes > 1 else 0
    within = steps(collective, n) - crossing
    return base + within * intra + crossing * _inter_us(cell, setting)


def _chain_us(cell: Cell, setting: Setting) -> float:
    """Broadcast and reduce: one hop where all channels run alike, else one per rank."""
    same = graph_of("ring", setting.comm).same_channels
    row = "tree" if not same and cell.protocol == "simple" else "ring"
    several = setting.comm.nodes > 1
    within = _hop_us("ring", row, cell.protocol, setting)
    hop = _net_us(row, cell.protocol, setting) if several else within
    return hop if same else steps(cell.collective, setting.comm.ranks) * hop


def _overhead_us(protocol: str, setting: Setting) -> float:
    """What handing a step to the network costs (`getNetOverhead`); nothing before NCCL 2.18."""
    known, comm = setting.constants.rules["net_overhead_us"], setting.comm
    if known is None:
        return 0.0
    x86 = comm.cpu_arch == "x86_64" and comm.cpu in ("intel", "amd")
    one = setting.overrides.net_overhead_us
    one = float(known[comm.cpu if x86 else "other"]) if one is None else one
    return one * (float(known["simple_factor"]) if protocol == "simple" else 1.0)


def _tree_us(cell: Cell, base: float, setting: Setting) -> float:
    within = (_local(setting) - 1) * _intra_us(cell, setting)
    return base + 2 * (within + _levels(setting) * _inter_us(cell, setting))


def _collnet_direct_us(cell: Cell, base: float, setting: Setting) -> float:
    peers = _local(setting) - 1
    arity = peers * float(setting.constants.rules["collnet_direct_arity_us"])
    within = min(1, peers) * _intra_us(cell, setting)
    return base + 2 * (within + arity) + _inter_us(cell, setting)


def _collnet_chain_us(cell: Cell, base: float, setting: Setting) -> float:
    net = _inter_us(cell, setting) if setting.constants.rules["collnet_chain_net"] else 0.0
    return base + 2 * (_local(setting) - 1) * _intra_us(cell, setting) + net


def _nvls_us(cell: Cell, base: float, setting: Setting) -> float:
    several = setting.comm.nodes > 1
    if setting.constants.rules["nvls_latency"] == "intra":
        return _intra_us(cell, setting) + (_inter_us(cell, setting) if several else 0.0)
    return base + (_net_us("nvls", cell.protocol, setting) if several else 0.0)


def _nvls_tree_us(cell: Cell, base: float, setting: Setting) -> float:
    if setting.constants.rules["nvls_tree_latency"] == "linear":
        return base + 2 * (setting.comm.nodes - 1) * _net_us("nvls_tree", cell.protocol, setting)
    return base + _intra_us(cell, setting) + 2 * _levels(setting) * _inter_us(cell, setting)


def _pat_us(cell: Cell, base: float, setting: Setting) -> float:
    """A logarithmic part and one that still grows with the ranks."""
    levels = _levels(setting) * _inter_us(cell, setting) / _PAT_OVERLAP
    return (base or _PAT_BASE_US) + levels + setting.comm.ranks * _PAT_PER_RANK_US


_STEPS_US = {
    "tree": _tree_us,
    "ring": _ring_us,
    "collnet_direct": _collnet_direct_us,
    "collnet_chain": _collnet_chain_us,
    "nvls": _nvls_us,
    "nvls_tree": _nvls_tree_us,
    "pat": _pat_us,
}
