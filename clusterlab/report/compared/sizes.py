"""Ratios of single sizes on the page of a comparison: by collective, a chart and the table behind it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from clusterlab.core.sizes import human_size
from clusterlab.report.compared.charts import SizeRatio, sizes_chart
from clusterlab.report.numbers import three_digits
from clusterlab.report.page.verdict_marks import Mark
from clusterlab.report.text import plain
from clusterlab.verdict.against.changes import Change
from clusterlab.verdict.against.comparison import Comparison
from clusterlab.verdict.against.noise import Noise, band
from clusterlab.verdict.against.pairing import Pair
from clusterlab.verdict.against.to_json import ratio_interval

MOST_CHARTS = 40
MOST_ROWS = 120
"""Of one table; of more points those that changed most, and it says so. All are in the data of the page."""

POINT_HEADS = ("Size", "What", "A µs", "B µs", "Time B / A", "95 %")
_SLOWER, _FASTER, _SAME = (
    Mark("slow", "▼", "slower"),
    Mark("fast_unexpected", "▲", "faster"),
    Mark("pass", "●", "no change shown"),
)


@dataclass(frozen=True, slots=True)
class SeriesView:
    """Points that differ in size only. ``left``: how many more there are than rows."""

    title: str
    chart: str | None
    rows: tuple[tuple[tuple[str, ...], Mark], ...]
    left: int
    marks: tuple[tuple[Mark, int], ...]


@dataclass(frozen=True, slots=True)
class CollectiveView:
    """One collective: its series."""

    anchor: str
    name: str
    series: tuple[SeriesView, ...]


def collective_views(
    found: Comparison, changes: Sequence[Change], anchor: str
) -> tuple[CollectiveView, ...]:
    """Every collective that both sides have, in the order of ``changes`` (the worst first)."""
    by_name: dict[str, list[Pair]] = {c.collective: [] for c in changes if c.collective}
    for pair in found.pairs:
        by_name.setdefault(pair.first.collective, []).append(pair)
    by_name = {name: own for name, own in by_name.items() if own}
    share = max(1, MOST_CHARTS // max(1, len(by_name)))
    return tuple(
        CollectiveView(
            f"{anchor}-c{i}", plain(name), _series(own, found.noise or {}, f"{anchor}-c{i}", share)
        )
        for i, (name, own) in enumerate(by_name.items())
    )


def _series(
    pairs: Sequence[Pair], noise: Mapping[str, Noise], anchor: str, charts: int
) -> tuple[SeriesView, ...]:
    by_kind: dict[tuple[object, ...], list[Pair]] = {}
    for pair in pairs:
        by_kind.setdefault(_kind(pair), []).append(pair)
    slower = {kind: -_slower(own, noise) for kind, own in by_kind.items()}
    return tuple(
        _view(by_kind[kind], noise, f"{anchor}-{i}", with_chart=i < charts)
        for i, kind in enumerate(sorted(by_kind, key=slower.__getitem__))
    )


def _slower(pairs: Sequence[Pair], noise: Mapping[str, Noise]) -> int:
    return sum(_ratio(pair, noise).mark == "down" for pair in pairs)


def _kind(pair: Pair) -> tuple[object, ...]:
    """What must be alike for two points to stand on one line; groups of ranks share a table."""
    p = pair.first
    return (
        p.dtype,
        p.op,
        p.root,
        p.in_place,
        p.timing,
        p.ranks is None,
        p.beside,
        p.uneven,
        p.aggregated,
    )


def _title(pair: Pair) -> str:
    p = pair.first
    words = [p.dtype, p.op, "in place" if p.in_place else "out of place", p.timing]
    words += ["of some ranks"] if p.ranks is not None else []
    words += [f"beside {p.beside}"] if p.beside else []
    words += [f"parts {p.uneven}"] if p.uneven else []
    words += [f"{p.aggregated} calls at once"] if p.aggregated > 1 else []
    return plain(", ".join(str(word) for word in words if word))


def _view(
    pairs: Sequence[Pair], noise: Mapping[str, Noise], name: str, *, with_chart: bool
) -> SeriesView:
    measured = [(pair, _ratio(pair, noise)) for pair in pairs]
    title = _title(pairs[0])
    chart = None
    if with_chart and pairs[0].first.ranks is None:
        label = (
            f"Time of B over time of A by size, {pairs[0].first.collective} {title}: {len(pairs)} sizes. "
            "The figures are in the table below."
        )
        chart = sizes_chart([ratio for _, ratio in measured], name=name, label=label)
    kept = sorted(measured, key=lambda one: -abs(math.log(one[1].ratio)))[:MOST_ROWS]
    kept.sort(key=lambda one: one[1].size_bytes)
    return SeriesView(
        title=title,
        chart=chart,
        rows=tuple((_cells(pair, ratio), _mark(ratio)) for pair, ratio in kept),
        left=len(measured) - len(kept),
        marks=_counted(_mark(ratio) for _, ratio in measured),
    )


def _ratio(pair: Pair, noise: Mapping[str, Noise]) -> SizeRatio:
    ratio, low, high = ratio_interval(pair, noise[band(pair.first.size_bytes)])
    return SizeRatio(pair.first.size_bytes, ratio, low, high)


def _mark(ratio: SizeRatio) -> Mark:
    return {"down": _SLOWER, "up": _FASTER}.get(ratio.mark, _SAME)


def _counted(marks: Iterable[Mark]) -> tuple[tuple[Mark, int], ...]:
    found = list(marks)
    return tuple((mark, n) for mark in (_SLOWER, _FASTER) if (n := found.count(mark)))


def _cells(pair: Pair, ratio: SizeRatio) -> tuple[str, ...]:
    ranks = pair.first.ranks
    where = "" if ranks is None else f", ranks {','.join(map(str, ranks[:8]))}"
    more = ", …" if ranks is not None and len(ranks) > 8 else ""
    return (
        f"{human_size(pair.first.size_bytes)}{where}{more}",
        three_digits(pair.first_us),
        three_digits(pair.second_us),
        f"{ratio.ratio:.3f}",
        f"{ratio.low:.3f} to {ratio.high:.3f}",
    )
