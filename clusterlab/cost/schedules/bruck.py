"""Bruck's all_gather and all_to_all for any number of ranks (and others, 1997)."""

from __future__ import annotations

from collections.abc import Iterator

from clusterlab.cost.schedules.counts import Counts
from clusterlab.cost.schedules.family import Family
from clusterlab.cost.schedules.logs import ceil_log2, floor_log2, power_of_two_nodes
from clusterlab.cost.schedules.rounds import Round, Transfer
from clusterlab.cost.schedules.shape import GroupShape
from clusterlab.cost.schedules.shifts import shift_counts

SOURCE = "Bruck, Ho, Kipnis, Upfal, Weathersby 1997"


def bruck_all_gather_rounds(shape: GroupShape, chunks: int = 1) -> Iterator[Round]:
    """n blocks: in round k what rank r has of r, r+1, … goes to rank r - 2^k, which lacks it."""
    n, span = shape.ranks, 1
    while span < n:
        count = min(span, n - span)
        yield [Transfer(r, (r - span) % n, (r + i) % n) for r in range(n) for i in range(count)]
        span *= 2


def bruck_all_gather_counts(shape: GroupShape, S: float, chunks: int = 1) -> Counts:
    """ceil(log2 n) steps, S(n-1)/n."""
    n = shape.ranks
    spans = [1 << k for k in range(ceil_log2(n))]
    shifts = [(n - span, min(span, n - span)) for span in spans]
    return shift_counts(shape, shifts, block_bytes=S / n, steps=len(spans), hops=_bit_hops(shape))


def bruck_all_to_all_rounds(shape: GroupShape, chunks: int = 1) -> Iterator[Round]:
    """n·n blocks: in round k every block whose distance has bit k set goes 2^k ranks on."""
    n, bit = shape.ranks, 1
    while bit < n:
        yield [
            Transfer((o + d % bit) % n, (o + d % bit + bit) % n, o * n + (o + d) % n)
            for o in range(n)
            for d in range(n)
            if d & bit
        ]
        bit *= 2


def bruck_all_to_all_counts(shape: GroupShape, S: float, chunks: int = 1) -> Counts:
    """ceil(log2 n) steps; S/n times the bits set in all of 1 … n-1, S/2 log2 n for powers of two."""
    n = shape.ranks
    shifts = [(1 << k, numbers_with_bit(n, k)) for k in range(ceil_log2(n))]
    return shift_counts(shape, shifts, block_bytes=S / n, steps=len(shifts), hops=_bit_hops(shape))


def numbers_with_bit(n: int, k: int) -> int:
    """How many of 0 … n-1 have bit k set."""
    whole, rest = divmod(n, 2 << k)
    return (whole << k) + max(0, rest - (1 << k))


def _bit_hops(shape: GroupShape) -> tuple[int, int]:
    """A block at distance s makes one hop per bit of s.

    With g a power of two, the bits from g on leave the node, and of those below together at most one
    does, as they add up to less than g. For other g an upper bound: all of them between hosts.
    """
    hops, g = floor_log2(shape.ranks), shape.ranks_per_node
    if shape.nodes == 1:
        return hops, 0
    if g == 1 or not power_of_two_nodes(shape):
        return 0, hops
    return floor_log2(g) - 1, floor_log2(shape.nodes) + 1


def _blocks(shape: GroupShape, chunks: int) -> int:
    return shape.ranks


FAMILIES = (
    Family(
        "all_gather",
        "bruck",
        _blocks,
        bruck_all_gather_rounds,
        bruck_all_gather_counts,
        SOURCE,
        exact_hops=power_of_two_nodes,
    ),
    Family(
        "all_to_all",
        "bruck",
        _blocks,
        bruck_all_to_all_rounds,
        bruck_all_to_all_counts,
        SOURCE,
        exact_hops=power_of_two_nodes,
    ),
)
