"""NCCL's nvls_tree: reduced and multicast in NVSwitch inside nodes, a double binary tree between heads.

Per head, half of its share of the buffer goes up and down each of the two trees over nodes
(`src/transport/nvls.cc`, `src/graph/trees.cc`). H heads, N nodes, d = ceil(log2 N).
"""

from __future__ import annotations

from collections.abc import Iterator

from clusterlab.cost.schedules.counts import Counts, even
from clusterlab.cost.schedules.double_binary_tree import most_edges, tree_depth
from clusterlab.cost.schedules.family import Family, several_nodes
from clusterlab.cost.schedules.nvls import multicast, reduce_to_head, several_gpus_per_node
from clusterlab.cost.schedules.rounds import Round, Transfer
from clusterlab.cost.schedules.shape import GroupShape
from clusterlab.cost.schedules.trees import Tree, double_tree, tree_edges


def nvls_tree_rounds(shape: GroupShape, chunks: int) -> Iterator[Round]:
    """2·H·C blocks: (head·2 + tree)·C + chunk. Into the heads, up, down, out of the heads."""
    last = 2 * tree_depth(shape.nodes) + 1
    lines = [
        (rail * 2 + which, shape.head_local(rail), tree)
        for rail in range(shape.rails)
        for which, tree in enumerate(double_tree(shape.nodes))
    ]
    for step in range(last + chunks):
        yield [
            transfer
            for line, head, tree in lines
            for chunk in range(max(0, step - last), min(chunks, step + 1))
            for transfer in _at_age(shape, tree, head, line * chunks + chunk, step - chunk)
        ]


def _at_age(shape: GroupShape, tree: Tree, head: int, block: int, age: int) -> Round:
    """What happens to a block ``age`` steps after it began."""
    depth, g, nodes = tree_depth(shape.nodes), shape.ranks_per_node, range(shape.nodes)
    if age == 0:
        return [t for q in nodes for t in reduce_to_head(shape, q, q * g + head, block)]
    if age == 2 * depth + 1:
        return [t for q in nodes for t in multicast(shape, q, q * g + head, block)]
    moving = []
    for parent, child in tree_edges(tree):
        distance = tree.distance_to_root(child)
        below, above = child * g + head, parent * g + head
        if age == 1 + depth - distance:
            moving.append(Transfer(below, above, block, reduces=True))
        if age == depth + distance:
            moving.append(Transfer(above, below, block))
    return moving


def nvls_tree_counts(shape: GroupShape, S: float, chunks: int) -> Counts:
    """2d + 2 + C - 1 steps; NVLink carries S(1 + 1/H) each way at a head, S at the others."""
    node = most_edges(shape.nodes) * S / 2
    head = S * (1 + 1 / shape.heads)
    depth = tree_depth(shape.nodes)
    return even(
        steps=2 * depth + 2 + chunks - 1,
        hops=(2, 2 * depth),
        sent=head + node / shape.heads,
        gpu=head,
        node=node,
        nic=node / shape.heads,
    )


def _requires(shape: GroupShape) -> str | None:
    return several_nodes(shape) or several_gpus_per_node(shape)


def _parts(shape: GroupShape, chunks: int) -> int:
    return 2 * shape.heads * chunks


FAMILIES = (
    Family(
        "all_reduce",
        "nvls_tree",
        _parts,
        nvls_tree_rounds,
        nvls_tree_counts,
        "NCCL src/transport/nvls.cc, src/graph/trees.cc",
        requires=_requires,
        pipelined=True,
    ),
)
