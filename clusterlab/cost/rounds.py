"""The same algorithms, executable: which blocks go where in each round.

A schedule says how much flows; these say *what*, so that running them proves that the data arrives and
that the schedule counts right. Used by the tests, and by whoever wants to watch an algorithm.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from clusterlab.cost.trees import double_tree, tree_edges


@dataclass(frozen=True, slots=True)
class Transfer:
    """Block ``block`` goes from ``src`` to ``dst``; ``reduces``: it is combined with the one there."""

    src: int
    dst: int
    block: int
    reduces: bool = False


Round = list[Transfer]


def ring_reduce_scatter(n: int) -> Iterator[Round]:
    """n blocks; afterwards rank r has block r complete."""
    for step in range(n - 1):
        yield [Transfer(r, (r + 1) % n, (r - step - 1) % n, reduces=True) for r in range(n)]


def ring_all_gather(n: int) -> Iterator[Round]:
    """n blocks; rank r starts with block r."""
    for step in range(n - 1):
        yield [Transfer(r, (r + 1) % n, (r - step) % n) for r in range(n)]


def ring_all_reduce(n: int) -> Iterator[Round]:
    """n blocks; both of the above."""
    yield from ring_reduce_scatter(n)
    yield from ring_all_gather(n)


def direct_all_to_all(n: int) -> Iterator[Round]:
    """n × n blocks: block r·n + d is what rank r has for rank d."""
    if n > 1:
        yield [Transfer(r, d, r * n + d) for r in range(n) for d in range(n) if r != d]


def binomial_broadcast(n: int, root: int) -> Iterator[Round]:
    """One block."""
    span = 1
    while span < n:
        yield [
            Transfer((r + root) % n, (r + span + root) % n, 0) for r in range(span) if r + span < n
        ]
        span *= 2


def ring_reduce_gather(n: int, root: int) -> Iterator[Round]:
    """n blocks, reduced around the ring, then sent to the root by their owners."""
    yield from ring_reduce_scatter(n)
    if n > 1:
        yield [Transfer(r, root, r) for r in range(n) if r != root]


def chain_broadcast(n: int, root: int, chunks: int) -> Iterator[Round]:
    """``chunks`` blocks, each following the one before it down the chain."""
    for step in range(n - 2 + chunks if n > 1 else 0):
        yield [
            Transfer((root + hop) % n, (root + hop + 1) % n, step - hop)
            for hop in range(n - 1)
            if 0 <= step - hop < chunks
        ]


def chain_reduce(n: int, root: int, chunks: int) -> Iterator[Round]:
    """``chunks`` blocks, from the far end of the chain towards the root."""
    for step in range(n - 2 + chunks if n > 1 else 0):
        yield [
            Transfer((root + n - 1 - hop) % n, (root + n - 2 - hop) % n, step - hop, reduces=True)
            for hop in range(n - 1)
            if 0 <= step - hop < chunks
        ]


def double_binary_tree_all_reduce(n: int, chunks: int) -> Iterator[Round]:
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


def ring_shift(n: int) -> Iterator[Round]:
    """n blocks: block r is rank r's."""
    if n > 1:
        yield [Transfer(r, (r + 1) % n, r) for r in range(n)]
