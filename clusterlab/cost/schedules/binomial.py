"""Binomial trees of whole buffers (Thakur, Rabenseifner, Gropp 2005)."""

from __future__ import annotations

from collections.abc import Iterator

from clusterlab.cost.schedules.rounds import Round, Transfer
from clusterlab.cost.schedules.schedule import Flow, Phase, Schedule


def binomial_broadcast(n: int, S: float, *, root: int = 0) -> Schedule:
    """ceil(log2 n) levels; in level i the 2^i ranks that have the buffer each send it whole to one more."""
    phases = []
    for level in range((n - 1).bit_length()):
        pairs = [(r, r + (1 << level)) for r in range(1 << level) if r + (1 << level) < n]
        flows = tuple(Flow((a + root) % n, (b + root) % n, S) for a, b in pairs)
        phases.append(Phase(f"level {level}", flows, 1))
    return Schedule("broadcast", "binomial_tree", n, S, tuple(phases))


def binomial_broadcast_rounds(n: int, root: int) -> Iterator[Round]:
    """One block."""
    span = 1
    while span < n:
        yield [
            Transfer((r + root) % n, (r + span + root) % n, 0) for r in range(span) if r + span < n
        ]
        span *= 2
