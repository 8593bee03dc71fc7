"""Two levels: inside the node first, then between ranks of equal local rank (BlueConnect).

Rings at both levels: g-1 steps of S/g inside, N-1 steps of S/n between; all_to_all in two exchanges.
g ranks per node, N nodes, s ranks on the NIC with most.
"""

from __future__ import annotations

from collections.abc import Iterator

from clusterlab.cost.schedules.counts import Counts, even
from clusterlab.cost.schedules.family import Family
from clusterlab.cost.schedules.rounds import Round, Transfer
from clusterlab.cost.schedules.shape import GroupShape

SOURCE = "Cho, Finkler, Serrano, Kung, Hunter 2019 (BlueConnect)"


def reduce_scatter_rounds(shape: GroupShape, chunks: int = 1) -> Iterator[Round]:
    """n blocks: local rank l reduces those of all ranks at l, then the nodes' rings finish them."""
    g, nodes = shape.ranks_per_node, shape.nodes
    for step in range(g - 1):
        yield [
            Transfer(k * g + i, k * g + (i + 1) % g, m * g + (i - step - 1) % g, reduces=True)
            for k in range(nodes)
            for i in range(g)
            for m in range(nodes)
        ]
    for step in range(nodes - 1):
        yield [
            Transfer(
                k * g + i, (k + 1) % nodes * g + i, (k - step - 1) % nodes * g + i, reduces=True
            )
            for k in range(nodes)
            for i in range(g)
        ]


def all_gather_rounds(shape: GroupShape, chunks: int = 1) -> Iterator[Round]:
    """n blocks, the other way round."""
    g, nodes = shape.ranks_per_node, shape.nodes
    for step in range(nodes - 1):
        yield [
            Transfer(k * g + i, (k + 1) % nodes * g + i, (k - step) % nodes * g + i)
            for k in range(nodes)
            for i in range(g)
        ]
    for step in range(g - 1):
        yield [
            Transfer(k * g + i, k * g + (i + 1) % g, m * g + (i - step) % g)
            for k in range(nodes)
            for i in range(g)
            for m in range(nodes)
        ]


def all_reduce_rounds(shape: GroupShape, chunks: int = 1) -> Iterator[Round]:
    """Both."""
    yield from reduce_scatter_rounds(shape)
    yield from all_gather_rounds(shape)


def all_to_all_rounds(shape: GroupShape, chunks: int = 1) -> Iterator[Round]:
    """n·n blocks: to the peer with the reader's local rank, then to the reader's node."""
    n, g = shape.ranks, shape.ranks_per_node
    inside, between = [], []
    for src in range(n):
        for dst in range(n):
            peer = shape.node_of(src) * g + dst % g
            if peer != src:
                inside.append(Transfer(src, peer, src * n + dst))
            if peer != dst:
                between.append(Transfer(peer, dst, src * n + dst))
    yield from (transfers for transfers in (inside, between) if transfers)


def _counts(shape: GroupShape, S: float, times: int) -> Counts:
    n, g, nodes = shape.ranks, shape.ranks_per_node, shape.nodes
    rank_between = times * S / g * (nodes - 1) / nodes
    return even(
        steps=times * (g + nodes - 2),
        hops=(times * (g - 1), times * (nodes - 1)),
        sent=times * S * (n - 1) / n,
        gpu=times * S * (g - 1) / g,
        node=g * rank_between,
        nic=shape.most_per_nic * rank_between,
    )


def half_counts(shape: GroupShape, S: float, chunks: int = 1) -> Counts:
    """reduce_scatter, all_gather: g+N-2 steps, S(n-1)/n; S(N-1)/N out of a node."""
    return _counts(shape, S, 1)


def all_reduce_counts(shape: GroupShape, S: float, chunks: int = 1) -> Counts:
    """Twice that."""
    return _counts(shape, S, 2)


def all_to_all_counts(shape: GroupShape, S: float, chunks: int = 1) -> Counts:
    """(g-1)·N blocks inside, then g·(N-1) between."""
    g, nodes = shape.ranks_per_node, shape.nodes
    block = S / shape.ranks
    inside, between = int(g > 1), int(nodes > 1)
    rank_between = g * (nodes - 1) * block
    return even(
        steps=inside + between,
        hops=(inside, between),
        sent=(g - 1) * nodes * block + rank_between,
        gpu=(g - 1) * nodes * block,
        node=g * rank_between,
        nic=shape.most_per_nic * rank_between,
    )


def _blocks(shape: GroupShape, chunks: int) -> int:
    return shape.ranks


FAMILIES = (
    Family("all_reduce", "two_level", _blocks, all_reduce_rounds, all_reduce_counts, SOURCE),
    Family("reduce_scatter", "two_level", _blocks, reduce_scatter_rounds, half_counts, SOURCE),
    Family("all_gather", "two_level", _blocks, all_gather_rounds, half_counts, SOURCE),
    Family("all_to_all", "two_level", _blocks, all_to_all_rounds, all_to_all_counts, SOURCE),
)
