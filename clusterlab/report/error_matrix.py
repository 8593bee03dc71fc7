"""Residuals by size: how far predictions lie from measurements, sizes down, collectives across."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from clusterlab.core.rows import Row
from clusterlab.core.sizes import human_size
from clusterlab.report.numbers import NOT_KNOWN, percent
from clusterlab.verdict.run_verdict import signed_error

_MOST_ROWS = 40

_SHADES = (0.05, 0.1, 0.2, 0.5)
"""Absolute errors from which a cell gets its first, second, … shade."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A median signed error, and its shade: ``over-2`` (predicted too long), ``under-3``, or empty."""

    text: str
    shade: str


@dataclass(frozen=True, slots=True)
class ErrorMatrix:
    """``rows``: a size label and one cell per collective. ``grouped``: sizes are powers-of-two bands."""

    collectives: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    grouped: bool


def error_matrix(rows: Iterable[Row]) -> ErrorMatrix | None:
    """Median signed errors of all points of all ranks with a prediction; None when there is none."""
    whole = (row for row in rows if row.ranks is None and row.beside is None)
    errors = [(row, e) for row in whole if (e := signed_error(row)) is not None]
    if not errors:
        return None
    several = len({row.timing for row, _ in errors}) > 1
    ways = {(row.collective, row.timing): _name(row, several) for row, _ in errors}
    names = tuple(dict.fromkeys(ways.values()))
    grouped = len({row.requested_bytes for row, _ in errors}) > _MOST_ROWS
    cells: dict[int, dict[str, list[float]]] = {}
    for row, error in errors:
        size = row.requested_bytes
        key = 1 << (max(1, size).bit_length() - 1) if grouped else size
        name = ways[row.collective, row.timing]
        cells.setdefault(key, {}).setdefault(name, []).append(error)
    table = tuple(
        (human_size(size), tuple(_cell(cells[size].get(name)) for name in names))
        for size in sorted(cells)
    )
    return ErrorMatrix(names, table, grouped)


def _name(row: Row, with_timing: bool) -> str:
    return f"{row.collective} {row.timing}" if with_timing else row.collective


def _cell(errors: list[float] | None) -> Cell:
    if not errors:
        return Cell(NOT_KNOWN, "")
    error = statistics.median(errors)
    level = sum(abs(error) >= limit for limit in _SHADES)
    side = "over" if error > 0 else "under"
    return Cell(percent(error, signed=True), f"{side}-{level}" if level else "")
