"""What the self-calibration measures: a few sizes that a sweep by factors of two never asks for."""

from __future__ import annotations

from collections.abc import Iterator

from clusterlab.core.collectives import COLLECTIVES
from clusterlab.core.dtypes import DTYPES
from clusterlab.core.rows import Point, make_point

KiB = 1 << 10
SIZES_BYTES: tuple[int, ...] = (
    3 * KiB // 2,
    12288 * KiB,
    768 * KiB,
    24 * KiB,
    3072 * KiB,
    192 * KiB,
)
"""3 × powers of two, so that the usual sizes stay unseen. The first three alone would do: with many ranks
on few cores there is no time for more."""

ENOUGH_SIZES = 3

SLOW_REDUCTIONS: tuple[tuple[str, str], ...] = (
    ("float16", "sum"),
    ("bfloat16", "sum"),
    ("bfloat16", "max"),
)
SLOW_REDUCTION_BYTES = 3072 * KiB
"""Element types that gloo reduces one by one: met once per pass, at a size where it shows."""


def batches(world_size: int) -> Iterator[tuple[Point, ...]]:
    """The points of one size after the other, over and over: between two, one may stop."""
    while True:
        for size in SIZES_BYTES:
            yield tuple(_points(size, world_size))


def _points(size_bytes: int, world_size: int) -> Iterator[Point]:
    for name in COLLECTIVES:
        if name == "send_recv" and world_size == 1:
            continue  # gloo sends nothing to itself
        yield make_point(name, size_bytes, DTYPES["float32"], world_size)
    if size_bytes == SLOW_REDUCTION_BYTES:
        for dtype, op in SLOW_REDUCTIONS:
            yield make_point("all_reduce", size_bytes, DTYPES[dtype], world_size, op=op)
