"""A point in a few words."""

from __future__ import annotations

from clusterlab.bench.groups import is_transfer
from clusterlab.core.pairs import between, ranks_in_words
from clusterlab.core.rows import Point


def point_label(point: Point) -> str:
    """A point in a few words, for messages: ``all_reduce float32 sum 4194304 B in place``, or
    ``send float32 65536 B rank 0 → 3``.
    """
    if is_transfer(point) and point.ranks is not None:
        pair = between(point.collective, point.ranks)
        return f"{point.collective} {point.dtype} {point.size_bytes} B rank {pair}"
    parts = [point.collective, point.dtype]
    parts += [point.op] if point.op else []
    parts += [f"root {point.root}"] if point.root is not None else []
    place = "in place" if point.in_place else "out of place"
    parts += [f"{point.size_bytes} B", place]
    parts += [ranks_in_words(point.collective, point.ranks)] if point.ranks is not None else []
    parts += [point.timing] if point.timing != "eager" else []
    return " ".join(parts)
