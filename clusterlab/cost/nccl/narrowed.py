"""How much longer the bytes take on fewer channels than NCCL would use by itself.

A channel is one thread block, and a block moves only so much. NCCL's model of an algorithm has no such
limit: it counts what the links carry, and gives enough blocks. Where the user leaves fewer, the blocks
decide. More than NCCL's own number are counted as no faster.
"""

from __future__ import annotations

from functools import lru_cache

from clusterlab.cost.effects.features import gpu_link_GBps
from clusterlab.cost.nccl.channels import (
    allowed_channels,
    message_channels,
    used_channels,
)
from clusterlab.cost.nccl.communicator import NEWEST, Communicator
from clusterlab.cost.nccl.constants import constants_for
from clusterlab.cost.nccl.entry import Cell, Setting, setting_of
from clusterlab.cost.nccl.overrides import Overrides

_BLOCKS_PER_CHANNEL = 2
"""NCCL lays each channel of a graph twice (`ncclTopoPostset`)."""
_NET_BLOCK_GBps = 14.0
"""What NCCL counts one channel to carry to a peer over the network (NCCL_P2P_PER_CHANNEL_NET_BW)."""
_KEPT = 16384


def slowdown(cell: Cell, size_bytes: float, comm: Communicator, overrides: Overrides) -> float:
    """Factor (at least 1) on the time of a collective's bytes."""
    if not overrides.sets_channels or comm.ranks < 2:
        return 1.0
    return _slowdown(cell, max(1, int(size_bytes)), comm, overrides)


@lru_cache(maxsize=_KEPT)
def _slowdown(cell: Cell, size_bytes: int, comm: Communicator, overrides: Overrides) -> float:
    both = (overrides, overrides.with_own_channels())
    asked, own = (_used(cell, size_bytes, setting_of(comm, o)) for o in both)
    full = None if cell.algorithm in ("nvls", "nvls_tree") else _graph_GBps(cell, comm)
    return _ratio(asked, own, full, _block_GBps(comm))


def message_slowdown(collective: str, comm: Communicator, overrides: Overrides) -> float:
    """The same for all_to_all, send_recv and send: of the channels that all peers share, or of one peer's."""
    if not overrides.sets_channels or comm.ranks < 2:
        return 1.0
    free = overrides.with_own_channels()
    to_all = collective == "all_to_all"
    asked, own = (
        channels.all if to_all else channels.each
        for channels in (message_channels(setting_of(comm, o)) for o in (overrides, free))
    )
    inside = _ratio(asked, own, gpu_link_GBps(comm), _block_GBps(comm))
    network = comm.network
    if comm.nodes == 1 or network is None:
        return inside
    nics_GBps = network.nic_GBps
    if to_all:
        nics_GBps *= network.nics / comm.ranks_per_node
    between = _ratio(asked, own, nics_GBps, _NET_BLOCK_GBps)
    return max(inside, between) if to_all else between


def _used(cell: Cell, size_bytes: int, setting: Setting) -> int:
    return used_channels(cell, size_bytes, allowed_channels(cell, size_bytes, setting), setting)


def _ratio(asked: int, own: int, full_GBps: float | None, block_GBps: float | None) -> float:
    """What ``own`` channels carry to what ``asked`` do. Without figures each has an equal share."""
    if asked >= own:
        return 1.0
    if full_GBps is None or block_GBps is None:
        return own / asked
    return min(full_GBps, own * block_GBps) / min(full_GBps, asked * block_GBps)


def _graph_GBps(cell: Cell, comm: Communicator) -> float | None:
    graph = comm.graphs.get("tree" if cell.algorithm == "pat" else cell.algorithm)
    if graph is None:
        return None
    return graph.channels * (graph.intra_GBps if comm.nodes <= 2 else graph.inter_GBps)


def _block_GBps(comm: Communicator) -> float | None:
    """The most of one thread block: half of what NCCL lets a tree's channel have; AMD's is not known."""
    if comm.library == "rccl":
        return None
    constants = constants_for(NEWEST)
    row = constants.tree_per_channel_GBps[constants.generation(comm.compute_capability)]
    return row[0] / _BLOCKS_PER_CHANNEL
