"""What the formula needs to know of one collective on one communicator."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

from clusterlab.cost.effects.formula import P2P_LL_BYTES
from clusterlab.cost.nccl.communicator import NEWEST, Communicator
from clusterlab.cost.nccl.constants import constants_for
from clusterlab.cost.nccl.overrides import NO_OVERRIDES
from clusterlab.cost.nccl.tuning import tuning_table
from clusterlab.cost.nccl.words import PROTOCOLS
from clusterlab.formats.nccl_tables import PORT_SHARE, nvlink_GBps

_NVLS_OVER_LINK = 1.5
"""NVLS moves S (1 + 1/n) through a GPU's links where a ring moves 2 S (n-1)/n, and reads as it writes. The
measured plateau of busbw does not depend on n: B200 845 GB/s at 8 ranks, GB200 847 at 72 and 820 at 128.
So its wire time is that of busbw at this multiple of the NVLink rate, and ``nvls_rate`` the share reached.
"""


@dataclass(frozen=True, slots=True)
class Features:
    """One point as the formula sees it.

    ``kind`` is the formula's branch. ``wire_us`` is the time of the bytes on the graph's channels at
    their full rate; ``network_wire_us`` the same on the NICs where NVLS keeps them apart. ``copy_us`` is
    S/n at the rate of a GPU's links, 0 where those are too slow for it to show. ``net_hop_us`` is NCCL's
    own figure for a hop between nodes (for kind ``other`` its whole latency). ``staged_us`` is the time at
    1 GB/s of the bytes that a rank copies through its host's memory, 0 where GPUs have peer access;
    ``crowd`` half the ranks that do so.
    """

    kind: str
    protocol: str
    several_nodes: bool
    sums: bool
    size_bytes: float
    part_bytes: float
    hops_inside: int
    hops_between: int
    net_hop_us: float
    wire_us: float
    network_wire_us: float
    copy_us: float
    staged_us: float
    crowd: float


def features(
    comm: Communicator,
    collective: str,
    algorithm: str,
    protocol: str,
    size_bytes: float,
    *,
    share: float = 1.0,
) -> Features:
    """Of a collective that NCCL has a model for, by one of its algorithms and protocols.

    ``share`` of the NICs' rate is what the network beyond them leaves.
    """
    n, nodes, size = comm.ranks, comm.nodes, float(size_bytes)
    total, between = hops(comm, collective, algorithm)
    wire, network_wire = (size * each for each in _wire_us_per_byte(comm, collective, algorithm))
    if nodes > 1 and algorithm == "nvls_tree":
        network_wire /= share
    elif nodes > 1:
        wire /= share
    known = ("ring", "tree", "nvls", "nvls_tree")
    kind = algorithm if algorithm in known else "other"
    return Features(
        kind=kind,
        protocol=protocol,
        several_nodes=nodes > 1,
        sums=collective == "all_reduce",
        size_bytes=size,
        part_bytes=size / n,
        hops_inside=total - between,
        hops_between=between,
        net_hop_us=_net_hop_us(comm, collective, algorithm, protocol, kind),
        wire_us=wire,
        network_wire_us=network_wire,
        copy_us=_copy_us(comm, size),
        staged_us=_staged_us(comm, size * (2 if collective == "all_reduce" else 1), 1.0),
        crowd=_crowd(comm.staged_hops),
    )


def message_wire_us(comm: Communicator, collective: str, size_bytes: float) -> float:
    """µs of the bytes of all_to_all, send_recv and send on the busiest kind of link, at its full rate.

    all_to_all between nodes by PXN: S (N-1)/N of every rank leaves by the NICs of its node together,
    S (g-1)/g pass NVLink, to peers and to the rail's GPU. send_recv: one rank of a node sends
    abroad, by its own NIC.
    """
    n, nodes = comm.ranks, comm.nodes
    g, link = n / nodes, gpu_link_GBps(comm) * 1e3
    network = comm.network
    if nodes == 1 or network is None:
        return size_bytes * ((n - 1) / n if collective in IN_PARTS else 1.0) / link
    if collective in ("gather", "scatter"):
        return _rooted_wire_us(comm, collective, size_bytes)
    if collective == "all_to_all":
        out = size_bytes * (nodes - 1) / nodes * g / (nics_GBps(comm) * 1e3)
        return max(out, size_bytes * (g - 1) / g / link)
    return size_bytes / (network.nic_GBps * PORT_SHARE * 1e3)


IN_PARTS = frozenset({"all_to_all", "gather", "scatter"})
"""Messages of one part each; gather and scatter have the root's of an all_to_all."""


def _rooted_wire_us(comm: Communicator, collective: str, size_bytes: float) -> float:
    """Between nodes S (N-1)/N enter the root's node by the root's own NIC, as PXN delivers on the reader's
    rail. They leave it by the NICs of all rails, but for what NVLink carries to the GPUs there.
    """
    n, nodes, network = comm.ranks, comm.nodes, comm.network
    assert network is not None, "between nodes"
    g, link = n / nodes, gpu_link_GBps(comm) * 1e3
    abroad = size_bytes * (nodes - 1) / nodes
    nic = network.nic_GBps * PORT_SHARE * 1e3
    if collective == "gather":
        return max(abroad / nic, size_bytes * (g - 1) / n / link)
    by_link = size_bytes * (n - 1) / n - abroad / g
    return max(abroad / (nics_GBps(comm) * 1e3), by_link / link)


def message_features(
    comm: Communicator, collective: str, size_bytes: float, wire_us: float
) -> Features:
    """Of all_to_all, send_recv and send; ``wire_us`` from ``message_wire_us`` or from flows on links."""
    n, size = comm.ranks, float(size_bytes)
    part = size / n if collective in IN_PARTS else size
    between = 1 if comm.nodes > 1 else 0
    return Features(
        kind="p2p_ll" if part <= P2P_LL_BYTES else "p2p_simple",
        protocol="ll" if part <= P2P_LL_BYTES else "simple",
        several_nodes=comm.nodes > 1,
        sums=False,
        size_bytes=size,
        part_bytes=part,
        hops_inside=(n - 1 if collective in IN_PARTS else 1) - between,
        hops_between=between,
        net_hop_us=0.0,
        wire_us=wire_us,
        network_wire_us=0.0,
        copy_us=_copy_us(comm, size) if collective in IN_PARTS else 0.0,
        staged_us=_staged_message_us(comm, collective, size),
        crowd=_crowd(comm.ranks_per_node if collective == "all_to_all" else comm.staged_hops),
    )


def with_bytes(point: Features, factor: float) -> Features:
    """``point`` with ``factor`` times the time of its bytes; 0 leaves its steps alone."""
    return replace(
        point,
        wire_us=point.wire_us * factor,
        network_wire_us=point.network_wire_us * factor,
        copy_us=point.copy_us * factor,
        staged_us=point.staged_us * factor,
    )


def _staged_message_us(comm: Communicator, collective: str, size_bytes: float) -> float:
    """Of messages: every pair's of an all_to_all, else the whole one, by hops without peer access."""
    if collective == "all_to_all":
        return _staged_us(comm, size_bytes, comm.staged_pairs)
    share = comm.ranks / (comm.ranks - 1) if comm.staged_hops else 0.0
    return _staged_us(comm, size_bytes, share)


def hops(comm: Communicator, collective: str, algorithm: str) -> tuple[int, int]:
    """(all, between nodes): hops one after another on the longest way.

    Ring n-1 a pass, N-1 of them between nodes (broadcast and reduce: a chain of as many); tree up and
    down a node's chain and log2 N levels.
    """
    n, nodes = comm.ranks, comm.nodes
    passes = 2 if collective == "all_reduce" else 1
    levels = passes * math.floor(math.log2(nodes))
    if algorithm == "ring":
        return passes * (n - 1), passes * (nodes - 1)
    if algorithm == "tree":
        return passes * (n // nodes - 1) + levels, levels
    return levels, levels


def gpu_link_GBps(comm: Communicator) -> float:
    """What the links of one GPU to its peers carry together, as NCCL's search counts them."""
    ring = comm.graphs["ring"]
    if comm.intra == "nvlink" and comm.switch_GBps is not None:
        return comm.switch_GBps
    if comm.nodes > 1 and comm.intra == "nvlink":
        return max(ring.channels * ring.intra_GBps, _NVSWITCH_GBps.get(_generation(comm), 0.0))
    if comm.intra == "nvlink" and comm.nvswitch:
        return _NVSWITCH_GBps.get(_generation(comm), ring.channels * ring.intra_GBps)
    return ring.channels * ring.intra_GBps


_NVSWITCH_GBps = {
    "ampere": 12 * nvlink_GBps(80),
    "hopper": 18 * nvlink_GBps(90),
    "blackwell": 18 * nvlink_GBps(100),
}
"""A GPU's links to its NVSwitches, together."""


def _generation(comm: Communicator) -> str:
    return constants_for(NEWEST).generation(comm.compute_capability)


_CROWDED = 4.0
"""Eight ranks of a host are the most of which a measurement is known; more are taken to be no worse."""


def _copy_us(comm: Communicator, size_bytes: float) -> float:
    """The own part, moved inside the GPU: it shows beside NVLink or xGMI, not beside PCIe or a network."""
    if comm.nodes > 1 or comm.intra == "pcie":
        return 0.0
    return size_bytes / comm.ranks / (gpu_link_GBps(comm) * 1e3)


def _staged_us(comm: Communicator, size_bytes: float, share: float) -> float:
    """What a rank passes on, all of it but its own part: ``share`` of that through its host's memory."""
    inside = comm.host_memory and comm.ranks_per_node > 1
    return share * size_bytes * (comm.ranks - 1) / comm.ranks / 1e3 if inside else 0.0


def _crowd(ranks: int) -> float:
    """Half of the ranks that copy through one host's memory."""
    return min(max(1.0, ranks / 2), _CROWDED)


def nics_GBps(comm: Communicator) -> float:
    """What the NICs of a node carry together that its ranks use: all of them, but of a node with few ranks
    those of the ring's channels, or one for each GPU with a NIC of its own.
    """
    network, ring = comm.network, comm.graphs["ring"]
    found = ring.channels * ring.inter_GBps
    if network is None:
        return found
    nic = network.nic_GBps * PORT_SHARE
    return min(network.nics * nic, max(found, comm.heads * nic))


def _net_hop_us(
    comm: Communicator, collective: str, algorithm: str, protocol: str, kind: str
) -> float:
    if kind == "other":
        return tuning_table(collective, comm)[algorithm, protocol].latency_us
    return constants_for(NEWEST).hop_us["net"][algorithm][PROTOCOLS.index(protocol)]


@lru_cache(maxsize=4096)
def _wire_us_per_byte(comm: Communicator, collective: str, algorithm: str) -> tuple[float, float]:
    """µs per byte of the buffer on the graph's channels, and on the NICs where they are apart."""
    size = 1.0
    n, nodes = comm.ranks, comm.nodes
    passes = 2 if collective == "all_reduce" else 1
    if algorithm in ("nvls", "nvls_tree"):
        on_bus = size * passes * (n - 1) / n
        over = _NVLS_OVER_LINK
        if passes == 1:  # NCCL counts 2 for an all_reduce and (g-1)/g for a gather (tuning.cc)
            over *= (n / nodes - 1) / (n / nodes) / 2
        inside = on_bus / (over * gpu_link_GBps(comm) * 1e3)
        if nodes == 1:
            return inside, 0.0
        # Of two nodes each tree's root and leaf halve what a NIC carries (tuning.cc).
        twice = 2 if nodes <= 2 and algorithm == "nvls_tree" else 1
        return inside, on_bus / (nics_GBps(comm) * twice * 1e3)
    if algorithm == "tree" and comm.library == "nccl":
        graph = comm.graphs["tree"]
        rate = graph.intra_GBps if nodes <= 2 else graph.inter_GBps
        return 2 * size / (graph.channels * rate * 1e3), 0.0
    # What a wire carries does not depend on the version that runs.
    newest = replace(comm, version=NEWEST) if comm.library == "nccl" else comm
    table = tuning_table(collective, newest, NO_OVERRIDES)
    entry = table.get((algorithm, "simple")) if algorithm != "tree" else None
    if entry is None or entry.algbw_GBps <= 0:
        entry = table["ring", "simple"]
    return size / (entry.algbw_GBps * 1e3), 0.0
