"""all_to_all and send_recv: messages straight to their reader, or by way of a GPU on its rail.

NCCL's all_to_all is n-1 sends and receives in one group; with PXN a message for another node goes over
NVLink to the GPU at the reader's NIC first (NCCL `src/enqueue.cc`, `src/graph/paths.cc`).
n ranks, g per node, N nodes, s ranks on the NIC with most.
"""

from __future__ import annotations

from collections.abc import Iterator

from clusterlab.cost.schedules.counts import Counts, even
from clusterlab.cost.schedules.direct import direct_all_to_all_rounds, ring_shift_rounds
from clusterlab.cost.schedules.family import Family
from clusterlab.cost.schedules.rounds import Round, Transfer
from clusterlab.cost.schedules.shape import GroupShape
from clusterlab.cost.schedules.shifts import shift_counts


def direct_counts(shape: GroupShape, S: float, chunks: int = 1) -> Counts:
    """All messages at once, one step: S(g-1)/n inside, g·S(n-g)/n out of a node."""
    n, g = shape.ranks, shape.ranks_per_node
    rank_between = S * (n - g) / n
    hops = (1, 0) if shape.nodes == 1 else (0, 1)
    return even(
        steps=1,
        hops=hops,
        sent=S * (n - 1) / n,
        gpu=S * (g - 1) / n,
        node=g * rank_between,
        nic=shape.most_per_nic * rank_between,
    )


def pairwise_rounds(shape: GroupShape, chunks: int = 1) -> Iterator[Round]:
    """n·n blocks, in round k to the rank k further on."""
    n = shape.ranks
    for k in range(1, n):
        yield [Transfer(r, (r + k) % n, r * n + (r + k) % n) for r in range(n)]


def pairwise_counts(shape: GroupShape, S: float, chunks: int = 1) -> Counts:
    """The same bytes in n-1 steps."""
    once = direct_counts(shape, S)
    return even(
        steps=shape.ranks - 1,
        hops=(once.hops_inside, once.hops_between),
        sent=once.sent_bytes,
        gpu=once.gpu_out_bytes,
        node=once.node_out_bytes,
        nic=once.nic_out_bytes,
    )


def pxn_rounds(shape: GroupShape, chunks: int = 1) -> Iterator[Round]:
    """n·n blocks: inside the node to the reader, or to the head of the reader's NIC; then between."""
    n, g = shape.ranks, shape.ranks_per_node
    inside, between = [], []
    for src in range(n):
        for dst in range(n):
            block, node = src * n + dst, shape.node_of(src)
            if node == shape.node_of(dst):
                if src != dst:
                    inside.append(Transfer(src, dst, block))
                continue
            proxy = node * g + shape.head_local(shape.nic_of(shape.local_of(dst)))
            if proxy != src:
                inside.append(Transfer(src, proxy, block))
            between.append(Transfer(proxy, dst, block))
    yield from (transfers for transfers in (inside, between) if transfers)


def pxn_counts(shape: GroupShape, S: float, chunks: int = 1) -> Counts:
    """A head passes on s·g·(N-1) messages; others send them: all n-1 of theirs cross NVLink where g > H."""
    g, nodes, s = shape.ranks_per_node, shape.nodes, shape.most_per_nic
    block, others = S / shape.ranks, nodes - 1
    inside = int(g > 1)
    # A rank that is no head sends all inside; a head keeps those for readers on its own NIC. Where
    # every rank is a head (s = 1) it keeps N-1.
    out = (g - 1 + others * (g - (s == 1))) * block
    nic = s * g * others * block
    head_sends = (g - 1 + others * (g - s)) * block + nic
    return Counts(
        inside + (nodes > 1),
        inside,
        int(nodes > 1),
        max(out, head_sends),
        out,
        (g - 1) * (1 + others * s) * block,
        g * g * others * block,
        g * g * others * block,
        nic,
        nic,
    )


def shift_rounds(shape: GroupShape, chunks: int = 1) -> Iterator[Round]:
    """Block r is rank r's, for the next rank."""
    return ring_shift_rounds(shape.ranks)


def send_recv_counts(shape: GroupShape, S: float, chunks: int = 1) -> Counts:
    """One step of S from every rank to the next."""
    hops = (1, 0) if shape.nodes == 1 else (0, 1)
    return shift_counts(shape, [(1, 1)], block_bytes=S, steps=1, hops=hops)


def _blocks(shape: GroupShape, chunks: int) -> int:
    return shape.ranks


FAMILIES = (
    Family(
        "all_to_all",
        "direct",
        _blocks,
        lambda shape, chunks: direct_all_to_all_rounds(shape.ranks),
        direct_counts,
        "NCCL src/enqueue.cc; gloo/alltoall.cc",
    ),
    Family(
        "all_to_all",
        "pairwise",
        _blocks,
        pairwise_rounds,
        pairwise_counts,
        "Thakur, Rabenseifner, Gropp 2005",
    ),
    Family("all_to_all", "pxn", _blocks, pxn_rounds, pxn_counts, "NCCL src/graph/paths.cc"),
    Family(
        "send_recv",
        "ring_shift",
        lambda shape, chunks: 1,
        shift_rounds,
        send_recv_counts,
        "nccl-tests src/sendrecv.cu",
    ),
)
