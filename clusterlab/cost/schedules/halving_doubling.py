"""Recursive halving and doubling (Rabenseifner; Thakur, Rabenseifner, Gropp 2005).

Half of the buffer goes to the nearest partner, one block to the farthest, so that a node's ranks pass
little between nodes. n ranks, g per node, N nodes.
"""

from __future__ import annotations

from collections.abc import Iterator

from clusterlab.cost.schedules.counts import Counts, even
from clusterlab.cost.schedules.family import Family, power_of_two
from clusterlab.cost.schedules.logs import ceil_log2, floor_log2, one_level
from clusterlab.cost.schedules.rounds import Round, Transfer
from clusterlab.cost.schedules.shape import GroupShape

SOURCE = "Thakur, Rabenseifner, Gropp 2005"


def _halving(ranks: int, blocks: int) -> Iterator[Round]:
    """``blocks`` = a power of two ≤ ranks, ranks below it take part. Nearest partner first, with half
    of the buffer; the farthest gets one block.
    """
    mask = 1
    while mask < blocks:
        yield [
            Transfer(r, r ^ mask, b, reduces=True)
            for r in range(blocks)
            for b in range((r ^ mask) % (2 * mask), blocks, 2 * mask)
        ]
        mask *= 2


def _doubling(blocks: int) -> Iterator[Round]:
    """Farthest partner first, with one block; the nearest gets half of the buffer."""
    mask = blocks // 2
    while mask:
        yield [
            Transfer(r, r ^ mask, b)
            for r in range(blocks)
            for b in range(r % (2 * mask), blocks, 2 * mask)
        ]
        mask //= 2


def _lower_power(n: int) -> int:
    return 1 << floor_log2(n)


def halving_doubling_rounds(shape: GroupShape, chunks: int = 1) -> Iterator[Round]:
    """p blocks, p the power of two at or below n; ranks from p on fold into those p below them."""
    n, p = shape.ranks, _lower_power(shape.ranks)
    if n > p:
        yield [Transfer(r, r - p, b, reduces=True) for r in range(p, n) for b in range(p)]
    yield from _halving(n, p)
    yield from _doubling(p)
    if n > p:
        yield [Transfer(r - p, r, b) for r in range(p, n) for b in range(p)]


def recursive_halving_rounds(shape: GroupShape, chunks: int = 1) -> Iterator[Round]:
    """n blocks."""
    return _halving(shape.ranks, shape.ranks)


def recursive_doubling_rounds(shape: GroupShape, chunks: int = 1) -> Iterator[Round]:
    """n blocks."""
    return _doubling(shape.ranks)


def halving_doubling_requires(shape: GroupShape) -> str | None:
    """Any n where hops are of one kind, else powers of two."""
    if one_level(shape):
        return None
    lacking = power_of_two(shape)
    return lacking and f"{lacking}; or one node, or one rank per node"


def _halving_counts(shape: GroupShape, S: float, times: int) -> Counts:
    """Powers of two. Inside S/2 + S/4 + … = S(g-1)/g; between S/g (N-1)/N per rank; ``times`` both."""
    n, g, nodes = shape.ranks, shape.ranks_per_node, shape.nodes
    rank_between = times * S / g * (nodes - 1) / nodes
    return even(
        steps=times * ceil_log2(n),
        hops=(times * ceil_log2(g), times * ceil_log2(nodes)),
        sent=times * S * (n - 1) / n,
        gpu=times * S * (g - 1) / g,
        node=g * rank_between,
        nic=shape.most_per_nic * rank_between,
    )


def halving_doubling_counts(shape: GroupShape, S: float, chunks: int = 1) -> Counts:
    """2 log2 n steps, 2S(n-1)/n; else 2 log2 p + 2 steps, 2S(p-1)/p + S for a rank folded into."""
    n, p = shape.ranks, _lower_power(shape.ranks)
    if n == p:
        return _halving_counts(shape, S, 2)
    load, steps = 2 * S * (p - 1) / p + S, 2 * floor_log2(n) + 2
    if shape.nodes == 1:
        return even(steps=steps, hops=(steps, 0), sent=load, gpu=load)
    return even(steps=steps, hops=(0, steps), sent=load, node=load, nic=load)


def recursive_counts(shape: GroupShape, S: float, chunks: int = 1) -> Counts:
    """log2 n steps, S(n-1)/n."""
    return _halving_counts(shape, S, 1)


def _blocks(shape: GroupShape, chunks: int) -> int:
    return shape.ranks


FAMILIES = (
    Family(
        "all_reduce",
        "halving_doubling",
        lambda shape, chunks: _lower_power(shape.ranks),
        halving_doubling_rounds,
        halving_doubling_counts,
        SOURCE,
        requires=halving_doubling_requires,
    ),
    Family(
        "reduce_scatter",
        "recursive_halving",
        _blocks,
        recursive_halving_rounds,
        recursive_counts,
        SOURCE,
        requires=power_of_two,
    ),
    Family(
        "all_gather",
        "recursive_doubling",
        _blocks,
        recursive_doubling_rounds,
        recursive_counts,
        SOURCE,
        requires=power_of_two,
    ),
)
