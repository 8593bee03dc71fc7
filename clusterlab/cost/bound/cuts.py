"""Cuts: what must cross a set's border needs the border's capacity for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from clusterlab.cost.bound.demand import across, first_of
from clusterlab.cost.bound.limit import Limit
from clusterlab.cost.bound.sets import Partition, Side


def cut_limits(
    partition: Partition, collective: str, root: int, name: Callable[[Side], str]
) -> Iterator[Limit]:
    """One limit per side and direction, µs per byte; ``name`` says what a side is called."""
    n = len(partition.side_of)
    roots_side = partition.side_of[first_of(collective, root)]
    for at, (side, count) in enumerate(partition.sides):
        holds = {at == roots_side} if count == 1 else {False, at == roots_side}
        for holds_root in holds:
            out, into = across(
                collective, n, side.ranks, holds_root=holds_root, hand_offs=side.hand_offs
            )
            if collective == "ping_pong":
                yield from _there_and_back(side, name)
            else:
                yield from _one_way(out, side.out_GBps, "out of", side, name)
                yield from _one_way(into, side.into_GBps, "into", side, name)


def _one_way(
    share: float, GBps: float, way: str, side: Side, name: Callable[[Side], str]
) -> Iterator[Limit]:
    if share > 0:
        yield Limit.across(share, GBps, f"links {way} {name(side)}")


def _there_and_back(side: Side, name: Callable[[Side], str]) -> Iterator[Limit]:
    """Half of both ways one after the other. Only the two ranks' own sides have ranks, so both count."""
    out = Limit.across(0.5, side.out_GBps, "")
    into = Limit.across(0.5, side.into_GBps, "")
    yield Limit(out.us_per_byte + into.us_per_byte, f"links out of and into {name(side)}")
