"""Curves of many sizes in little room: sizes that lie close together as one band, and who stands outside."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from clusterlab.core.findings import Verdict
from clusterlab.core.rows import Row
from clusterlab.core.sizes import human_size
from clusterlab.report.curves import Curve, Halves
from clusterlab.report.page.verdict_marks import tally

MOST_SIZES = 64
"""Sizes of a curve that a chart marks and a table lists one by one; of more, bands."""

MOST_OUTSIDE = 12
"""Points outside their intervals that a banded curve names one by one, the furthest first."""


@dataclass(frozen=True, slots=True)
class SizeBand:
    """Neighbouring sizes of a curve. ``middle`` is the size whose busbw is the median of theirs; ``low`` and
    ``high`` are the least and the most busbw in GB/s of all their rows.
    """

    sizes: tuple[Halves, ...]
    middle: Halves
    low: float
    high: float

    @property
    def label(self) -> str:
        """``1 KiB to 1.9 KiB``."""
        first, last = self.sizes[0].first.size_bytes, self.sizes[-1].first.size_bytes
        return human_size(first) if first == last else f"{human_size(first)} to {human_size(last)}"

    @property
    def rows(self) -> tuple[Row, ...]:
        """All rows of it."""
        return tuple(row for halves in self.sizes for row in halves.rows)

    def counts(self) -> dict[Verdict, int]:
        """How many of its rows got which verdict."""
        return tally(one.verdict for halves in self.sizes for one in halves.judgements)


@dataclass(frozen=True, slots=True)
class Banded:
    """A curve of many sizes: its bands, and of ``many`` rows that stand outside their intervals those
    that are named, wrong ones first, then the furthest.
    """

    bands: tuple[SizeBand, ...]
    outside: tuple[Row, ...]
    many: int


def banded(curve: Curve, most: int = MOST_SIZES) -> Banded | None:
    """``curve`` in at most ``most`` bands; None where each of its sizes has room."""
    if len(curve.sizes) <= most:
        return None
    return Banded(bands(curve, most), *outside(curve))


def bands(curve: Curve, most: int = MOST_SIZES) -> tuple[SizeBand, ...]:
    """The sizes of ``curve`` in at most ``most`` bands of equal width on a logarithmic axis."""
    sizes = [max(1, halves.first.size_bytes) for halves in curve.sizes]
    low, high = math.log(sizes[0]), math.log(sizes[-1])
    width = (high - low) / most or 1.0
    found: dict[int, list[Halves]] = {}
    for size, halves in zip(sizes, curve.sizes, strict=True):
        found.setdefault(min(most - 1, int((math.log(size) - low) / width)), []).append(halves)
    return tuple(_band(some) for _, some in sorted(found.items()))


def _band(some: Sequence[Halves]) -> SizeBand:
    # median_low: one that was measured; not a number sorts nowhere
    known = [h for h in some if math.isfinite(h.first.busbw_GBps)] or list(some)
    median = statistics.median_low(h.first.busbw_GBps for h in known)
    middle = next((h for h in known if h.first.busbw_GBps == median), known[0])
    rates = [r.busbw_GBps for h in some for r in h.rows if math.isfinite(r.busbw_GBps)]
    return SizeBand(tuple(some), middle, min(rates, default=0.0), max(rates, default=0.0))


def outside(curve: Curve, most: int = MOST_OUTSIDE) -> tuple[tuple[Row, ...], int]:
    """Rows that are slow, fast or wrong, wrong ones first, then the furthest from their prediction; and how
    many there are in all.
    """
    found = [
        (judged.verdict != Verdict.INVALID, -_distance(row), row)
        for halves in curve.sizes
        for row, judged in zip(halves.rows, halves.judgements, strict=True)
        if judged.verdict in (Verdict.INVALID, Verdict.SLOW, Verdict.FAST_UNEXPECTED)
    ]
    found.sort(key=lambda one: one[:2])
    return tuple(row for _, _, row in found[:most]), len(found)


def _distance(row: Row) -> float:
    if row.ratio is None or not 0 < row.ratio < math.inf:
        return 0.0
    return abs(math.log(row.ratio))
