"""PAT, parallel aggregated trees (arXiv 2506.20252; NCCL `src/include/collectives.h`), one rank per node.

The farthest partner gets one block, the nearest half of the buffer. This is the form in which all blocks
for a partner fit one buffer slot; past that NCCL walks the trees with fewer blocks at a time and more steps.
"""

from __future__ import annotations

from collections.abc import Iterator

from clusterlab.cost.schedules.counts import Counts, even
from clusterlab.cost.schedules.family import Family, one_gpu_per_node
from clusterlab.cost.schedules.logs import ceil_log2, floor_log2
from clusterlab.cost.schedules.rounds import Round, Transfer
from clusterlab.cost.schedules.shape import GroupShape

SOURCE = "arXiv 2506.20252; NCCL src/include/collectives.h"


def pat_all_gather_rounds(shape: GroupShape, chunks: int = 1) -> Iterator[Round]:
    """n blocks. The block of rank o reaches o + s by the bits of s, the highest first: the farthest
    partner gets one block, the nearest half of the buffer (all blocks of a partner in one message).
    """
    n = shape.ranks
    for dim in reversed(range(ceil_log2(n))):
        bit = 1 << dim
        yield [
            Transfer((o + s - bit) % n, (o + s) % n, o)
            for s in range(bit, n, 2 * bit)
            for o in range(n)
        ]


def pat_reduce_scatter_rounds(shape: GroupShape, chunks: int = 1) -> Iterator[Round]:
    """n blocks, the same trees backwards."""
    n = shape.ranks
    for dim in range(ceil_log2(n)):
        bit = 1 << dim
        yield [
            Transfer((o + s) % n, (o + s - bit) % n, o, reduces=True)
            for s in range(bit, n, 2 * bit)
            for o in range(n)
        ]


def pat_counts(shape: GroupShape, S: float, chunks: int = 1) -> Counts:
    """ceil(log2 n) steps, S(n-1)/n, all between nodes of one rank each."""
    n = shape.ranks
    load = S * (n - 1) / n
    return even(steps=ceil_log2(n), hops=(0, floor_log2(n)), sent=load, node=load, nic=load)


def _blocks(shape: GroupShape, chunks: int) -> int:
    return shape.ranks


FAMILIES = (
    Family(
        "all_gather",
        "pat",
        _blocks,
        pat_all_gather_rounds,
        pat_counts,
        SOURCE,
        requires=one_gpu_per_node,
    ),
    Family(
        "reduce_scatter",
        "pat",
        _blocks,
        pat_reduce_scatter_rounds,
        pat_counts,
        SOURCE,
        requires=one_gpu_per_node,
    ),
)
