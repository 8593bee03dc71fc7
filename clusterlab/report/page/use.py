"""Bottleneck and utilisation: what limits each curve at which sizes, and how much of it was used."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from clusterlab.core.rows import Row
from clusterlab.core.sizes import human_size
from clusterlab.report.curves import Curve
from clusterlab.report.numbers import NOT_KNOWN, percent, three_digits
from clusterlab.report.text import plain

USE_HEADS = (
    *("Curve", "Limited by", "Sizes", "Algorithm", "Best busbw, GB/s", "Bound there"),
    *("Of the bound", "Of the prediction"),
)

MOST_LINES = 80


def use_rows(curves: Sequence[Curve]) -> tuple[tuple[tuple[str, ...], ...], int]:
    """A line for each stretch of sizes that one resource limits, and how many are left out."""
    lines = [line for curve in curves for line in _of_curve(curve)]
    return tuple(lines[:MOST_LINES]), max(0, len(lines) - MOST_LINES)


def _of_curve(curve: Curve) -> list[tuple[str, ...]]:
    firsts = [halves.first for halves in curve.sizes]
    known = [row for row in firsts if row.bottleneck]
    groups = [list(group) for _, group in itertools.groupby(known, key=lambda row: row.bottleneck)]
    return [_line(curve, group) for group in groups]


def _line(curve: Curve, rows: Sequence[Row]) -> tuple[str, ...]:
    best = max(rows, key=lambda row: row.busbw_GBps if math.isfinite(row.busbw_GBps) else 0.0)
    low, high = human_size(rows[0].size_bytes), human_size(rows[-1].size_bytes)
    ways = dict.fromkeys(" ".join(w for w in (r.algorithm, r.protocol) if w) for r in rows)
    words = [way for way in ways if way]
    return (
        curve.title,
        plain(rows[0].bottleneck or NOT_KNOWN),
        low if low == high else f"{low} to {high}",
        plain(", ".join(words[:3])) or NOT_KNOWN,
        f"{three_digits(best.busbw_GBps)} at {human_size(best.size_bytes)}",
        three_digits(best.bound_busbw_GBps),
        percent(best.busbw_GBps / best.bound_busbw_GBps if best.bound_busbw_GBps else None),
        percent(best.ratio),
    )
