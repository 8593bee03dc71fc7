"""A communicator from graphs that NCCL itself wrote: a graph XML, or the GRAPH lines of a log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import get_args

from clusterlab.core.errors import UsageError
from clusterlab.cost.nccl.communicator import (
    NEWEST,
    Communicator,
    CpuVendor,
    Graph,
    Network,
    PathName,
    Pattern,
)
from clusterlab.cost.nccl.graphs.build import least_of
from clusterlab.cost.nccl.graphs.chips import chip, cpu_vendor
from clusterlab.formats.nccl_graph import NcclGraph
from clusterlab.formats.nccl_log_graph import LogGraph
from clusterlab.topology.routing.host_graph import PathType

_PATTERNS: dict[int, Pattern] = {
    1: "balanced_tree",
    2: "split_tree",
    3: "tree",
    4: "ring",
    5: "nvls",
    6: "collnet_direct",
}
_BY_ID = {0: "ring", 1: "tree", 2: "collnet_chain", 3: "nvls", 4: "collnet_direct"}
_NAMES: tuple[str, ...] = get_args(PathName)


def graphs_of_xml(graphs: Iterable[NcclGraph]) -> dict[str, Graph]:
    """A graph XML's graphs by algorithm; those without channels were not found."""
    return {
        _BY_ID[g.id]: _graph(
            g.pattern,
            g.channels_declared,
            (g.speed_intra_GBps, g.speed_inter_GBps),
            (g.type_intra, g.type_inter),
            latency_us=g.latency_inter_us or 0.0,
            same=g.same_channels,
        )
        for g in graphs
        if g.id in _BY_ID and g.channels_declared and g.pattern in _PATTERNS
    }


def graphs_of_log(graphs: Sequence[LogGraph]) -> dict[str, Graph]:
    """A log's graphs by algorithm: of each rank those it printed, of all ranks the least, as NCCL does.

    A rank prints ring, tree, then the others; the second tree pattern is CollNet's chain.
    """
    by_rank: dict[object, dict[str, Graph]] = {}
    for g in graphs:
        if g.pattern not in _PATTERNS or not g.channels_declared:
            continue
        mine = by_rank.setdefault(g.line.writer, {})
        name: str = _PATTERNS[g.pattern]
        if name.endswith("tree"):
            name = "collnet_chain" if "tree" in mine else "tree"
        mine.setdefault(
            name,
            _graph(
                g.pattern,
                g.channels_declared,
                (g.speed_intra_GBps, g.speed_inter_GBps),
                (g.type_intra, g.type_inter),
            ),
        )
    return least_of(list(by_rank.values())) if by_rank else {}


def _graph(
    pattern: int,
    channels: int,
    rates: tuple[float, float],
    types: tuple[str, str],
    *,
    latency_us: float = 0.0,
    same: bool = True,
) -> Graph:
    inside, between = (_type(name) for name in types)
    return Graph(_PATTERNS[pattern], channels, *rates, inside, between, latency_us, same)


def _type(text: str) -> PathName:
    """A path type as NCCL of any version names it (NODE: old for PHB)."""
    name = {"NODE": "PHB", "PHB": "PHB", "DIS": "NET"}.get(text.upper(), text.upper())
    return name if name in _NAMES else "SYS"  # type: ignore[return-value]  # one of PathName


def communicator_from_graphs(
    graphs: Iterable[NcclGraph] | Iterable[LogGraph],
    *,
    ranks: int,
    nodes: int,
    gpu: str,
    cpu: CpuVendor | None = None,
    network: Network | None = None,
    hosts: int | None = None,
    version: str = NEWEST,
    where: str = "graphs",
) -> Communicator:
    """What NCCL knew, from the graphs it wrote and what they do not say: ``ranks``, ``nodes``, the GPU's
    model. Raises UsageError where no ring is among them, or the ranks do not fit the nodes.
    """
    given = list(graphs)
    of_xml = [g for g in given if isinstance(g, NcclGraph)]
    of_log = [g for g in given if isinstance(g, LogGraph)]
    found = graphs_of_xml(of_xml) if of_xml else graphs_of_log(of_log)
    if "ring" not in found:
        raise UsageError(
            "no ring graph", where=where, expected="a graph with pattern 4 and channels"
        )
    if not 1 <= nodes <= ranks:
        raise UsageError(f"{ranks} ranks on {nodes} nodes", where=where, expected="a rank per node")
    known = chip(gpu)
    vendor = cpu or cpu_vendor((), known.name)
    ring = found["ring"]
    nvlink = PathType[ring.type_intra] <= PathType.NVB
    per_node = -(-ranks // nodes)
    staged = ring.type_intra in ("PHB", "SYS")
    return Communicator(
        ranks=ranks,
        nodes=nodes,
        ranks_per_node=per_node,
        compute_capability=known.capability,
        gpu=known.name,
        graphs=found,
        intra="xgmi" if nvlink and known.library == "rccl" else "nvlink" if nvlink else "pcie",
        cpu=vendor,
        cpu_arch="arm64" if vendor == "arm" else "ppc64" if vendor == "power" else "x86_64",
        nvswitch="nvls" in found,
        nvls="nvls" in found,
        collnet="collnet_chain" in found or "collnet_direct" in found,
        staged_hops=per_node if staged else 0,
        staged_pairs=float(staged),
        heads=found["nvls"].channels if "nvls" in found else per_node,
        hosts=hosts or nodes,
        network=network,
        library=known.library,
        version=version,
    )
