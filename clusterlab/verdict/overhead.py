"""What the way of calling costs: the same point timed eager, direct and as a graph, side by side. Pure.

Eager less direct is what torch adds to the library's own call; eager less graph what all issuing by the host
adds to what the fabric does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from clusterlab.core.rows import Row

TIMINGS = ("eager", "direct", "graph")


@dataclass(frozen=True, slots=True)
class Overhead:
    """One point's loop times (µs) by timing; None where it was not measured so."""

    collective: str
    dtype: str
    op: str | None
    root: int | None
    in_place: bool
    world_size: int
    size_bytes: int
    eager_us: float | None
    direct_us: float | None
    graph_us: float | None

    @property
    def framework_us(self) -> float | None:
        """What torch adds to the library's own call."""
        return _less(self.eager_us, self.direct_us)

    @property
    def issuing_us(self) -> float | None:
        """What issuing by the host, torch included, adds to the work itself."""
        return _less(self.eager_us, self.graph_us)


def _less(more: float | None, less: float | None) -> float | None:
    return None if more is None or less is None else more - less


def overheads(rows: Iterable[Row]) -> tuple[Overhead, ...]:
    """Of every point of all ranks that was timed in two ways or more, in order of first sight."""
    points: dict[tuple[object, ...], dict[str, Row]] = {}
    for row in rows:
        plain = row.ranks is None and row.beside is None and row.timing in TIMINGS
        if plain and 0 < row.time_us_loop < math.inf:
            key = (
                *(row.backend, row.collective, row.dtype, row.op, row.root, row.in_place),
                *(row.world_size, row.size_bytes, row.uneven, row.aggregated, row.blocking),
                row.memory,
            )
            points.setdefault(key, {})[row.timing] = row
    return tuple(_overhead(ways) for ways in points.values() if len(ways) > 1)


def _overhead(ways: dict[str, Row]) -> Overhead:
    row = next(iter(ways.values()))
    times = {f"{t}_us": ways[t].time_us_loop if t in ways else None for t in TIMINGS}
    return Overhead(
        collective=row.collective,
        dtype=row.dtype,
        op=row.op,
        root=row.root,
        in_place=row.in_place,
        world_size=row.world_size,
        size_bytes=row.size_bytes,
        eager_us=times["eager_us"],
        direct_us=times["direct_us"],
        graph_us=times["graph_us"],
    )


def overheads_to_json(found: Iterable[Overhead]) -> list[dict[str, Any]]:
    """Plain data, times in µs."""
    return [
        {**asdict(one), "framework_us": one.framework_us, "issuing_us": one.issuing_us}
        for one in found
    ]
