"""Pairs of ranks on the page: heat maps and the slowest pairs, as values ready to print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clusterlab.core.placement import Placement
from clusterlab.core.sizes import human_size
from clusterlab.report.console.pairs import cells, pair_name, ranks_of, telling, what
from clusterlab.report.error_matrix import Cell
from clusterlab.report.numbers import NOT_KNOWN, ratio, three_digits
from clusterlab.verdict.pairs import PairTable, PairValue

MOST_RANKS = 64
"""Ranks up to which a heat map is drawn: its cells grow with their square."""

MOST_SLOWEST = 12

_SHADES = (1.05, 1.1, 1.25, 1.5)
"""Slowdowns (and their reciprocals) from which a cell gets its first, second, … shade."""


@dataclass(frozen=True, slots=True)
class HeatMap:
    """One matrix: ``rows`` are a label and a cell for each of ``heads``."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]


@dataclass(frozen=True, slots=True)
class PairsView:
    """``slowest`` are rows of text; ``not_drawn`` says why there is no heat map, empty when there is."""

    maps: tuple[HeatMap, ...]
    not_drawn: str
    medians: tuple[tuple[str, ...], ...]
    slowest: tuple[tuple[str, ...], ...]


def pairs_view(tables: Sequence[PairTable], placement: Placement | None) -> PairsView | None:
    """What the page shows of ``tables``; None when there are none."""
    if not tables:
        return None
    most = max(len(ranks_of(table)) for table in tables)
    drawn = most <= MOST_RANKS
    worst = sorted(
        ((table, pair) for table in tables for pair in table.pairs),
        key=lambda entry: -entry[1].slowdown,
    )
    return PairsView(
        maps=tuple(_heat_map(t, placement) for t in telling(tables)) if drawn else (),
        not_drawn="" if drawn else f"No heat map: {most} ranks, drawn up to {MOST_RANKS}.",
        medians=tuple(_median(table, placement) for table in tables),
        slowest=tuple(_slow(t, pair, placement) for t, pair in worst[:MOST_SLOWEST]),
    )


def _heat_map(table: PairTable, placement: Placement | None) -> HeatMap:
    ranks, known = ranks_of(table), cells(table)
    way = "; the row sends, the column receives" if table.one_way else ""
    return HeatMap(
        title=f"{what(table)}, {human_size(table.size_bytes)}, {table.dtype}{way}",
        heads=tuple(map(str, ranks)),
        rows=tuple(
            (
                pair_name("send", (row,), placement),
                tuple(_cell(known.get((row, column))) for column in ranks),
            )
            for row in ranks
        ),
    )


def _cell(pair: PairValue | None) -> Cell:
    return shaded(None, 1.0) if pair is None else shaded(pair.value, pair.slowdown)


def shaded(value: float | None, slowdown: float) -> Cell:
    """A figure, darker the further it is from the median of all; None: a dash."""
    if value is None:
        return Cell(NOT_KNOWN, "")
    away = max(slowdown, 1 / slowdown)
    level = sum(away >= limit for limit in _SHADES)
    side = "over" if slowdown > 1 else "under"
    return Cell(three_digits(value), f"{side}-{level}" if level else "")


def _median(table: PairTable, placement: Placement | None) -> tuple[str, ...]:
    slowest = table.slowest
    return (
        what(table),
        human_size(table.size_bytes),
        table.dtype,
        str(len(table.pairs)),
        three_digits(table.median),
        three_digits(slowest.value),
        ratio(slowest.ratio),
        pair_name(table.collective, slowest.ranks, placement),
    )


def _slow(table: PairTable, pair: PairValue, placement: Placement | None) -> tuple[str, ...]:
    return (
        pair_name(table.collective, pair.ranks, placement),
        what(table),
        human_size(table.size_bytes),
        three_digits(pair.value),
        ratio(pair.ratio),
        three_digits(pair.predicted),
        "not checked" if pair.wrong is None else str(pair.wrong),
    )
