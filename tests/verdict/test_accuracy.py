"""Recorded predictions against what was measured then."""

from __future__ import annotations

import random
from dataclasses import replace
from statistics import fmean

import pytest

from clusterlab.verdict.accuracy import accuracy
from tests.records.fake_runs import fake_rows, points


def test_figures_are_those_of_the_rows() -> None:
    rows = fake_rows(points(["all_reduce"]), noise=0.2)
    first, *bands = accuracy(rows)
    errors = sorted(100 * abs((row.predicted_time_us or 0) / row.time_us_loop - 1) for row in rows)
    assert first.group == "all points" and first.points == len(rows) == sum(b.points for b in bands)
    assert first.mape_pct == pytest.approx(fmean(errors))
    assert errors[7] <= first.median_pct <= errors[8] and errors[13] <= first.p90_pct <= errors[15]
    inside = [
        (row.predicted_low_us or 0) <= row.time_us_loop <= (row.predicted_high_us or 0)
        for row in rows
    ]
    assert first.in_interval_pct == pytest.approx(100 * fmean(inside))
    assert first.nominal_pct == pytest.approx(90)


def test_what_was_not_kept_is_not_known() -> None:
    assert accuracy(fake_rows(points(["all_reduce"]), predicted=False)) == ()
    found = accuracy(fake_rows(points(["all_reduce"]), interval=False))[0]
    assert found.with_interval == 0 and found.in_interval_pct is found.nominal_pct is None
    assert found.library_points == 0 and found.library_mape_pct is None


def test_timings_and_collectives_have_lines_where_there_are_several() -> None:
    rows = fake_rows(points(["all_reduce", "broadcast"]))
    rows += [replace(row, timing="graph", library_time_us=1.5 * row.time_us_loop) for row in rows]
    random.Random(1).shuffle(rows)
    found = {one.group: one for one in accuracy(rows)}
    assert found["timing graph"].points == found["timing eager"].points == len(rows) // 2
    assert found["all_reduce"].points == found["broadcast"].points == len(rows) // 2
    assert found["timing graph"].library_mape_pct == pytest.approx(50)
    assert found["timing eager"].library_mape_pct is None


def test_what_ran_beside_something_is_left_out() -> None:
    rows = fake_rows(points(["all_reduce"]))
    busy = [replace(row, beside="compute", time_us_loop=2 * row.time_us_loop) for row in rows]
    assert accuracy([*rows, *busy]) == accuracy(rows)


@pytest.mark.parametrize("time", [0.0, float("inf"), float("nan")])
def test_a_time_that_is_none_is_left_out(time: float) -> None:
    rows = fake_rows(points(["all_reduce"]))
    rows[0] = replace(rows[0], time_us_loop=time)
    assert accuracy(rows)[0].points == len(rows) - 1
