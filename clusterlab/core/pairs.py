"""Every pair of ranks once: in rounds of disjoint pairs that run at the same time, or one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clusterlab.core.dtypes import DTYPES
from clusterlab.core.patterns import group_name
from clusterlab.core.rows import Point, make_point

Pair = tuple[int, int]
"""Two ranks, the lower one first."""

LATENCY_BYTES = 8


def round_robin(world_size: int) -> tuple[tuple[Pair, ...], ...]:
    """Rounds of disjoint pairs in which every pair of ranks meets exactly once.

    The circle method: one rank stays, the others move on by one seat each round. n - 1 rounds for an
    even number of ranks; for an odd one n, in each of which another rank sits out.
    """
    seats: list[int | None] = [*range(world_size)]
    if world_size % 2:
        seats.append(None)
    rounds = []
    for _ in range(len(seats) - 1):
        facing = zip(seats[: len(seats) // 2], reversed(seats), strict=False)
        met = [(a, b) for a, b in facing if a is not None and b is not None]
        rounds.append(tuple(sorted((min(pair), max(pair)) for pair in met)))
        seats.insert(1, seats.pop())
    return tuple(r for r in rounds if r)


def one_by_one(world_size: int) -> tuple[tuple[Pair, ...], ...]:
    """The same pairs in the same order, each in a round of its own."""
    return tuple((pair,) for pairs in round_robin(world_size) for pair in pairs)


def pair_steps(
    rounds: Sequence[Sequence[Pair]], sizes_bytes: Sequence[int], dtypes: Sequence[str]
) -> tuple[tuple[Point, ...], ...]:
    """What to measure, in order; the points of one step run at the same time, on disjoint ranks.

    In each round a ping-pong of LATENCY_BYTES, then for every size one way, the other way, and both at
    once.
    """
    return tuple(step for pairs in rounds for step in _round_steps(pairs, sizes_bytes, dtypes))


def _round_steps(
    pairs: Sequence[Pair], sizes_bytes: Sequence[int], dtypes: Sequence[str]
) -> Iterator[tuple[Point, ...]]:
    back = [(b, a) for a, b in pairs]
    for dtype in dtypes:
        ways = [("ping_pong", LATENCY_BYTES, pairs)]
        for size in sizes_bytes:
            ways += [("send", size, pairs), ("send", size, back), ("send_recv", size, pairs)]
        for name, size, ranks in ways:
            yield tuple(make_point(name, size, DTYPES[dtype], 2, ranks=pair) for pair in ranks)


def between(collective: str, ranks: Sequence[object]) -> str:
    """Which ranks, and which way: ``0 → 3`` for a send, ``0 ↔ 3`` for both ways."""
    return (" → " if collective == "send" else " ↔ ").join(map(str, ranks))


def ranks_in_words(collective: str, ranks: Sequence[int]) -> str:
    """``rank 0 → 3`` of a pair, ``ranks 0-3,8`` of a group."""
    if collective in ("send", "ping_pong") or (collective == "send_recv" and len(ranks) == 2):
        return f"rank {between(collective, ranks)}"
    return group_name(tuple(ranks), None)
