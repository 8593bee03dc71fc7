"""Pairs of ranks beside each other: the median, how far each pair is from it, and the slowest first."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from clusterlab.core.rows import Row


@dataclass(frozen=True, slots=True)
class PairValue:
    """One pair's figure. ``slowdown``: how many times worse than the median, below 1 when better."""

    ranks: tuple[int, int]
    value: float
    predicted: float | None
    ratio: float
    slowdown: float
    wrong: int | None


@dataclass(frozen=True, slots=True)
class PairTable:
    """All pairs of one operation, size and timing, the slowest first.

    ``unit`` is ``us`` (of ``ping_pong``: half the round trip, its median) or ``GBps`` (size over time;
    of ``send_recv`` each way). ``ratio`` of a pair is its value over ``median``.
    """

    collective: str
    dtype: str
    size_bytes: int
    backend: str
    timing: str
    unit: str
    median: float
    pairs: tuple[PairValue, ...]

    @property
    def slowest(self) -> PairValue:
        """The pair that is furthest on the slow side of the median."""
        return self.pairs[0]

    @property
    def one_way(self) -> bool:
        """Whether a pair and its reverse are two figures."""
        return self.collective == "send"


OF_PAIRS = frozenset({"ping_pong", "send", "send_recv"})


def pair_tables(rows: Iterable[Row]) -> tuple[PairTable, ...]:
    """The tables of those ``rows`` (one per point) that pairs took part in: latency, then by size."""
    groups: dict[tuple[str, str, int, str, str], list[Row]] = {}
    for row in rows:
        pair = row.ranks is not None and len(row.ranks) == 2 and row.collective in OF_PAIRS
        if pair and _usable(_value(row)):
            key = (row.collective, row.dtype, row.size_bytes, row.backend, row.timing)
            groups.setdefault(key, []).append(row)
    order = sorted(groups, key=lambda key: (key[4], key[1], key[0] != "ping_pong", key[2], key[0]))
    return tuple(_table(groups[key]) for key in order)


def pairs_to_json(tables: Iterable[PairTable]) -> list[dict[str, Any]]:
    """Plain data: each table with its median and its slowest pair."""
    return [
        {
            "collective": t.collective,
            "dtype": t.dtype,
            "size_bytes": t.size_bytes,
            "timing": t.timing,
            "unit": t.unit,
            "pairs": len(t.pairs),
            "median": t.median,
            "slowest": {
                "ranks": list(t.slowest.ranks),
                "value": t.slowest.value,
                "ratio": t.slowest.ratio,
            },
        }
        for t in tables
    ]


def _table(rows: list[Row]) -> PairTable:
    first = rows[0]
    median = statistics.median(_value(row) for row in rows)
    pairs = [_pair(row, median) for row in rows]
    pairs.sort(key=lambda pair: -pair.slowdown)
    return PairTable(
        collective=first.collective,
        dtype=first.dtype,
        size_bytes=first.size_bytes,
        backend=first.backend,
        timing=first.timing,
        unit="us" if first.collective == "ping_pong" else "GBps",
        median=median,
        pairs=tuple(pairs),
    )


def _pair(row: Row, median: float) -> PairValue:
    value, latency = _value(row), row.collective == "ping_pong"
    assert row.ranks is not None, "rows of pairs only"
    first, second = row.ranks
    return PairValue(
        ranks=(first, second),
        value=value,
        predicted=row.predicted_time_us if latency else row.predicted_busbw_GBps,
        ratio=value / median,
        slowdown=value / median if latency else median / value,
        wrong=row.wrong,
    )


def _value(row: Row) -> float:
    return row.time_us_p50 if row.collective == "ping_pong" else row.algbw_GBps


def _usable(value: float) -> bool:
    return 0 < value < math.inf
