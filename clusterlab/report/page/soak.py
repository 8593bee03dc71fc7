"""A soak on the page: a chart of each point's passes, and what they say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clusterlab.core.soaking import SoakPass
from clusterlab.report.console.soak import soak_lines
from clusterlab.report.numbers import NOT_KNOWN, three_digits
from clusterlab.report.series import series_chart
from clusterlab.report.text import plain
from clusterlab.verdict.soak import Soaked

MOST_CHARTS = 24
MOST_LINES = 60
"""Passes with a line in a point's table; of more the first and the last. soak.jsonl has all."""

PASS_HEADS = (
    "Pass",
    "Seconds",
    "Median µs",
    "Least",
    "Most",
    "Clock MHz",
    "°C",
    "Held back",
    "Wrong",
)


@dataclass(frozen=True, slots=True)
class SoakView:
    """One point: sentences, a chart of its medians, its passes."""

    name: str
    said: tuple[str, ...]
    chart: str | None
    rows: tuple[tuple[str, ...], ...]
    left_out: str


def soak_views(points: Sequence[Soaked], passes: Sequence[SoakPass]) -> tuple[SoakView, ...]:
    """A view of each of ``points``; ``passes`` are all points'."""
    series: dict[tuple[object, ...], list[SoakPass]] = {}
    for one in passes:
        series.setdefault(one.key, []).append(one)
    both = zip(points, series.values(), strict=False)
    return tuple(_view(point, own, i) for i, (point, own) in enumerate(both))


def _view(point: Soaked, own: Sequence[SoakPass], number: int) -> SoakView:
    own = sorted(own, key=lambda one: one.elapsed_s)
    listed = list(own)
    if len(own) > MOST_LINES:
        listed = [*own[: MOST_LINES // 2], *own[-MOST_LINES // 2 :]]
    left = len(own) - len(listed)
    chart = None
    if number < MOST_CHARTS:
        chart = series_chart(
            [(one.elapsed_s, one.time_us_p50) for one in own],
            name=f"soak{number}",
            label=f"Median time of each of {len(own)} passes, {point.name}",
            across="seconds since the start",
            up="µs",
            reference=("median", point.drift.median_us),
        )
    return SoakView(
        plain(point.name),
        tuple(plain(line.strip()) for line in soak_lines([point]) if line.strip()),
        chart,
        tuple(_line(one) for one in listed),
        f"{left} passes between are not listed; soak.jsonl has all." if left else "",
    )


def _line(one: SoakPass) -> tuple[str, ...]:
    return (
        str(one.number),
        f"{one.elapsed_s:.1f}",
        three_digits(one.time_us_p50),
        three_digits(one.time_us_min),
        three_digits(one.time_us_max),
        three_digits(one.gpu_clock_mhz),
        three_digits(one.gpu_temp_c),
        plain(one.throttled or NOT_KNOWN),
        "not checked" if one.wrong is None else str(one.wrong),
    )
