"""How many channels and threads NCCL uses: of a communicator (`ncclTopoPostset`), of a call by its size.

A communicator split from another may have fewer than these say.
"""

from __future__ import annotations

from dataclasses import dataclass

from clusterlab.cost.nccl.communicator import Communicator
from clusterlab.cost.nccl.enable import collnet_on
from clusterlab.cost.nccl.entry import Cell, Setting
from clusterlab.cost.nccl.words import GATHERS, graph_of

_PCI_GEN3_GBps = 12.0
_NIC_400G_GBps, _NIC_800G_GBps = 48.0, 96.0
_WARP = 32
_MOST = 64
"""MAXCHANNELS of src/include/device.h."""
_PEERS_A_BATCH = 8
"""NCCL_MAX_DEV_WORK_P2P_PER_BATCH."""
_NET_CHANNEL_GBps = 14
"""NCCL_P2P_PER_CHANNEL_NET_BW."""


def communicator_channels(setting: Setting) -> int:
    """Channels of ring and tree: what the search found twice over, and the user's limits."""
    comm, overrides, rules = setting.comm, setting.overrides, setting.constants.channels
    several = comm.nodes > 1
    most = int(rules.get("most_several_nodes", rules["most"]) if several else rules["most"])
    ring = graph_of("ring", comm)
    count = min(most, 2 * min(ring.channels, graph_of("tree", comm).channels or ring.channels))
    chain = graph_of("collnet_chain", comm)
    wider = chain.intra_GBps > chain.inter_GBps and comm.ranks > comm.nodes
    if collnet_on(comm, overrides) and wider:
        count = min(most, count + count // 2)
    if _doubles(count, ring.intra_GBps, setting):
        count *= 2
    count = min(count, most, *(x for x in (overrides.max_channels, overrides.max_ctas) if x))
    least = max(overrides.min_channels or 0, overrides.min_ctas or 0)
    return max(1, count, min(least, most))


def _doubles(count: int, ring_GBps: float, setting: Setting) -> bool:
    """Hopper on several nodes with wide rings: four channels per one that the search found."""
    rules = setting.constants.channels
    newer = setting.sm >= 90 if rules["sm90_doubling_later_sm"] else setting.sm == 90
    if not newer or setting.comm.nodes == 1 or ring_GBps <= 45.0:
        return False
    if rules["sm90_doubling"] == "below_16":
        return count < 16
    return rules["sm90_doubling"] == "fits" and 2 * count <= int(rules["most"])


def nvls_channels(setting: Setting) -> int:
    """Channels of NVLS and NVLSTree (`transport/nvls.cc`)."""
    comm, overrides, rules = setting.comm, setting.overrides, setting.constants.channels
    count = int(rules["nvls_sm90"])
    if setting.sm >= 100:
        count = int(rules["nvls_sm100"][comm.nodes > 1])
        if comm.nodes > 1 and rules["nvls_sm100_tuned"]:
            count = _tuned_sm100(comm, count)
    count = overrides.nvls_channels or count
    return max(min(count, overrides.max_ctas or count), overrides.min_ctas or 0)


def _tuned_sm100(comm: Communicator, otherwise: int) -> int:
    """Blackwell on several nodes since 2.30, by NIC and ranks per node."""
    nic = comm.network.nic_GBps if comm.network else 0.0
    if comm.nodes == 2 and nic >= _NIC_400G_GBps:
        return 32
    if nic >= _NIC_800G_GBps:
        return 24 if comm.ranks_per_node <= 8 else 32
    return 24 if nic >= _NIC_400G_GBps else otherwise


@dataclass(frozen=True, slots=True)
class MessageChannels:
    """Channels of sends and receives: of all peers together, and of one of them."""

    all: int
    each: int


def message_channels(setting: Setting) -> MessageChannels:
    """`ncclTopoComputeP2pChannels` (src/graph/paths.cc): powers of two, no more for a peer than for all."""
    comm, overrides = setting.comm, setting.overrides
    count = min(communicator_channels(setting), overrides.max_message_channels or _MOST)
    count = min(_power_of_two(max(count, overrides.min_message_channels or 1)), _MOST)
    each = _power_of_two(_per_peer(setting))
    if comm.nodes > 1 and overrides.net_peer_channels is None:
        while each > 1 and each * _ceil(comm.ranks, _PEERS_A_BATCH) > count:
            each //= 2
    return MessageChannels(count, min(count, each))


def _per_peer(setting: Setting) -> int:
    """`ncclTopoGetNchannels`, of the peer with the fewest."""
    comm, network = setting.comm, setting.comm.network
    inside = 2
    if comm.intra == "nvlink" and comm.library == "nccl" and comm.ranks_per_node > 1:
        ring = setting.comm.graphs["ring"]
        to_all = ring.channels * ring.intra_GBps
        to_one = to_all if comm.nvswitch else to_all / (comm.ranks_per_node - 1)
        inside = 2 * max(1, int(to_one / setting.constants.nvlink_GBps(setting.sm)))
    if comm.nodes == 1 or network is None:
        return inside
    own = max(
        network.nics // comm.ranks_per_node, _ceil(int(network.nic_GBps), _NET_CHANNEL_GBps), 1
    )
    between = setting.overrides.net_peer_channels or own
    return min(inside, between) if comm.ranks_per_node > 1 else between


def _power_of_two(count: int) -> int:
    """The least one that is no less."""
    return 1 << max(0, count - 1).bit_length()


def max_threads(algorithm: str, protocol: str, setting: Setting) -> int:
    """Threads per channel before a small size lowers them; 0 where NCCL sets none."""
    threads, overrides = setting.constants.threads, setting.overrides
    if algorithm not in ("ring", "tree"):
        return int(threads["other"]) if protocol == "simple" and algorithm != "pat" else 0
    most = int(threads[protocol])
    if protocol == "ll128":
        return _user_threads(overrides.ll128_threads, most // 4, most, most)
    ring = graph_of("ring", setting.comm)
    slow = ring.intra_GBps * ring.channels <= _PCI_GEN3_GBps
    slow = slow and (algorithm, protocol) == ("ring", "simple")
    default = int(threads["simple_slow_ring"]) if slow else most
    return _user_threads(overrides.threads, int(threads["least"]), most, default)


def _user_threads(asked: int | None, least: int, most: int, default: int) -> int:
    """`getNthreads`: a number that is no multiple of a warp counts as the most."""
    if not asked:
        return default
    return most if asked % _WARP else min(max(asked, least), most)


def threshold_bytes(algorithm: str, protocol: str, setting: Setting) -> int:
    """Bytes per thread below which a call uses fewer channels, then fewer threads."""
    per_thread = setting.constants.threads["per_thread_bytes"]
    if algorithm in ("ring", "tree"):
        asked = setting.overrides.thread_threshold(algorithm, protocol)
        if asked is not None:
            return asked
    if algorithm.startswith("collnet") and protocol == "simple":
        return int(per_thread["collnet"])
    by_rank = (algorithm, protocol) == ("ring", "ll")
    return int(per_thread[protocol]) * (setting.comm.ranks if by_rank else 1)


def allowed_channels(cell: Cell, size_bytes: int, setting: Setting) -> int:
    """The most that a call may use (`topoGetAlgoInfo`'s nMaxChannels)."""
    _, algorithm, protocol = cell
    count = communicator_channels(setting)
    if algorithm in ("nvls", "nvls_tree"):
        own = nvls_channels(setting)
        return min(own, count) if algorithm == "nvls" and setting.comm.nodes > 1 else own
    threads = max_threads(algorithm, protocol, setting)
    threshold = threshold_bytes(algorithm, protocol, setting)
    if algorithm == "collnet_direct":
        return _collnet_direct(size_bytes, count, threads * setting.comm.heads, threshold)
    per_channel = threads * threshold
    return max(1, min(count, size_bytes // per_channel)) if per_channel else count


def _collnet_direct(size_bytes: int, count: int, threads: int, threshold: int) -> int:
    """NCCL lowers these in stages (16, 8, 4, 2, 1), halving the threshold half-way through each."""
    stage = 16
    while stage >= 1 and size_bytes < count * threads * threshold:
        while count > stage and size_bytes < count * threads * threshold:
            if count == stage + stage // 2:
                threshold //= 2
            count -= 1
        stage //= 2
    return count


def used_channels(cell: Cell, size_bytes: int, allowed: int, setting: Setting) -> int:
    """How many of the ``allowed`` channels a call alone gets (`scheduleCollTasksToPlan`).

    NCCL hands out cells that each move at least so much: ``channels.traffic_bytes`` of the version.
    """
    collective, algorithm, protocol = cell
    rules, n = setting.constants.channels, setting.comm.ranks
    least = rules["traffic_bytes"]
    in_network = algorithm in ("collnet_direct", "collnet_chain")
    in_network = in_network or (algorithm == "nvls" and setting.comm.nodes > 1)
    if least is None or in_network:
        return allowed
    gathers = collective in GATHERS
    own = size_bytes // n if gathers else size_bytes
    per_byte = n if gathers else 2 if collective == "all_reduce" else 1
    per_byte *= int(rules["ll_traffic_factor"]) if protocol == "ll" else 1
    share = max(int(least), own * per_byte) // allowed
    share = _up(share, 16) if rules["traffic_rule"] == "spread" else max(int(least), share)
    whole = rules["traffic_rule"] == "whole_cells"
    cell_bytes = 16 if whole else _up(_ceil(int(least), per_byte), 16)
    cells = max(1, _ceil(own, cell_bytes))
    per_channel = min(cells, max(1, _ceil(share, cell_bytes * per_byte)))
    return min(allowed, _ceil(cells, per_channel))


def _ceil(number: int, parts: int) -> int:
    return (number + parts - 1) // parts


def _up(number: int, multiple: int) -> int:
    return _ceil(number, multiple) * multiple
