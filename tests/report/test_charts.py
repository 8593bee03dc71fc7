"""The chart of a curve: valid XML that holds every point and tells its lines apart without colour."""

from __future__ import annotations

import itertools
import re

from defusedxml import ElementTree

from clusterlab.core.rows import Row
from clusterlab.core.sizes import human_size
from clusterlab.report.curves import Curve, curves
from clusterlab.report.numbers import three_digits
from clusterlab.report.page.charts import busbw_at, curve_chart
from tests.records.fake_runs import fake_rows, points, renamed

ROWS = fake_rows(points(["all_reduce"]))


def one_curve(rows: list[Row]) -> Curve:
    (curve,) = curves(rows)
    return curve


def chart(rows: list[Row]) -> str:
    svg = curve_chart(one_curve(rows), "c")
    assert svg is not None
    ElementTree.fromstring(svg)
    return svg


def coordinates(svg: str, kind: str) -> list[tuple[float, float]]:
    """Corners of the first line of ``kind``."""
    path = svg.split(f'class="line {kind}"')[1].split('d="M')[1].split('"', maxsplit=1)[0]
    return [tuple(map(float, pair.split())) for pair in path.split("L")]  # type: ignore[misc]


def test_every_measured_point_is_marked_and_says_its_figures() -> None:
    svg = chart(ROWS)
    titles = [t.text or "" for t in ElementTree.fromstring(svg).iter("title")]
    assert len(titles) == 1 + len(ROWS)  # the chart's own, and each point's
    for row in ROWS:
        place = " in place" if row.in_place else ""
        said = f"{human_size(row.size_bytes)}{place}: {three_digits(row.busbw_GBps)} GB/s"
        assert any(title.startswith(said) for title in titles)


def test_more_bandwidth_is_higher_and_larger_sizes_are_further_right() -> None:
    measured = coordinates(chart(ROWS), "measured")
    rows = [r for r in ROWS if not r.in_place]
    assert len(measured) == len(rows)
    by_x = [y for _, y in sorted(measured)]
    by_size = [r.busbw_GBps for r in sorted(rows, key=lambda r: r.size_bytes)]
    order = sorted(range(len(rows)), key=lambda i: by_size[i])
    assert order == sorted(range(len(rows)), key=lambda i: -by_x[i])


def test_no_line_lies_above_the_bound() -> None:
    svg = chart(ROWS)
    bound = coordinates(svg, "bound")
    for kind in ("measured", "predicted", "in-place"):
        assert all(
            y >= limit for (_, y), (_, limit) in zip(coordinates(svg, kind), bound, strict=True)
        )


def test_slow_fast_and_wrong_points_have_their_own_shapes() -> None:
    rows = list(ROWS)
    rows[0] = renamed(rows[0], time_us_loop=1e5)
    rows[2] = renamed(rows[2], time_us_loop=1e-3)
    rows[4] = renamed(rows[4], wrong=1)
    svg = chart(rows)
    for shape in ("down", "up", "cross", "dot", "ring"):
        assert f'class="{shape}"' in svg


def test_without_predictions_there_is_one_panel_and_no_empty_line() -> None:
    svg = chart(fake_rows(points(["all_reduce"]), predicted=False))
    assert "measured / predicted" not in svg
    assert "line predicted" not in svg
    assert "line bound" not in svg
    assert "measured / predicted" in chart(ROWS)


def test_what_the_library_expected_is_a_line_of_its_own_and_lines_are_named_at_their_ends() -> None:
    rows = [renamed(row, library_time_us=row.time_us_loop / 2) for row in ROWS]
    svg = chart(rows)
    assert 'class="line library"' in svg
    assert 'class="diamond"' in svg
    ends = re.findall(r'y="([\d.]+)" dy="[^"]*" class="end [\w-]+">(\w+)<', svg)
    assert {name for _, name in ends} == {"bound", "library", "predicted", "measured"}
    heights = sorted(float(y) for y, _ in ends)
    assert all(b - a >= 14 for a, b in itertools.pairwise(heights))


def test_of_many_sizes_bands_are_drawn_and_what_stands_outside_keeps_its_mark() -> None:
    rows = fake_rows(points(["all_reduce"], sizes=range(1024, 1024 * 1001, 1024)))
    rows[600] = renamed(rows[600], wrong=3)
    svg = chart(rows)
    assert len(svg) < 40_000
    assert svg.count('class="cross"') == 2  # once in each panel
    assert 'class="dot"' not in svg


def test_one_size_has_no_chart_and_one_rank_has_one() -> None:
    assert curve_chart(one_curve(ROWS[:2]), "c") is None
    alone = fake_rows(points(["all_reduce"], world_size=1))  # factor 2(n-1)/n: busbw is 0
    assert {row.busbw_GBps for row in alone} == {0.0}
    chart(alone)


def test_the_text_alternative_says_what_the_curve_does() -> None:
    svg = ElementTree.fromstring(chart(ROWS))
    assert svg.get("role") == "img"
    named = {part.get("id"): part.text or "" for part in svg.iter() if part.get("id")}
    label = named[svg.get("aria-labelledby")]
    assert "dashed" in named[svg.get("aria-describedby")]
    assert label.startswith("Bus bandwidth by size, all_reduce float32 sum, 4 ranks, gloo: from ")
    assert "at 1 KiB" in label
    assert "of predicted" in label


def test_hostile_names_are_escaped() -> None:
    evil = '"><script>alert(1)</script>'
    svg = chart([renamed(row, backend=evil) for row in ROWS])
    assert "<script" not in svg


def test_bandwidth_at_another_time_keeps_the_factor() -> None:
    row = ROWS[0]
    assert busbw_at(row, row.time_us_loop) == row.busbw_GBps
    assert busbw_at(row, row.time_us_loop / 2) == 2 * row.busbw_GBps


def test_curves_keep_dtype_operator_and_root_apart_and_pair_the_halves() -> None:
    rows = fake_rows(points(["all_reduce"], dtypes=["float32", "int8"], ops=["sum", "max"]))
    found = curves(rows)
    assert [c.variant for c in found] == [
        "float32 sum",
        "float32 max",
        "int8 sum",
        "int8 max",
    ]
    assert all(h.out_of_place and h.in_place for c in found for h in c.sizes)
    assert [r for c in found for r in c.rows] == rows
