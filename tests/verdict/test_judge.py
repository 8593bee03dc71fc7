"""One point against its interval; how many misses are more than chance."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.findings import Verdict
from clusterlab.verdict.judge import judge_row, too_many_outside
from tests.records.fake_runs import fake_rows, points, renamed

ROW = renamed(
    fake_rows(points(["all_reduce"]))[0],
    time_us_loop=100.0,
    predicted_time_us=100.0,
    predicted_low_us=90.0,
    predicted_high_us=120.0,
    wrong=0,
)


@pytest.mark.parametrize(
    ("changes", "verdict", "reason"),
    [
        ({}, Verdict.PASS, "100 µs, expected 90 to 120 µs"),
        ({"time_us_loop": 90.0}, Verdict.PASS, "90"),
        ({"time_us_loop": 120.0}, Verdict.PASS, "120"),
        ({"time_us_loop": 120.1}, Verdict.SLOW, "120.1 µs, expected"),
        ({"time_us_loop": 89.9}, Verdict.FAST_UNEXPECTED, "89.9 µs"),
        ({"wrong": 3}, Verdict.INVALID, "3 wrong elements"),
        ({"wrong": 3, "predicted_time_us": None}, Verdict.INVALID, "3 wrong"),
        ({"wrong": None}, Verdict.PASS, "100"),
        ({"predicted_time_us": None}, Verdict.NO_VERDICT, "no prediction"),
        ({"predicted_low_us": None}, Verdict.NO_VERDICT, "no interval"),
        ({"predicted_high_us": None}, Verdict.NO_VERDICT, "no interval"),
    ],
)
def test_a_point_is_judged_by_its_own_interval(
    changes: dict[str, Any], verdict: Verdict, reason: str
) -> None:
    judged = judge_row(renamed(ROW, **changes))
    assert judged.verdict == verdict
    assert reason in judged.reason


def test_one_miss_accuses_only_an_interval_that_claims_to_hold_always() -> None:
    assert too_many_outside(1, [0.0] * 100, 0.01)
    assert not too_many_outside(1, [0.1] * 100, 0.01)
    assert not too_many_outside(0, [0.0] * 100, 0.01)


@pytest.mark.parametrize(
    ("outside", "of", "share", "accused"),
    # Binomial tails: P(X >= 9 | 16, 0.1) = 3e-6, P(X >= 5 | 16, 0.1) = 0.017, P(X >= 6) = 0.0033
    [(9, 16, 0.1, True), (5, 16, 0.1, False), (6, 16, 0.1, True), (16, 16, 0.5, True)],
)
def test_misses_accuse_when_chance_does_not_explain_them(
    outside: int, of: int, share: float, accused: bool
) -> None:
    assert too_many_outside(outside, [share] * of, 0.01) is accused


@given(
    shares=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=200),
    significance=st.floats(1e-6, 0.5),
)
def test_more_misses_never_excuse(shares: list[float], significance: float) -> None:
    accused = [too_many_outside(k, shares, significance) for k in range(len(shares) + 1)]
    assert accused == sorted(accused)


def test_right_predictions_are_accused_no_more_often_than_the_significance_says() -> None:
    rng = random.Random(7)
    runs = 4000
    alarms = sum(
        too_many_outside(sum(rng.random() < 0.1 for _ in range(24)), [0.1] * 24, 0.01)
        for _ in range(runs)
    )
    assert alarms / runs <= 0.01 + 3 * (0.01 / runs) ** 0.5


@pytest.mark.parametrize("time_us", [0.0, -1.0, float("nan"), float("inf")])
def test_a_point_without_a_time_has_no_verdict(time_us: float) -> None:
    judged = judge_row(renamed(ROW, time_us_loop=time_us))
    assert (judged.verdict, judged.reason) == (Verdict.NO_VERDICT, "no time was measured")
