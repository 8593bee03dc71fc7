"""Rings: reduce-scatter and all-gather of n-ths of the buffer, and what is made of them.

Step and volume formulas are standard (Thakur, Rabenseifner, Gropp 2005). n ranks, S bytes in nccl-tests'
sense, ranks in ring order.
"""

from __future__ import annotations

from collections.abc import Iterator

from clusterlab.cost.schedules.rounds import Round, Transfer
from clusterlab.cost.schedules.schedule import Flow, Phase, Schedule


def ring_flows(n: int, size_bytes: float) -> tuple[Flow, ...]:
    """``size_bytes`` from every rank to the next."""
    return tuple(Flow(r, (r + 1) % n, size_bytes) for r in range(n)) if n > 1 else ()


def ring_all_reduce(n: int, S: float, *, chunks: int = 1) -> Schedule:
    """Reduce-scatter then all-gather around the ring: 2(n-1) steps of S/n, each in ``chunks`` parts."""
    flows = ring_flows(n, S / (n * chunks))
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
    phase = Phase("reduce_scatter", ring_flows(n, S / (n * chunks)), (n - 1) * chunks, reduces=True)
    return Schedule("reduce_scatter", "ring", n, S, (phase,))


def ring_all_gather(n: int, S: float, *, chunks: int = 1) -> Schedule:
    """n-1 steps of S/n."""
    phase = Phase("all_gather", ring_flows(n, S / (n * chunks)), (n - 1) * chunks)
    return Schedule("all_gather", "ring", n, S, (phase,))


def ring_reduce_gather(n: int, S: float, *, chunks: int = 1, root: int = 0) -> Schedule:
    """Ring reduce-scatter, then every rank sends its reduced part to the root at once."""
    scatter = Phase(
        "reduce_scatter", ring_flows(n, S / (n * chunks)), (n - 1) * chunks, reduces=True
    )
    to_root = tuple(Flow(r, root, S / n) for r in range(n) if r != root)
    return Schedule(
        "reduce", "ring_gather", n, S, (scatter, Phase("gather", to_root, min(1, n - 1)))
    )


def ring_reduce_scatter_rounds(n: int) -> Iterator[Round]:
    """n blocks; afterwards rank r has block r complete."""
    for step in range(n - 1):
        yield [Transfer(r, (r + 1) % n, (r - step - 1) % n, reduces=True) for r in range(n)]


def ring_all_gather_rounds(n: int) -> Iterator[Round]:
    """n blocks; rank r starts with block r."""
    for step in range(n - 1):
        yield [Transfer(r, (r + 1) % n, (r - step) % n) for r in range(n)]


def ring_all_reduce_rounds(n: int) -> Iterator[Round]:
    """n blocks; both of the above."""
    yield from ring_reduce_scatter_rounds(n)
    yield from ring_all_gather_rounds(n)


def ring_reduce_gather_rounds(n: int, root: int) -> Iterator[Round]:
    """n blocks, reduced around the ring, then sent to the root by their owners."""
    yield from ring_reduce_scatter_rounds(n)
    if n > 1:
        yield [Transfer(r, root, r) for r in range(n) if r != root]
