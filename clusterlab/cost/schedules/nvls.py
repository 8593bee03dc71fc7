"""Reductions and multicasts in NVSwitch (NVLS) and in the network (SHARP, NCCL's CollNet).

In NVSwitch every GPU sends its part once and the one that asked receives the sum; a multicast leaves
its GPU once and reaches all of the node, that GPU too (multimem.ld_reduce and multimem.st; NCCL
`src/device/all_reduce.h`, `src/device/all_gather.h`, `src/transport/nvls.cc`). The network does the
same between heads of nodes, one per NIC. K heads: all GPUs on one node, H per node on several.
"""

from __future__ import annotations

from collections.abc import Iterator

from clusterlab.cost.schedules.counts import Counts, even
from clusterlab.cost.schedules.family import Family, head_per_rank
from clusterlab.cost.schedules.rounds import Round, Transfer
from clusterlab.cost.schedules.shape import GroupShape

SOURCE = "NCCL src/device/all_reduce.h, src/transport/nvls.cc"


def several_gpus_per_node(shape: GroupShape) -> str | None:
    """NCCL sets NVLS up where a node has at least two GPUs (`src/transport/nvls.cc`)."""
    return None if shape.ranks_per_node > 1 else "more than one rank per node"


def _head_per_rank(shape: GroupShape) -> str | None:
    return several_gpus_per_node(shape) or head_per_rank(shape)


def reduce_to_head(shape: GroupShape, node: int, head: int, block: int) -> Round:
    """All ranks of the node into its NVSwitch, the sum to ``head``."""
    switch, g = shape.nvswitch_of(node), shape.ranks_per_node
    into = [Transfer(node * g + i, switch, block, reduces=True) for i in range(g)]
    return [*into, Transfer(switch, head, block)]


def multicast(shape: GroupShape, node: int, head: int, block: int) -> Round:
    """``head`` into the node's NVSwitch, from there to all ranks of the node."""
    switch, g = shape.nvswitch_of(node), shape.ranks_per_node
    others = [node * g + i for i in range(g) if node * g + i != head]
    return [
        Transfer(head, switch, block),
        *(Transfer(switch, rank, block) for rank in (head, *others)),
    ]


def network_all_reduce(shape: GroupShape, local: int, block: int) -> Round:
    """The heads at ``local`` of all nodes into the network, the sum back to each."""
    g = shape.ranks_per_node
    heads = [node * g + local for node in range(shape.nodes)]
    return [
        *(Transfer(head, shape.network, block, reduces=True) for head in heads),
        *(Transfer(shape.network, head, block) for head in heads),
    ]


def head_locals(shape: GroupShape) -> list[int]:
    """Local ranks that own a part of the buffer."""
    if shape.nodes == 1:
        return list(range(shape.ranks))
    return [shape.head_local(h) for h in range(shape.heads)]


def nvls_all_reduce_rounds(shape: GroupShape, chunks: int = 1) -> Iterator[Round]:
    """K blocks."""
    g, heads = shape.ranks_per_node, head_locals(shape)
    each = [
        (node, node * g + local, b) for node in range(shape.nodes) for b, local in enumerate(heads)
    ]
    yield [t for node, head, b in each for t in reduce_to_head(shape, node, head, b)]
    if shape.nodes > 1:
        yield [t for b, local in enumerate(heads) for t in network_all_reduce(shape, local, b)]
    yield [t for node, head, b in each for t in multicast(shape, node, head, b)]


def nvls_reduce_scatter_rounds(shape: GroupShape, chunks: int = 1) -> Iterator[Round]:
    """n blocks. The head at local rank l takes the blocks of all ranks at l, then the network reduces."""
    g, n = shape.ranks_per_node, shape.ranks
    yield [
        t
        for node in range(shape.nodes)
        for b in range(n)
        for t in reduce_to_head(shape, node, node * g + b % g, b)
    ]
    if shape.nodes > 1:
        yield network_reduce_scatter(shape)


def nvls_all_gather_rounds(shape: GroupShape, chunks: int = 1) -> Iterator[Round]:
    """n blocks, the other way round."""
    g, n = shape.ranks_per_node, shape.ranks
    if shape.nodes > 1:
        yield network_all_gather(shape)
    yield [
        t
        for node in range(shape.nodes)
        for b in range(n)
        for t in multicast(shape, node, node * g + b % g, b)
    ]


def network_reduce_scatter(shape: GroupShape) -> Round:
    """All heads into the network, each block's sum to its owner."""
    g = shape.ranks_per_node
    into = [
        Transfer(node * g + b % g, shape.network, b, reduces=True)
        for node in range(shape.nodes)
        for b in range(shape.ranks)
    ]
    return [*into, *(Transfer(shape.network, b, b) for b in range(shape.ranks))]


def network_all_gather(shape: GroupShape) -> Round:
    """Every rank into the network, each block to the heads of its rail on the other nodes."""
    g = shape.ranks_per_node
    into = [Transfer(b, shape.network, b) for b in range(shape.ranks)]
    out = [
        Transfer(shape.network, node * g + b % g, b)
        for node in range(shape.nodes)
        for b in range(shape.ranks)
        if shape.node_of(b) != node
    ]
    return into + out


def nvls_all_reduce_counts(shape: GroupShape, S: float, chunks: int = 1) -> Counts:
    """NVLink carries S(1 + 1/K) each way, against 2S(n-1)/n for a ring; the network S per node.

    2 steps on one node, 3 on several.
    """
    if shape.nodes == 1:
        load = S * (1 + 1 / shape.ranks)
        return even(steps=2, hops=(2, 0), sent=load, gpu=load)
    load, nic = S * (1 + 1 / shape.heads), S / shape.heads
    return even(steps=3, hops=(2, 1), sent=load + nic, gpu=load, node=S, nic=nic)


def nvls_reduce_scatter_counts(shape: GroupShape, S: float, chunks: int = 1) -> Counts:
    """S out of each GPU, S/g into it; S out of a node's NICs, S/N into them."""
    g, nodes = shape.ranks_per_node, shape.nodes
    if nodes == 1:
        return Counts(1, 1, 0, S, S, S / g)
    return Counts(2, 1, 1, S + S / g, S, S / g, S, S / nodes, S / g, S / shape.ranks)


def nvls_all_gather_counts(shape: GroupShape, S: float, chunks: int = 1) -> Counts:
    """S/g out of each GPU, S into it; S/N out of a node's NICs, S(N-1)/N into them."""
    g, n, nodes = shape.ranks_per_node, shape.ranks, shape.nodes
    if nodes == 1:
        return Counts(1, 1, 0, S / g, S / g, S)
    others = (nodes - 1) / nodes
    return Counts(2, 1, 1, S / g + S / n, S / g, S, S / nodes, S * others, S / n, S / g * others)


def _shares(shape: GroupShape, chunks: int) -> int:
    return len(head_locals(shape))


def _blocks(shape: GroupShape, chunks: int) -> int:
    return shape.ranks


FAMILIES = (
    Family(
        "all_reduce",
        "nvls",
        _shares,
        nvls_all_reduce_rounds,
        nvls_all_reduce_counts,
        SOURCE,
        requires=several_gpus_per_node,
    ),
    Family(
        "reduce_scatter",
        "nvls",
        _blocks,
        nvls_reduce_scatter_rounds,
        nvls_reduce_scatter_counts,
        SOURCE,
        requires=_head_per_rank,
    ),
    Family(
        "all_gather",
        "nvls",
        _blocks,
        nvls_all_gather_rounds,
        nvls_all_gather_counts,
        SOURCE,
        requires=_head_per_rank,
    ),
)
