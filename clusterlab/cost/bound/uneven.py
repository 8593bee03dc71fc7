"""Cuts of an all_to_all_v whose parts differ: what each rank, and each host's ranks, have for others.

Sets of other levels are left out: a bound, and not always the tightest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from clusterlab.core.uneven import Matrix, parts
from clusterlab.cost.bound.limit import Limit
from clusterlab.cost.bound.sets import Partition, Ranks, Side

RESOLUTION = 1 << 30
"""Parts of the size that shares are counted in."""


def shares(uneven: str, n: int) -> Matrix:
    """Of the size, in RESOLUTIONths, from rank to rank."""
    return parts(uneven, n, RESOLUTION)


def moved(matrix: Matrix) -> float:
    """Of the size, all that goes from a rank to another; a unit less for each part."""
    each = (max(0, m - 1) for i, row in enumerate(matrix) for j, m in enumerate(row) if i != j)
    return sum(each) / RESOLUTION


def uneven_limits(
    ranks: Ranks, partition: Partition, matrix: Matrix, name: Callable[[Side], str]
) -> Iterator[Limit]:
    """What leaves and what enters each device or host with ranks, over its own border."""
    if partition.level not in ("device", "host"):
        return
    ends: Sequence[str | None] = ranks.devices if partition.level == "device" else ranks.host_of
    members: dict[str | None, list[int]] = {}
    for rank, end in enumerate(ends):
        members.setdefault(end, []).append(rank)
    for inside in members.values():
        side = partition.sides[partition.side_of[inside[0]]][0]
        if side.ranks != len(inside):  # devices outside hosts are sets of their own at host level
            continue
        out, into = _across(matrix, set(inside))
        which = name(replace(side, first_rank=inside[0]))
        yield Limit.across(out, side.out_GBps, f"links out of {which}")
        yield Limit.across(into, side.into_GBps, f"links into {which}")


def _across(matrix: Matrix, inside: set[int]) -> tuple[float, float]:
    """Shares of the size; a unit less for each part, as sizes are whole elements."""
    n = len(matrix)
    outside = [rank for rank in range(n) if rank not in inside]
    out = sum(max(0, matrix[i][j] - 1) for i in inside for j in outside)
    into = sum(max(0, matrix[j][i] - 1) for i in inside for j in outside)
    return out / RESOLUTION, into / RESOLUTION
