"""The double binary tree among single ranks (Sanders, Speck, Träff 2009; shapes as NCCL's), and NCCL's
tree: the double tree over nodes, a chain of GPUs inside each.

Per rail the chain starts at the rail's head, which holds the node's place in both trees; half of the
rail's share goes up and down each tree (`src/graph/trees.cc`, `src/graph/connect.cc`: pattern TREE).
Chunks follow each other, the first going down while later ones go up. R rails, g ranks per node, N
nodes, d = ceil(log2 N) the depth of both trees.
"""

from __future__ import annotations

from collections.abc import Iterator

from clusterlab.cost.schedules.counts import Counts, even
from clusterlab.cost.schedules.family import Family
from clusterlab.cost.schedules.rounds import Round, Transfer
from clusterlab.cost.schedules.schedule import Flow, Phase, Schedule
from clusterlab.cost.schedules.shape import GroupShape
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


def tree_depth(nodes: int) -> int:
    """Edges from the root to the deepest node, the same for both trees."""
    return (nodes - 1).bit_length()


def most_edges(nodes: int) -> int:
    """Edges of the busiest node in both trees together: 3 where it is an inner node, 1 as a leaf."""
    return min(nodes, 4) if nodes > 1 else 0


def chain_of(shape: GroupShape, node: int, rail: int) -> list[int]:
    """Ranks of a node from the rail's head to the end of its chain."""
    g, first = shape.ranks_per_node, shape.head_local(rail)
    return [node * g + (first + i) % g for i in range(g)]


Edge = tuple[int, int, int]
"""(distance from the root to the child, parent, child)."""


def rank_tree_edges(shape: GroupShape, tree: int, rail: int) -> list[Edge]:
    """The tree over nodes with chains inside them, as edges between ranks."""
    parents = double_tree(shape.nodes)[tree] if shape.nodes > 1 else None
    edges = []
    for node in range(shape.nodes):
        chain = chain_of(shape, node, rail)
        depth = parents.distance_to_root(node) if parents else 0
        edges += [(depth + i + 1, chain[i], chain[i + 1]) for i in range(len(chain) - 1)]
        parent = parents.parents[node] if parents else None
        if parent is not None:
            edges.append((depth, chain_of(shape, parent, rail)[0], chain[0]))
    return edges


def tree_rounds(shape: GroupShape, chunks: int) -> Iterator[Round]:
    """2·R·C blocks: (rail·2 + tree)·C + chunk."""
    depth = tree_depth(shape.nodes) + shape.ranks_per_node - 1
    edges = [
        ((rail * 2 + tree) * chunks, edge)
        for rail in range(shape.rails)
        for tree in (0, 1)
        for edge in rank_tree_edges(shape, tree, rail)
    ]
    for step in range(2 * depth + chunks - 1):
        moving = []
        for block, (distance, parent, child) in edges:
            up, down = step - (depth - distance), step - (depth + distance - 1)
            if 0 <= up < chunks:
                moving.append(Transfer(child, parent, block + up, reduces=True))
            if 0 <= down < chunks:
                moving.append(Transfer(parent, child, block + down))
        yield moving


def chain_load(shape: GroupShape, S: float) -> tuple[float, float]:
    """NVLink bytes each way of the busiest GPU, and of the busiest head, on chains up and down.

    On a rail a GPU sends one share up and one down, but the head and the end of the chain only one.
    So it sends 2R shares, less one for each rail that it is the head or the end of.
    """
    g, rails = shape.ranks_per_node, shape.rails
    if g == 1:
        return 0.0, 0.0
    widest = -(-g // rails)  # GPUs from one head to the next
    least = 2 if widest == 1 else 1 if widest == 2 else 0
    head = 2 if widest == 1 else 1
    return S * (2 * rails - least) / rails, S * (2 * rails - head) / rails


def tree_counts(shape: GroupShape, S: float, chunks: int) -> Counts:
    """2(d + g - 1) + C - 1 steps; up to 4 halves of the buffer through a node's NICs each way."""
    depth, inside = tree_depth(shape.nodes), shape.ranks_per_node - 1
    node = most_edges(shape.nodes) * S / 2
    busiest, head = chain_load(shape, S)
    return even(
        steps=2 * (depth + inside) + chunks - 1,
        hops=(2 * inside, 2 * depth),
        sent=max(busiest, head + node / shape.rails),
        gpu=busiest,
        node=node,
        nic=node / shape.rails,
    )


def _parts(shape: GroupShape, chunks: int) -> int:
    return 2 * shape.rails * chunks


FAMILIES = (
    Family(
        "all_reduce",
        "tree",
        _parts,
        tree_rounds,
        tree_counts,
        "NCCL src/graph/trees.cc; Sanders, Speck, Träff 2009",
        pipelined=True,
    ),
)
