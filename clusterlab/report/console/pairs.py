"""Pairs of ranks as text: a summary line per operation and size, and matrices of the telling ones."""

from __future__ import annotations

from collections.abc import Sequence

from clusterlab.core.pairs import between
from clusterlab.core.placement import Placement
from clusterlab.core.sizes import human_size
from clusterlab.report.numbers import NOT_KNOWN, ratio, three_digits
from clusterlab.report.text import plain
from clusterlab.verdict.pairs import PairTable, PairValue

MOST_NUMBERS = 10
"""Ranks up to which a matrix of numbers fits 100 columns; beyond, a cell is one character."""

_WORDS = {
    "ping_pong": "latency (us)",
    "send": "one way (GB/s)",
    "send_recv": "both ways (GB/s each)",
}

_GLYPHS = ((2.0, "#"), (1.33, "+"), (1.1, "-"), (0.0, "."))
"""From which slowdown on a cell gets which character."""

_LINE = "{:<22} {:>8} {:>8}  {:<30} {:>8} {:>8} {:>9}"


def what(table: PairTable) -> str:
    """``one way (GB/s)``; shorter behind the name of another timing: ``graph one way, GB/s``."""
    words = _WORDS.get(table.collective, f"{table.collective} ({table.unit})")
    if table.timing == "eager":
        return words
    return plain(
        f"{table.timing} {words.replace(' (', ', ').removesuffix(')').removesuffix(' each')}"
    )


def pair_name(collective: str, ranks: Sequence[int], placement: Placement | None) -> str:
    """``0 (n0) → 3 (n1)``; without a placement ranks only."""
    if placement is None:
        return between(collective, ranks)
    return between(collective, [f"{r} ({_host(r, placement)})" for r in ranks])


def _host(rank: int, placement: Placement) -> str:
    return plain(placement.ranks[rank].host) if rank < placement.world_size else "?"


def pair_lines(tables: Sequence[PairTable], placement: Placement | None) -> list[str]:
    """The summary, and a matrix of the latency and of each way at the largest size; empty without pairs."""
    if not tables:
        return []
    lines = [
        f"Pairs of ranks, {tables[0].backend}",
        "",
        _LINE.format("", "size", "median", "slowest pair", "its", "/ median", "predicted").rstrip(),
        *(_summary(table, placement) for table in tables),
    ]
    for table in telling(tables):
        lines += ["", *_matrix(table, placement)]
    return [*lines, "  * the slowest pair"] if len(ranks_of(tables[0])) <= MOST_NUMBERS else lines


def telling(tables: Sequence[PairTable]) -> list[PairTable]:
    """Of every operation, dtype and timing the table at its largest size: the one to look at first."""
    last: dict[tuple[str, str, str], PairTable] = {}
    for table in tables:
        key = (table.timing, table.dtype, table.collective)
        if key not in last or table.size_bytes >= last[key].size_bytes:
            last[key] = table
    return list(last.values())


def _summary(table: PairTable, placement: Placement | None) -> str:
    slowest = table.slowest
    name = pair_name(table.collective, slowest.ranks, placement)
    return _LINE.format(
        what(table),
        human_size(table.size_bytes),
        three_digits(table.median),
        name,
        three_digits(slowest.value),
        ratio(slowest.ratio),
        three_digits(slowest.predicted),
    )


def cells(table: PairTable) -> dict[tuple[int, int], PairValue]:
    """(row, column) of the matrix to its pair: the sender's row and the receiver's column, or both."""
    found = {pair.ranks: pair for pair in table.pairs}
    if not table.one_way:
        found |= {(pair.ranks[1], pair.ranks[0]): pair for pair in table.pairs}
    return found


def ranks_of(table: PairTable) -> list[int]:
    """All ranks that are in a pair, ascending."""
    return sorted({rank for pair in table.pairs for rank in pair.ranks})


def _matrix(table: PairTable, placement: Placement | None) -> list[str]:
    ranks, known = ranks_of(table), cells(table)
    numbers = len(ranks) <= MOST_NUMBERS
    title = f"{what(table)}, {human_size(table.size_bytes)}, {table.dtype}"
    title += ": the row sends, the column receives" if table.one_way else ""
    if not numbers:
        title += f"; median {three_digits(table.median)}, times slower: - 1.1 + 1.33 # 2"
    lines = [title]
    grid = [[_cell(known.get((a, b)), table.slowest, numbers) for b in ranks] for a in ranks]
    # 8 B over gloo are millionths of a GB/s: their digits need room, and ten ranks fit with 8 columns
    width = max(8, 1 + max(len(cell) for cells in grid for cell in cells)) if numbers else 1
    if numbers:
        lines.append("  rank " + "".join(f"{r:>{width}}" for r in ranks))
    for row, body in zip(ranks, grid, strict=True):
        host = f"  {_host(row, placement)}" if placement else ""
        text = "".join(f"{cell:>{width}}" for cell in body)
        lines.append(f"  {row:>4} {'' if numbers else ' '}{text}{host}")
    return lines


def _cell(pair: PairValue | None, slowest: PairValue, numbers: bool) -> str:
    if not numbers:
        return " " if pair is None else next(g for least, g in _GLYPHS if pair.slowdown >= least)
    if pair is None:
        return NOT_KNOWN
    mark = "*" if pair is slowest else ""
    return mark + three_digits(pair.value)
