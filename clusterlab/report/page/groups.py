"""Groups of ranks on the page: a heat map of groups and sizes for every collective, and who stands out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clusterlab.core.placement import Placement
from clusterlab.core.sizes import human_size
from clusterlab.report.console.groups import (
    group_cells,
    name_of,
    series_of,
    series_title,
    slow_text,
)
from clusterlab.report.numbers import ratio, three_digits
from clusterlab.report.page.pairs import HeatMap, shaded
from clusterlab.report.text import plain
from clusterlab.verdict.groups import GroupTable, slow_groups

MOST_GROUPS = 128
"""Groups up to which a heat map is drawn; of more, the slowest stand in the table."""


@dataclass(frozen=True, slots=True)
class GroupsView:
    """``slow`` are sentences; ``medians`` rows of text; ``not_drawn`` says why there is no heat map."""

    maps: tuple[HeatMap, ...]
    not_drawn: str
    medians: tuple[tuple[str, ...], ...]
    slow: tuple[str, ...]


def groups_view(tables: Sequence[GroupTable], placement: Placement | None) -> GroupsView | None:
    """What the page shows of ``tables``; None when there are none."""
    if not tables:
        return None
    most = max(len(table.groups) for table in tables)
    drawn = most <= MOST_GROUPS
    return GroupsView(
        maps=tuple(_heat_map(same, placement) for same in series_of(tables)) if drawn else (),
        not_drawn="" if drawn else f"No heat map: {most} groups, drawn up to {MOST_GROUPS}.",
        medians=tuple(_median(t, placement) for same in series_of(tables) for t in same),
        slow=tuple(plain(slow_text(group, placement)) for group in slow_groups(tables, placement)),
    )


def _heat_map(tables: Sequence[GroupTable], placement: Placement | None) -> HeatMap:
    return HeatMap(
        title=f"busbw (GB/s) of {series_title(tables[0])}",
        heads=tuple(human_size(table.size_bytes) for table in tables),
        rows=tuple(
            (
                name_of(ranks, placement),
                tuple(
                    shaded(value.busbw_GBps, value.slowdown) if value else shaded(None, 1.0)
                    for value in (values.get(table.size_bytes) for table in tables)
                ),
            )
            for ranks, values in group_cells(tables).items()
        ),
    )


def _median(table: GroupTable, placement: Placement | None) -> tuple[str, ...]:
    slowest = table.slowest
    return (
        series_title(table),
        human_size(table.size_bytes),
        str(len(table.groups)),
        three_digits(slowest.busbw_GBps),
        three_digits(table.median_GBps),
        three_digits(table.fastest.busbw_GBps),
        name_of(slowest.ranks, placement),
        ratio(1 / slowest.slowdown),
        three_digits(slowest.predicted_GBps),
        "yes" if slowest.outlying else "no",
    )
