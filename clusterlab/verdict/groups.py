"""Groups of ranks beside each other: which of them is slower than its peers, and at which sizes. Pure.

A group stands out at a point when its busbw is below that of the others by more than chance: it is compared
with the median of the *other* groups, so that of two groups one can stand out, and one slow group does not
hide itself. It must be slower by OUTLYING, and by FAR times their spread (1.4826 times the median absolute
deviation, which is the standard deviation of normal noise; Hampel). Of fewer than FEW groups the others'
spread says little: then it must be slower by OUTLYING_OF_FEW.

One point may be chance. A group is named when it stands out at half of the points or more, and at
LEAST_POINTS, counted among the smaller sizes (its latency), the larger (its bandwidth), or all. Wrong data
outranks speed: it names nobody in its table. Nor do ranks that share the cores of one host over gloo: what is
slow there changes from call to call.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from clusterlab.core.collectives import SWEPT
from clusterlab.core.placement import Placement
from clusterlab.core.rows import Row

OUTLYING = 1.1
OUTLYING_OF_FEW = 1.25
FAR = 3.5
FEW = 4
NAMED_SHARE = 0.5
LEAST_POINTS = 2

Ranks = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GroupValue:
    """One group's figure at a point. ``slowdown``: how many times less than the median of the others, below 1
    when it is faster. ``outlying``: more than by chance.
    """

    ranks: Ranks
    busbw_GBps: float
    predicted_GBps: float | None
    slowdown: float
    outlying: bool
    wrong: int | None


@dataclass(frozen=True, slots=True)
class GroupTable:
    """All groups at one point, in the order they were measured. ``size_bytes`` is what was asked for; the
    figures are of busbw in GB/s.
    """

    collective: str
    dtype: str
    op: str | None
    in_place: bool
    timing: str
    uneven: str | None
    backend: str
    size_bytes: int
    groups: tuple[GroupValue, ...]

    @property
    def median_GBps(self) -> float:
        """Of all groups."""
        return statistics.median(group.busbw_GBps for group in self.groups)

    @property
    def slowest(self) -> GroupValue:
        """The group with the least busbw."""
        return min(self.groups, key=lambda group: group.busbw_GBps)

    @property
    def fastest(self) -> GroupValue:
        """The group with the most busbw."""
        return max(self.groups, key=lambda group: group.busbw_GBps)

    @property
    def series(self) -> tuple[object, ...]:
        """What it has in common with the tables of its other sizes."""
        return self.collective, self.dtype, self.op, self.in_place, self.timing, self.uneven

    @property
    def printed_with(self) -> tuple[object, ...]:
        """What it has in common with the others of one printed table (``nccl_table.table_of``)."""
        return self.collective, self.timing, self.uneven


@dataclass(frozen=True, slots=True)
class SlowGroup:
    """A group that stands out. ``where``: ``all``, ``small`` or ``large`` sizes, of which there are
    ``points`` and it stood out at ``outlying``; its worst slowdown is ``slowdown``, at ``size_bytes``.
    """

    ranks: Ranks
    where: str
    outlying: int
    points: int
    slowdown: float
    size_bytes: int
    collective: str


def group_tables(rows: Iterable[Row]) -> tuple[GroupTable, ...]:
    """The tables of those ``rows`` (one per point) that groups of ranks took part in; none of a run of
    pairs.
    """
    mine = [row for row in rows if row.ranks is not None and row.beside is None]
    if any(row.collective not in SWEPT for row in mine):
        return ()
    found: dict[tuple[object, ...], list[Row]] = {}
    for row in mine:
        if 0 < row.busbw_GBps < math.inf:
            found.setdefault((*_series(row), row.requested_bytes), []).append(row)
    return tuple(_table(rows) for rows in found.values() if len(rows) > 1)


def _series(row: Row) -> tuple[object, ...]:
    return row.collective, row.dtype, row.op, row.in_place, row.timing, row.uneven


def _table(rows: Sequence[Row]) -> GroupTable:
    first = rows[0]
    return GroupTable(
        collective=first.collective,
        dtype=first.dtype,
        op=first.op,
        in_place=first.in_place,
        timing=first.timing,
        uneven=first.uneven,
        backend=first.backend,
        size_bytes=first.requested_bytes,
        groups=_values(rows),
    )


def nobody_because(tables: Sequence[GroupTable], placement: Placement | None) -> str | None:
    """Why none of the groups of ``tables`` may be called slow, whatever their figures; None: one may."""
    if tables and not _judged(tables):
        return "the data was wrong"
    on_cores = any(table.backend == "gloo" for table in tables)
    if on_cores and placement is not None and len(placement.hosts) == 1:
        return "they share the cores of one host"
    return None


def _judged(tables: Sequence[GroupTable]) -> list[GroupTable]:
    """Without those that are printed with wrong data."""
    spoilt = {t.printed_with for t in tables if any(group.wrong for group in t.groups)}
    return [table for table in tables if table.printed_with not in spoilt]


def slow_groups(tables: Sequence[GroupTable], placement: Placement | None) -> tuple[SlowGroup, ...]:
    """The groups that stand out, the worst first; each once, where it shows most."""
    if nobody_because(tables, placement):
        return ()
    series: dict[tuple[object, ...], list[GroupTable]] = {}
    for table in _judged(tables):
        series.setdefault(table.series, []).append(table)
    worst: dict[Ranks, SlowGroup] = {}
    for same in series.values():
        for found in _of_series(sorted(same, key=lambda table: table.size_bytes)):
            known = worst.get(found.ranks)
            if known is None or found.slowdown > known.slowdown:
                worst[found.ranks] = found
    return tuple(sorted(worst.values(), key=lambda group: -group.slowdown))


def _of_series(tables: Sequence[GroupTable]) -> Iterable[SlowGroup]:
    half = len(tables) // 2
    parts = {"all": tables, "large": tables[half:], "small": tables[:half]}
    for ranks in dict.fromkeys(g.ranks for table in tables for g in table.groups):
        for where, some in parts.items():
            there = [(t, g) for t in some for g in t.groups if g.ranks == ranks]
            out = [(t, g) for t, g in there if g.outlying]
            if len(out) >= max(LEAST_POINTS, NAMED_SHARE * len(there)):
                table, at = max(out, key=lambda entry: entry[1].slowdown)
                yield SlowGroup(
                    ranks, where, len(out), len(there), at.slowdown, table.size_bytes,
                    table.collective,
                )  # fmt: skip
                break


def groups_to_json(tables: Sequence[GroupTable], placement: Placement | None) -> dict[str, Any]:
    """Plain data: each point with its least, median and most, and the groups that stand out."""
    return {
        "points": [
            {
                "collective": t.collective,
                "dtype": t.dtype,
                "op": t.op,
                "in_place": t.in_place,
                "timing": t.timing,
                "uneven": t.uneven,
                "size_bytes": t.size_bytes,
                "groups": len(t.groups),
                "min_busbw_GBps": t.slowest.busbw_GBps,
                "median_busbw_GBps": t.median_GBps,
                "max_busbw_GBps": t.fastest.busbw_GBps,
                "slowest": list(t.slowest.ranks),
            }
            for t in tables
        ],
        "slow": [
            {
                "ranks": list(g.ranks),
                "sizes": g.where,
                "outlying": g.outlying,
                "points": g.points,
                "slowdown": g.slowdown,
                "size_bytes": g.size_bytes,
                "collective": g.collective,
            }
            for g in slow_groups(tables, placement)
        ],
    }


def _values(rows: Sequence[Row]) -> tuple[GroupValue, ...]:
    figures = [row.busbw_GBps for row in rows]
    found = []
    for i, row in enumerate(rows):
        others = figures[:i] + figures[i + 1 :]
        median = statistics.median(others)
        assert row.ranks is not None, "rows of groups only"
        found.append(
            GroupValue(
                ranks=row.ranks,
                busbw_GBps=row.busbw_GBps,
                predicted_GBps=row.predicted_busbw_GBps,
                slowdown=median / row.busbw_GBps,
                outlying=_outlying(row.busbw_GBps, median, others),
                wrong=row.wrong,
            )
        )
    return tuple(found)


def _outlying(value: float, median: float, others: Sequence[float]) -> bool:
    if len(others) + 1 < FEW:
        return median >= OUTLYING_OF_FEW * value
    spread = 1.4826 * statistics.median(abs(other - median) for other in others)
    return median >= OUTLYING * value and median - value > FAR * spread
