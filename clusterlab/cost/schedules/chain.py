"""Pipelined chains: broadcast away from the root along the ring, reduce towards it.

n ranks, S bytes in C chunks: n-2+C steps of S/C (Thakur, Rabenseifner, Gropp 2005).

The families are a single chain, and NCCL's: one chain per rail along the rings of its all_reduce.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from clusterlab.cost.schedules import ring
from clusterlab.cost.schedules.counts import Counts
from clusterlab.cost.schedules.family import Family
from clusterlab.cost.schedules.rounds import Round, Transfer
from clusterlab.cost.schedules.schedule import Flow, Phase, Schedule
from clusterlab.cost.schedules.shape import GroupShape

SOURCE = "Thakur, Rabenseifner, Gropp 2005"


def chain_broadcast(n: int, S: float, *, chunks: int, root: int = 0) -> Schedule:
    """A chain from the root along the ring, pipelined in C chunks: n-2+C steps of S/C."""
    flows = tuple(Flow((root + i) % n, (root + i + 1) % n, S / chunks) for i in range(n - 1))
    phase = Phase("chain", flows, n - 2 + chunks if n > 1 else 0, sends=chunks * (n - 1))
    return Schedule("broadcast", "chain", n, S, (phase,))


def chain_reduce(n: int, S: float, *, chunks: int, root: int = 0) -> Schedule:
    """The chain backwards: partial sums travel towards the root."""
    flows = tuple(Flow((root + i + 1) % n, (root + i) % n, S / chunks) for i in range(n - 1))
    phase = Phase(
        "chain", flows, n - 2 + chunks if n > 1 else 0, reduces=True, sends=chunks * (n - 1)
    )
    return Schedule("reduce", "chain", n, S, (phase,))


def best_chunks(n: int, S: float, *, step_us: float, GBps: float) -> int:
    """The C that makes a pipelined chain fastest: sqrt(S (n-2) / (α B))."""
    if n < 3 or S <= 0:
        return 1
    if step_us <= 0:
        return 1 << 16
    return max(1, round(math.sqrt(S * (n - 2) / (step_us * GBps * 1e3))))


def chain_broadcast_rounds(n: int, root: int, chunks: int) -> Iterator[Round]:
    """``chunks`` blocks, each following the one before it down the chain."""
    for step in range(n - 2 + chunks if n > 1 else 0):
        yield [
            Transfer((root + hop) % n, (root + hop + 1) % n, step - hop)
            for hop in range(n - 1)
            if 0 <= step - hop < chunks
        ]


def chain_reduce_rounds(n: int, root: int, chunks: int) -> Iterator[Round]:
    """``chunks`` blocks, from the far end of the chain towards the root."""
    for step in range(n - 2 + chunks if n > 1 else 0):
        yield [
            Transfer((root + n - 1 - hop) % n, (root + n - 2 - hop) % n, step - hop, reduces=True)
            for hop in range(n - 1)
            if 0 <= step - hop < chunks
        ]


def _along(shape: GroupShape, rails: int, chunks: int, *, reduces: bool) -> Iterator[Round]:
    n = shape.ranks
    orders = []
    for rail in range(rails):
        order = ring.ring_order(shape, rail)
        at = order.index(0)
        orders.append(order[at:] + order[:at])
        if reduces:
            orders[rail].reverse()
    for step in range(n - 2 + chunks):
        yield [
            Transfer(o[hop], o[hop + 1], c * chunks + step - hop, reduces)
            for c, o in enumerate(orders)
            for hop in range(max(0, step - chunks + 1), min(n - 1, step + 1))
        ]


def rail_broadcast_rounds(shape: GroupShape, chunks: int) -> Iterator[Round]:
    """R·C blocks, C chunks on each ring."""
    return _along(shape, shape.rails, chunks, reduces=False)


def rail_reduce_rounds(shape: GroupShape, chunks: int) -> Iterator[Round]:
    """R·C blocks, C chunks on each ring, backwards."""
    return _along(shape, shape.rails, chunks, reduces=True)


def _one_broadcast_rounds(shape: GroupShape, chunks: int) -> Iterator[Round]:
    """C blocks on one chain."""
    return _along(shape, 1, chunks, reduces=False)


def _one_reduce_rounds(shape: GroupShape, chunks: int) -> Iterator[Round]:
    """C blocks on one chain, backwards."""
    return _along(shape, 1, chunks, reduces=True)


def _chain(shape: GroupShape, rails: int, S: float, chunks: int) -> Counts:
    # Rings other than the root's own come back into its node: N crossings instead of N-1.
    between = shape.nodes if rails > 1 else shape.nodes - 1
    return ring.ring_volume(shape, rails, S, shape.ranks - 2 + chunks, between)


def along_ring_counts(shape: GroupShape, S: float, chunks: int) -> Counts:
    """broadcast and reduce along R rings: n-2+C steps, S."""
    return _chain(shape, shape.rails, S, chunks)


def chain_counts(shape: GroupShape, S: float, chunks: int) -> Counts:
    """broadcast and reduce along one chain: n-2+C steps, S, all of it through one NIC."""
    return _chain(shape, 1, S, chunks)


def _along_parts(shape: GroupShape, chunks: int) -> int:
    return shape.rails * chunks


def _chunks(shape: GroupShape, chunks: int) -> int:
    return chunks


FAMILIES = (
    Family(
        "broadcast",
        "ring",
        _along_parts,
        rail_broadcast_rounds,
        along_ring_counts,
        ring.SOURCE,
        pipelined=True,
    ),
    Family(
        "reduce",
        "ring",
        _along_parts,
        rail_reduce_rounds,
        along_ring_counts,
        ring.SOURCE,
        pipelined=True,
    ),
    Family(
        "broadcast",
        "chain",
        _chunks,
        _one_broadcast_rounds,
        chain_counts,
        SOURCE,
        pipelined=True,
    ),
    Family("reduce", "chain", _chunks, _one_reduce_rounds, chain_counts, SOURCE, pipelined=True),
)
