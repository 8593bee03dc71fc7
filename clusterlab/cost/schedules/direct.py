"""Direct exchanges: every message goes straight from its owner to its reader."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clusterlab.cost.schedules.ring import ring_flows
from clusterlab.cost.schedules.rounds import Round, Transfer
from clusterlab.cost.schedules.schedule import Flow, Phase, Schedule


def direct_all_to_all(n: int, S: float) -> Schedule:
    """Every rank sends S/n to every other at once: one step of n(n-1) flows."""
    flows = tuple(Flow(r, (r + shift) % n, S / n) for shift in range(1, n) for r in range(n))
    return Schedule("all_to_all", "direct", n, S, (Phase("exchange", flows, min(1, n - 1)),))


def direct_all_to_all_v(matrix: Sequence[Sequence[float]], S: float) -> Schedule:
    """Rank i sends ``matrix[i][j]`` bytes to rank j, all at once; a message of nothing is sent too."""
    n = len(matrix)
    flows = tuple(
        Flow(r, (r + shift) % n, matrix[r][(r + shift) % n])
        for shift in range(1, n)
        for r in range(n)
    )
    return Schedule("all_to_all_v", "direct", n, S, (Phase("exchange", flows, min(1, n - 1)),))


def direct_gather(n: int, S: float, *, root: int = 0) -> Schedule:
    """Every rank sends its S/n to the root, all at once."""
    flows = tuple(Flow((root + i) % n, root, S / n) for i in range(1, n))
    return Schedule("gather", "direct", n, S, (Phase("gather", flows, min(1, n - 1)),))


def direct_scatter(n: int, S: float, *, root: int = 0) -> Schedule:
    """The root sends S/n to every other rank, all at once."""
    flows = tuple(Flow(root, (root + i) % n, S / n) for i in range(1, n))
    return Schedule("scatter", "direct", n, S, (Phase("scatter", flows, min(1, n - 1)),))


def ring_shift(n: int, S: float) -> Schedule:
    """Every rank sends S to the next and receives from the one before: nccl-tests' sendrecv."""
    phase = Phase("shift", ring_flows(n, S), min(1, n - 1))
    return Schedule("send_recv", "ring_shift", n, S, (phase,))


def one_message(S: float) -> Schedule:
    """The first of two ranks sends S to the second."""
    return Schedule("send", "one_message", 2, S, (Phase("send", (Flow(0, 1, S),), 1),))


def direct_all_to_all_rounds(n: int) -> Iterator[Round]:
    """n × n blocks: block r·n + d is what rank r has for rank d."""
    if n > 1:
        yield [Transfer(r, d, r * n + d) for r in range(n) for d in range(n) if r != d]


def ring_shift_rounds(n: int) -> Iterator[Round]:
    """n blocks: block r is rank r's."""
    if n > 1:
        yield [Transfer(r, (r + 1) % n, r) for r in range(n)]
