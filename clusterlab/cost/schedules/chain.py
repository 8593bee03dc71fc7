"""Pipelined chains: broadcast away from the root along the ring, reduce towards it.

n ranks, S bytes in C chunks: n-2+C steps of S/C (Thakur, Rabenseifner, Gropp 2005).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from clusterlab.cost.schedules.rounds import Round, Transfer
from clusterlab.cost.schedules.schedule import Flow, Phase, Schedule


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
