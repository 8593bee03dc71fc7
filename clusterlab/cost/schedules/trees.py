"""The two binary trees of NCCL's tree all_reduce (`src/graph/trees.cc`, ncclGetBtree and ncclGetDtree).

The first is built on the bits of the rank; the second is its mirror image (n even) or the same shifted
by one rank (n odd), so that a leaf of one is, with few exceptions, an inner node of the other.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tree:
    """``parents[r]`` is r's parent, None for the root."""

    parents: tuple[int | None, ...]

    @property
    def depth(self) -> int:
        """Edges between the root and the deepest rank."""
        return max(self.distance_to_root(r) for r in range(len(self.parents)))

    def distance_to_root(self, rank: int) -> int:
        """Edges from ``rank`` up to the root."""
        hops = 0
        parent = self.parents[rank]
        while parent is not None:
            parent = self.parents[parent]
            hops += 1
        return hops


def tree_edges(tree: Tree) -> list[tuple[int, int]]:
    """(parent, child) pairs."""
    return [(p, r) for r, p in enumerate(tree.parents) if p is not None]


def binary_tree(n: int) -> Tree:
    """NCCL's ncclGetBtree: rank 0 is the root with one child; the lowest set bit is a rank's level."""
    return Tree(tuple(_parent(rank, n) for rank in range(n)))


def _parent(rank: int, n: int) -> int | None:
    if rank == 0:
        return None
    bit = rank & -rank
    up = (rank ^ bit) | (bit << 1)
    # At the right edge the regular parent may not exist; then it is the one on the left.
    return rank ^ bit if up >= n else up


def double_tree(n: int) -> tuple[Tree, Tree]:
    """Both trees of NCCL's ncclGetDtree."""
    first = binary_tree(n)
    if n % 2 == 0:
        second = Tree(
            tuple(None if (p := first.parents[n - 1 - r]) is None else n - 1 - p for r in range(n))
        )
    else:
        second = Tree(
            tuple(
                None if (p := first.parents[(r - 1) % n]) is None else (p + 1) % n for r in range(n)
            )
        )
    return first, second
