"""Bands of sizes as cells of a table, and the points outside them as lines."""

from __future__ import annotations

import math
import statistics

from clusterlab.core.rows import Row
from clusterlab.core.sizes import human_size
from clusterlab.report.numbers import ratio, three_digits
from clusterlab.report.page.bands import SizeBand
from clusterlab.report.page.verdict_marks import Mark, mark_of
from clusterlab.report.text import plain
from clusterlab.verdict.judge import judge_row

BAND_HEADS = (
    *("Sizes", "Worst verdict", "Points", "Pass", "Slow", "Fast", "No verdict", "Invalid"),
    *("Time µs, median", "Busbw, least", "Busbw, median", "Busbw, most", "Predicted"),
    *("Ratio, least", "Ratio, median"),
)

_WORST_FIRST = ("invalid", "slow", "fast_unexpected", "no_verdict", "pass")


def worst_mark(band: SizeBand) -> Mark:
    """Of the gravest verdict of its sizes."""
    judged = (halves.judged.verdict for halves in band.sizes)
    return mark_of(min(judged, key=_WORST_FIRST.index))


def band_cells(band: SizeBand) -> tuple[str, ...]:
    """One band, in the order of BAND_HEADS but for its verdict."""
    rows = band.rows
    ratios = [row.ratio for row in rows if row.ratio is not None and math.isfinite(row.ratio)]
    middle = band.middle.first
    return (
        band.label,
        str(len(rows)),
        *map(str, band.counts().values()),
        three_digits(middle.time_us_loop),
        three_digits(band.low),
        three_digits(middle.busbw_GBps),
        three_digits(band.high),
        three_digits(middle.predicted_busbw_GBps),
        ratio(min(ratios, default=None)),
        ratio(statistics.median(ratios) if ratios else None),
    )


def outside_words(row: Row) -> str:
    """A point that stands outside, in a line."""
    judged = judge_row(row)
    where = " in place" if row.in_place else ""
    return plain(
        f"{human_size(row.size_bytes)}{where}: {judged.verdict.value.replace('_', ' ')}, "
        f"{judged.reason}; {three_digits(row.busbw_GBps)} GB/s, ratio {ratio(row.ratio)}"
    )
