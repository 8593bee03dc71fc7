"""Collective algorithms as schedules, each as a function of ranks and size.

Step and volume formulas are standard (Thakur, Rabenseifner, Gropp 2005; for the double binary tree
Sanders, Speck, Träff 2009); the tests execute every one on small n (``rounds.py``) and compare counts.
n ranks, S bytes in nccl-tests' sense, ranks in ring order.
"""

from __future__ import annotations

import math

from clusterlab.cost.schedule import Flow, Phase, Schedule
from clusterlab.cost.trees import double_tree, tree_edges


def _ring(n: int, size_bytes: float) -> tuple[Flow, ...]:
    return tuple(Flow(r, (r + 1) % n, size_bytes) for r in range(n)) if n > 1 else ()


def ring_all_reduce(n: int, S: float, *, chunks: int = 1) -> Schedule:
    """Reduce-scatter then all-gather around the ring: 2(n-1) steps of S/n, each in ``chunks`` parts."""
    flows = _ring(n, S / (n * chunks))
    steps = (n - 1) * chunks
    return Schedule(
        "all_reduce",
        "ring",
        n,
        S,
        (
            Phase("reduce_scatter", flows, steps, reduces=True),
            Phase("all_gather", flows, steps),
        ),
    )


def ring_reduce_scatter(n: int, S: float, *, chunks: int = 1) -> Schedule:
    """n-1 steps of S/n."""
    phase = Phase("reduce_scatter", _ring(n, S / (n * chunks)), (n - 1) * chunks, reduces=True)
    return Schedule("reduce_scatter", "ring", n, S, (phase,))


def ring_all_gather(n: int, S: float, *, chunks: int = 1) -> Schedule:
    """n-1 steps of S/n."""
    phase = Phase("all_gather", _ring(n, S / (n * chunks)), (n - 1) * chunks)
    return Schedule("all_gather", "ring", n, S, (phase,))


def direct_all_to_all(n: int, S: float) -> Schedule:
    """Every rank sends S/n to every other at once: one step of n(n-1) flows."""
    flows = tuple(Flow(r, (r + shift) % n, S / n) for shift in range(1, n) for r in range(n))
    return Schedule("all_to_all", "direct", n, S, (Phase("exchange", flows, min(1, n - 1)),))


def binomial_broadcast(n: int, S: float, *, root: int = 0) -> Schedule:
    """ceil(log2 n) levels; in level i the 2^i ranks that have the buffer each send it whole to one more."""
    phases = []
    for level in range(_levels(n)):
        pairs = [(r, r + (1 << level)) for r in range(1 << level) if r + (1 << level) < n]
        flows = tuple(Flow((a + root) % n, (b + root) % n, S) for a, b in pairs)
        phases.append(Phase(f"level {level}", flows, 1))
    return Schedule("broadcast", "binomial_tree", n, S, tuple(phases))


def ring_reduce_gather(n: int, S: float, *, chunks: int = 1, root: int = 0) -> Schedule:
    """Ring reduce-scatter, then every rank sends its reduced part to the root at once."""
    scatter = Phase("reduce_scatter", _ring(n, S / (n * chunks)), (n - 1) * chunks, reduces=True)
    to_root = tuple(Flow(r, root, S / n) for r in range(n) if r != root)
    return Schedule(
        "reduce", "ring_gather", n, S, (scatter, Phase("gather", to_root, min(1, n - 1)))
    )


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


def ring_shift(n: int, S: float) -> Schedule:
    """Every rank sends S to the next and receives from the one before: nccl-tests' sendrecv."""
    return Schedule("send_recv", "ring_shift", n, S, (Phase("shift", _ring(n, S), min(1, n - 1)),))


def one_message(S: float) -> Schedule:
    """The first of two ranks sends S to the second."""
    return Schedule("send", "one_message", 2, S, (Phase("send", (Flow(0, 1, S),), 1),))


def _levels(n: int) -> int:
    return max(0, (n - 1).bit_length())
