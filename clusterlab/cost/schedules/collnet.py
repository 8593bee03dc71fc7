"""CollNet: reductions in the network (SHARP) between heads of nodes, NVLink without its switch inside.

Direct: every rank sends each head its share and gets it back reduced. Chain: per rail along the GPUs of
a node to the head and back (NCCL `src/device/all_reduce.h`, `src/transport/coll_net.cc`).
H heads per node, g ranks per node, N nodes.
"""

from __future__ import annotations

from collections.abc import Iterator

from clusterlab.cost.schedules.counts import Counts, even
from clusterlab.cost.schedules.double_binary_tree import chain_load, chain_of
from clusterlab.cost.schedules.family import (
    Family,
    head_per_rank_several_nodes,
    several_nodes,
)
from clusterlab.cost.schedules.nvls import (
    head_locals,
    network_all_gather,
    network_all_reduce,
    network_reduce_scatter,
)
from clusterlab.cost.schedules.rounds import Round, Transfer
from clusterlab.cost.schedules.shape import GroupShape

SOURCE = "NCCL src/transport/coll_net.cc, src/device/all_reduce.h"


def collnet_direct_all_reduce_rounds(shape: GroupShape, chunks: int = 1) -> Iterator[Round]:
    """H blocks: straight to the heads, through the network, straight to all."""
    pairs = _to_heads(shape)
    if pairs:
        yield [Transfer(rank, head, b, reduces=True) for rank, head, b in pairs]
    locals_ = head_locals(shape)
    yield [t for b, local in enumerate(locals_) for t in network_all_reduce(shape, local, b)]
    if pairs:
        yield [Transfer(head, rank, b) for rank, head, b in pairs]


def _to_heads(shape: GroupShape) -> list[tuple[int, int, int]]:
    """(rank, head of its node, block) for all pairs."""
    g = shape.ranks_per_node
    return [
        (node * g + i, node * g + local, b)
        for node in range(shape.nodes)
        for b, local in enumerate(head_locals(shape))
        for i in range(g)
        if i != local
    ]


def collnet_direct_reduce_scatter_rounds(shape: GroupShape, chunks: int = 1) -> Iterator[Round]:
    """n blocks: straight to the head of the block's rail, then the network reduces."""
    moves = _to_rails(shape)
    if moves:
        yield [Transfer(rank, head, b, reduces=True) for rank, head, b in moves]
    yield network_reduce_scatter(shape)


def collnet_direct_all_gather_rounds(shape: GroupShape, chunks: int = 1) -> Iterator[Round]:
    """n blocks: the network to the heads, from there straight to all."""
    yield network_all_gather(shape)
    moves = _to_rails(shape)
    if moves:
        yield [Transfer(head, rank, b) for rank, head, b in moves]


def _to_rails(shape: GroupShape) -> list[tuple[int, int, int]]:
    """(rank, head of the block's rail on its node, block)."""
    g = shape.ranks_per_node
    return [
        (node * g + i, node * g + b % g, b)
        for node in range(shape.nodes)
        for b in range(shape.ranks)
        for i in range(g)
        if i != b % g
    ]


def collnet_direct_all_reduce_counts(shape: GroupShape, S: float, chunks: int = 1) -> Counts:
    """A head sends H-1 shares of S/H to other heads and its own to g-1 ranks: S(H + g - 2)/H."""
    g, heads = shape.ranks_per_node, shape.heads
    load, nic = S * (heads + g - 2) / heads, S / heads
    inside = 2 if g > 1 else 0
    return even(steps=1 + inside, hops=(inside, 1), sent=load + nic, gpu=load, node=S, nic=nic)


def collnet_direct_reduce_scatter_counts(shape: GroupShape, S: float, chunks: int = 1) -> Counts:
    """S(g-1)/g inside; S out of a node's NICs, S/N into them."""
    g, nodes = shape.ranks_per_node, shape.nodes
    load, inside = S * (g - 1) / g, int(g > 1)
    return Counts(1 + inside, inside, 1, S, load, load, S, S / nodes, S / g, S / shape.ranks)


def collnet_direct_all_gather_counts(shape: GroupShape, S: float, chunks: int = 1) -> Counts:
    """S(g-1)/g inside; S/N out of a node's NICs, S(N-1)/N into them."""
    g, n, nodes = shape.ranks_per_node, shape.ranks, shape.nodes
    load, inside, others = S * (g - 1) / g, int(g > 1), (nodes - 1) / nodes
    return Counts(
        1 + inside,
        inside,
        1,
        load + S / n,
        load,
        load,
        S / nodes,
        S * others,
        S / n,
        S / g * others,
    )


def collnet_chain_rounds(shape: GroupShape, chunks: int) -> Iterator[Round]:
    """H·C blocks: rail·C + chunk, up the chain, through the network, down the chain."""
    inside = shape.ranks_per_node - 1
    rails = [
        (c * chunks, shape.head_local(c), [chain_of(shape, k, c) for k in range(shape.nodes)])
        for c in range(shape.rails)
    ]
    for step in range(2 * inside + chunks):
        moving: Round = []
        for first, local, chains in rails:
            for chunk in range(max(0, step - 2 * inside), min(chunks, step + 1)):
                age = step - chunk
                if age == inside:
                    moving += network_all_reduce(shape, local, first + chunk)
                    continue
                for chain in chains:
                    if age < inside:
                        near, far = chain[inside - age - 1], chain[inside - age]
                        moving.append(Transfer(far, near, first + chunk, reduces=True))
                    else:
                        near, far = chain[age - inside - 1], chain[age - inside]
                        moving.append(Transfer(near, far, first + chunk))
        yield moving


def collnet_chain_counts(shape: GroupShape, S: float, chunks: int) -> Counts:
    """2(g-1) + C steps; the chains' load inside, S through a node's NICs each way."""
    inside = shape.ranks_per_node - 1
    busiest, head = chain_load(shape, S)
    nic = S / shape.heads
    return even(
        steps=2 * inside + chunks,
        hops=(2 * inside, 1),
        sent=max(busiest, head + nic),
        gpu=busiest,
        node=S,
        nic=nic,
    )


FAMILIES = (
    Family(
        "all_reduce",
        "collnet_direct",
        lambda shape, chunks: shape.heads,
        collnet_direct_all_reduce_rounds,
        collnet_direct_all_reduce_counts,
        SOURCE,
        requires=several_nodes,
    ),
    Family(
        "reduce_scatter",
        "collnet_direct",
        lambda shape, chunks: shape.ranks,
        collnet_direct_reduce_scatter_rounds,
        collnet_direct_reduce_scatter_counts,
        SOURCE,
        requires=head_per_rank_several_nodes,
    ),
    Family(
        "all_gather",
        "collnet_direct",
        lambda shape, chunks: shape.ranks,
        collnet_direct_all_gather_rounds,
        collnet_direct_all_gather_counts,
        SOURCE,
        requires=head_per_rank_several_nodes,
    ),
    Family(
        "all_reduce",
        "collnet_chain",
        lambda shape, chunks: shape.heads * chunks,
        collnet_chain_rounds,
        collnet_chain_counts,
        SOURCE,
        requires=several_nodes,
        pipelined=True,
    ),
)
