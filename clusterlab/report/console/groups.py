"""Groups of ranks as text: a line below each size, the matrix of groups and sizes, who stands out."""

from __future__ import annotations

from collections.abc import Sequence

from clusterlab.core.patterns import group_name
from clusterlab.core.placement import Placement
from clusterlab.core.rows import Row
from clusterlab.core.sizes import human_size
from clusterlab.report.console.nccl_table_writer import GroupWords
from clusterlab.report.numbers import three_digits
from clusterlab.report.text import plain
from clusterlab.verdict.groups import (
    GroupTable,
    GroupValue,
    SlowGroup,
    group_tables,
    nobody_because,
    slow_groups,
)

_SIZES = {"all": "at all sizes", "large": "at large sizes", "small": "at small sizes"}
_MOST_COLUMNS = 8
"""Sizes side by side on 100 columns; of more, the matrix has every second, third, …"""


def name_of(ranks: Sequence[int] | None, placement: Placement | None) -> str:
    """``host n0``, ``rail 3``, ``ranks 0-3``."""
    return "all ranks" if ranks is None else plain(group_name(tuple(ranks), placement))


def size_lines(rows: Sequence[Row], placement: Placement | None) -> list[str]:
    """Below the rows of one size: least, median and most busbw over the groups, and the slowest by name."""
    return [
        f"# {'in' if t.in_place else 'out of'} place, {len(t.groups)} groups: busbw min "
        f"{three_digits(t.slowest.busbw_GBps)}  median {three_digits(t.median_GBps)}  max "
        f"{three_digits(t.fastest.busbw_GBps)}  slowest {name_of(t.slowest.ranks, placement)}"
        f"{' *' if t.slowest.outlying else ''}"
        for t in group_tables(rows)
    ]


def group_lines(tables: Sequence[GroupTable], placement: Placement | None) -> list[str]:
    """One matrix of busbw for every collective and way it was called, then who stands out; empty for none."""
    lines: list[str] = []
    for same in series_of(tables):
        lines += ["#", *_matrix(same, placement)]
    if not lines:
        return []
    return [*lines, "#", *verdict_lines(tables, placement)]


def verdict_lines(tables: Sequence[GroupTable], placement: Placement | None) -> list[str]:
    """Who stands out often enough to be named, a line each, or that nobody does."""
    slow = slow_groups(tables, placement)
    if slow:
        return [f"# Slower than its peers: {slow_text(group, placement)}" for group in slow]
    if why := nobody_because(tables, placement):
        return [f"# No group is called slow: {why}."]
    if any(group.outlying for table in tables for group in table.groups):
        return ["# No group stands out at two sizes and half of them, so none is named."]
    return ["# No group stands out."]


def slow_text(group: SlowGroup, placement: Placement | None) -> str:
    """``rail 3, at large sizes (4 of 4 points), 2.1 times at 4 MiB of all_reduce``."""
    return (
        f"{name_of(group.ranks, placement)}, {_SIZES[group.where]} ({group.outlying} of {group.points} "
        f"points), {three_digits(group.slowdown)} times at {human_size(group.size_bytes)} of "
        f"{group.collective}"
    )


def series_of(tables: Sequence[GroupTable]) -> list[list[GroupTable]]:
    """Tables that differ by their size only, by size."""
    found: dict[tuple[object, ...], list[GroupTable]] = {}
    for table in tables:
        found.setdefault(table.series, []).append(table)
    return [sorted(same, key=lambda table: table.size_bytes) for same in found.values()]


def series_title(table: GroupTable) -> str:
    """What the tables of a series have in common."""
    words = [table.collective, table.dtype, *([table.op] if table.op else [])]
    words += ["in place" if table.in_place else "out of place"]
    words += [table.timing] if table.timing != "eager" else []
    words += [f"uneven parts {table.uneven:.40}"] if table.uneven else []
    return plain(", ".join(words))


def group_cells(tables: Sequence[GroupTable]) -> dict[tuple[int, ...], dict[int, GroupValue]]:
    """By group, in the order they were measured: its value by size."""
    found: dict[tuple[int, ...], dict[int, GroupValue]] = {}
    for table in tables:
        for group in table.groups:
            found.setdefault(group.ranks, {})[table.size_bytes] = group
    return found


def _matrix(tables: Sequence[GroupTable], placement: Placement | None) -> list[str]:
    step = -(-len(tables) // _MOST_COLUMNS)
    shown = list(reversed(list(reversed(tables))[::step]))  # the largest always
    cells = group_cells(shown)
    names = {ranks: name_of(ranks, placement) for ranks in cells}
    width = max(len("median"), *(len(name) for name in names.values()))
    lines = [
        f"# busbw (GB/s) of {series_title(tables[0])}; * stands out",
        f"# {'':<{width}}" + "".join(f"{human_size(t.size_bytes):>9}" for t in shown),
        f"# {'median':<{width}}" + "".join(f"{three_digits(t.median_GBps):>9}" for t in shown),
    ]
    for ranks, values in cells.items():
        texts = [_cell(values.get(table.size_bytes)) for table in shown]
        lines.append(f"# {names[ranks]:<{width}}" + "".join(f"{text:>9}" for text in texts))
    return lines


def _cell(group: GroupValue | None) -> str:
    if group is None:
        return "-"
    return ("*" if group.outlying else "") + three_digits(group.busbw_GBps)


def words_of(placement: Placement | None) -> GroupWords:
    """What the table of a sweep over groups says beside nccl-tests' columns."""
    return GroupWords(
        name=lambda row: name_of(row.ranks, placement),
        after_size=lambda rows: size_lines(rows, placement),
        after_all=lambda rows: group_lines(group_tables(rows), placement),
    )
