"""Collectives with something beside them, as lines at most 100 columns wide."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from clusterlab.core.overlap import COMPUTE, Figure, Overlap
from clusterlab.core.sizes import human_size
from clusterlab.report.numbers import three_digits

HEADS = (
    "both at once",
    "size",
    "alone us",
    "other us",
    "both us",
    "x",
    "x oth",
    "efficiency",
    "exposed us",
)
_WIDTHS = (27, 7, 7, 7, 7, 5, 5, 17, 10)
_LEFT = {0}

LEGEND = (
    "# x: slowdown, the time beside over the time alone, and the other's. efficiency: (alone + other - both)",
    "# over the shorter, with 95 % interval: 1 hidden wholly, 0 not at all. exposed: both - other alone.",
)


def overlap_cells(overlap: Overlap) -> tuple[str, ...]:
    """One overlap as text, in the order of HEADS."""
    return (
        f"{overlap.collective} + {overlap.beside}",
        human_size(overlap.size_bytes),
        three_digits(overlap.alone_us.value),
        three_digits(overlap.other_alone_us.value),
        three_digits(overlap.both_us.value),
        f"{overlap.slowdown.value:.2f}",
        f"{overlap.other_slowdown.value:.2f}",
        _with_interval(overlap.efficiency),
        three_digits(overlap.exposed_us.value),
    )


def _with_interval(figure: Figure) -> str:
    return f"{figure.value:.2f} ({figure.low:.2f},{figure.high:.2f})"


def overlap_line(overlap: Overlap) -> str:
    """One line of the table."""
    wrong = (overlap.wrong or 0) + (overlap.other_wrong or 0)
    return _line(overlap_cells(overlap)) + (f"  {wrong} WRONG" if wrong else "")


def _line(cells: Iterable[str]) -> str:
    padded = (
        cell.ljust(width) if i in _LEFT else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(cells, _WIDTHS, strict=True))
    )
    return " ".join(padded).rstrip()


def overlap_table(overlaps: Iterable[Overlap]) -> list[str]:
    """Legend, heads and a line each."""
    return [*LEGEND, _line(HEADS), *map(overlap_line, overlaps)]


def overlap_notes(overlaps: Iterable[Overlap]) -> list[str]:
    """What the compute was, once for each kind."""
    kinds = {o.compute.split(" x ")[-1] for o in overlaps if o.beside == COMPUTE and o.compute}
    notes = [f"compute: {', '.join(sorted(kinds))}, as many as take the collective's time"]
    return notes if kinds else []


def overlaps_to_json(overlaps: Iterable[Overlap]) -> list[dict[str, Any]]:
    """Plain data."""
    return [asdict(overlap) for overlap in overlaps]
