"""``--corrupt RANK:INDEX``: whether there is such an element. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from clusterlab.bench.check import checkable, expected_segments
from clusterlab.core.errors import UsageError
from clusterlab.core.rows import Point


def refuse_corrupt(corrupt: tuple[int, int] | None, points: Sequence[Point], ranks: int) -> None:
    """Raise UsageError where no check of ``points`` among ``ranks`` ranks looks at that element."""
    if corrupt is None:
        return
    refuse_corrupt_rank(corrupt, ranks)
    rank, index = corrupt
    most = max((received(point, rank) for point in points), default=0)
    if index >= most:
        expected = f"INDEX 0 to {most - 1}, of the largest size" if most else "a rank that receives"
        raise UsageError(
            f"rank {rank} receives no element {index} that is checked",
            where="--corrupt",
            expected=expected,
        )


def refuse_corrupt_rank(corrupt: tuple[int, int] | None, ranks: int) -> None:
    """Raise UsageError for a rank that is none of ``ranks``."""
    if corrupt is not None and corrupt[0] >= ranks:
        raise UsageError(
            f"rank {corrupt[0]} of {ranks} ranks",
            where="--corrupt",
            expected=f"RANK 0 to {ranks - 1}",
        )


def received(point: Point, rank: int) -> int:
    """How many elements ``rank`` of the run receives that are checked."""
    among = range(point.world_size) if point.ranks is None else point.ranks
    if rank not in among or not checkable(point):
        return 0
    segments = expected_segments(point, among.index(rank))
    return max((segment.offset + segment.length for segment in segments), default=0)
