"""The double binary tree among single ranks (Sanders, Speck, Träff 2009; shapes as NCCL's)."""

from __future__ import annotations

from collections.abc import Iterator

from clusterlab.cost.schedules.rounds import Round, Transfer
from clusterlab.cost.schedules.schedule import Flow, Phase, Schedule
from clusterlab.cost.schedules.trees import double_tree, tree_edges


def double_binary_tree_all_reduce(n: int, S: float, *, chunks: int) -> Schedule:
    """Two trees, each half the buffer in ``chunks`` chunks, up then down: 2(d + C - 1) steps.

    d is the depth of the deeper tree. A step carries one chunk over every edge of both trees (each
    rank is an inner node of at most one tree when n is even, so up to two chunks per rank and way).
    """
    if n == 1:
        return Schedule("all_reduce", "double_binary_tree", 1, S, ())
    trees = double_tree(n)
    depth = max(t.depth for t in trees)
    edges = [e for t in trees for e in tree_edges(t)]
    part = S / (2 * chunks)
    sends = chunks * len(edges)
    up = tuple(Flow(child, parent, part) for parent, child in edges)
    down = tuple(Flow(parent, child, part) for parent, child in edges)
    steps = depth + chunks - 1
    return Schedule(
        "all_reduce",
        "double_binary_tree",
        n,
        S,
        (
            Phase("reduce", up, steps, reduces=True, sends=sends),
            Phase("broadcast", down, steps, sends=sends),
        ),
    )


def double_binary_tree_all_reduce_rounds(n: int, chunks: int) -> Iterator[Round]:
    """2 × ``chunks`` blocks: the first half on one tree, the second on the other; up, then down."""
    if n == 1:
        return
    trees = double_tree(n)
    depth = max(t.depth for t in trees)
    # (tree, distance from the root to the child, parent, child)
    edges = [
        (which, tree.distance_to_root(child), parent, child)
        for which, tree in enumerate(trees)
        for parent, child in tree_edges(tree)
    ]
    for step in range(depth + chunks - 1):  # the deepest edges begin
        yield [
            Transfer(child, parent, which * chunks + chunk, reduces=True)
            for which, distance, parent, child in edges
            if 0 <= (chunk := step - (depth - distance)) < chunks
        ]
    for step in range(depth + chunks - 1):  # the root's edges begin
        yield [
            Transfer(parent, child, which * chunks + chunk)
            for which, distance, parent, child in edges
            if 0 <= (chunk := step - (distance - 1)) < chunks
        ]
