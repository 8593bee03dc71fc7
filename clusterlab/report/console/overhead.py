"""Framework overhead as tables: one for each curve whose points were called in several ways."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from clusterlab.core.sizes import human_size
from clusterlab.report.numbers import three_digits
from clusterlab.report.text import plain
from clusterlab.verdict.overhead import Overhead

HEADS = ("Size", "Eager µs", "Direct µs", "Graph µs", "Eager - direct", "Eager - graph")


MOST_LINES = 64
"""Sizes in one table; of more every second, third, …"""


@dataclass(frozen=True, slots=True)
class OverheadTable:
    """``rows`` ascend by size, one cell for each of HEADS."""

    title: str
    rows: tuple[tuple[str, ...], ...]


def overhead_tables(found: Iterable[Overhead]) -> tuple[OverheadTable, ...]:
    """Out of place where that was measured, else in place."""
    curves: dict[tuple[object, ...], list[Overhead]] = {}
    for one in found:
        key = (one.collective, one.dtype, one.op, one.root, one.world_size)
        curves.setdefault(key, []).append(one)
    return tuple(_table(curve) for curve in curves.values())


def _table(curve: list[Overhead]) -> OverheadTable:
    place = min(one.in_place for one in curve)
    first = curve[0]
    root = f"root {first.root}" if first.root else ""
    words = (first.collective, first.dtype, first.op or "", root)
    title = " ".join(word for word in words if word)
    rows = sorted((one for one in curve if one.in_place == place), key=lambda one: one.size_bytes)
    every = -(-len(rows) // MOST_LINES)
    some = f"; every {every}th of {len(rows)} sizes" if every > 1 else ""
    return OverheadTable(
        plain(f"Framework overhead of {title}, µs a call{', in place' if place else ''}{some}"),
        tuple(_cells(one) for one in rows[::every]),
    )


def _cells(one: Overhead) -> tuple[str, ...]:
    times = (one.eager_us, one.direct_us, one.graph_us, one.framework_us, one.issuing_us)
    return human_size(one.size_bytes), *map(three_digits, times)
