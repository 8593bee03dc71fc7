"""Logarithms of whole numbers, and when all hops of a group are of one kind."""

from __future__ import annotations

from clusterlab.cost.schedules.shape import GroupShape


def ceil_log2(n: int) -> int:
    """Rounds in which one becomes n by doubling."""
    return (n - 1).bit_length()


def floor_log2(n: int) -> int:
    """The most bits set in any number below n."""
    return n.bit_length() - 1


def one_level(shape: GroupShape) -> bool:
    """All hops are of one kind: one node, or one rank on each."""
    return shape.nodes == 1 or shape.ranks_per_node == 1


def power_of_two_nodes(shape: GroupShape) -> bool:
    """One node, or nodes of a power of two of ranks, which steps of powers of two never straddle."""
    g = shape.ranks_per_node
    return shape.nodes == 1 or g & (g - 1) == 0
