"""Summaries by collective and the verdict of a run."""

from __future__ import annotations

import json
import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.findings import Verdict
from clusterlab.core.rows import Row
from clusterlab.verdict.run_verdict import judge_run, quantile, signed_error
from clusterlab.verdict.run_verdict_json import run_verdict_to_json
from tests.records.fake_runs import fake_row, fake_rows, points, renamed


def rows_with_errors(errors: list[float], **changes: object) -> list[Row]:
    """Rows whose prediction is off by ``errors``, every one inside its interval."""
    rows = fake_rows(points(["all_reduce"], [1024 * (i + 1) for i in range(len(errors))]))[::2]
    return [
        renamed(
            row,
            time_us_loop=100.0,
            predicted_time_us=100.0 * (1 + error),
            predicted_low_us=1.0,
            predicted_high_us=1e6,
            **changes,
        )
        for row, error in zip(rows, errors, strict=True)
    ]


def test_errors_are_relative_times_and_their_sign_is_the_model_s_pessimism() -> None:
    (summary,) = judge_run(rows_with_errors([0.1, -0.2, 0.3, -0.4, 0.05])).summaries
    assert summary.median_error == pytest.approx(0.2)
    assert summary.p90_error == pytest.approx(0.4)
    assert summary.bias == pytest.approx(0.05)
    assert summary.worst is not None
    assert summary.worst.error == pytest.approx(-0.4)
    assert (summary.points, summary.predicted, summary.wrong) == (5, 5, 0)


@given(st.lists(st.floats(-0.99, 10), min_size=1, max_size=50))
def test_summaries_agree_with_their_definitions(errors: list[float]) -> None:
    rows = rows_with_errors(errors)
    (summary,) = judge_run(rows).summaries
    sizes = [abs(e) for row in rows if (e := signed_error(row)) is not None]
    assert summary.median_error == statistics.median(sizes)
    assert summary.p90_error is not None
    assert sum(s <= summary.p90_error for s in sizes) >= 0.9 * len(sizes)
    assert summary.p90_error in sizes


def test_a_quantile_is_the_nearest_rank() -> None:
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert quantile(list(range(1, 11)), 0.9) == 9
    assert quantile([5.0], 0.9) == 5.0


def test_a_healthy_run_passes_with_the_misses_its_intervals_allow() -> None:
    run = judge_run(fake_rows(points()))
    assert run.judged.verdict == Verdict.PASS
    outside = run.counts[Verdict.SLOW] + run.counts[Verdict.FAST_UNEXPECTED]
    assert outside > 0
    assert "no fewer than such intervals promise" in run.judged.reason


def test_a_slow_collective_makes_the_run_slow_and_is_named() -> None:
    rng = random.Random(1)
    rows = fake_rows(points(["all_reduce", "broadcast", "reduce"]))
    rows += [fake_row(p, rng, slow=1.5) for p in points(["all_to_all"])]
    run = judge_run(rows)
    assert run.judged.verdict == Verdict.SLOW
    assert run.judged.reason.startswith("all_to_all: 16 of 16 points slower")
    verdicts = {s.collective: s.judged.verdict for s in run.summaries}
    assert verdicts["all_reduce"] == Verdict.PASS


def test_a_run_faster_than_predicted_is_not_waved_through() -> None:
    rng = random.Random(1)
    rows = [fake_row(p, rng, slow=0.5) for p in points(["all_reduce"])]
    assert judge_run(rows).judged.verdict == Verdict.FAST_UNEXPECTED


def test_wrong_data_outranks_speed_and_both_are_named() -> None:
    rng = random.Random(1)
    rows = fake_rows(points(["all_reduce"]))
    rows[3] = renamed(rows[3], wrong=2)
    rows += [fake_row(p, rng, slow=2.0) for p in points(["reduce"])]
    run = judge_run(rows)
    assert run.judged.verdict == Verdict.INVALID
    assert run.wrong == 2
    assert "all_reduce: 1 of 16 points delivered wrong elements" in run.judged.reason
    assert "reduce: 16 of 16 points slower" in run.judged.reason


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"predicted": False}, "no prediction"), ({"interval": False}, "states no interval")],
)
def test_without_prediction_or_interval_there_is_no_verdict(
    options: dict[str, bool], reason: str
) -> None:
    run = judge_run(fake_rows(points(["all_reduce"]), **options))
    assert run.judged.verdict == Verdict.NO_VERDICT
    assert reason in run.judged.reason


def test_a_run_that_nothing_predicts_says_so_once() -> None:
    rows = fake_rows(points(["all_reduce", "all_gather", "broadcast"]), predicted=False)
    run = judge_run(rows)
    assert run.judged.verdict == Verdict.NO_VERDICT
    assert run.judged.reason == "48 of 48 points cannot be judged: no prediction"


def test_one_point_that_cannot_be_judged_keeps_a_run_from_passing() -> None:
    rows = fake_rows(points(["all_reduce"]))
    rows[4] = renamed(rows[4], predicted_low_us=None, predicted_high_us=None)
    run = judge_run(rows)
    assert run.judged.verdict == Verdict.NO_VERDICT
    assert "1 of 16 points cannot be judged" in run.judged.reason


def test_missing_points_keep_a_run_from_passing_and_not_from_being_slow() -> None:
    rows = fake_rows(points(["all_reduce"]))
    assert judge_run(rows, planned_points=16).judged.verdict == Verdict.PASS
    short = judge_run(rows[:10], planned_points=16)
    assert short.judged.verdict == Verdict.NO_VERDICT
    assert "6 planned points were not measured" in short.judged.reason
    slow = [renamed(row, time_us_loop=row.time_us_loop * 3) for row in rows[:10]]
    assert judge_run(slow, planned_points=16).judged.verdict == Verdict.SLOW


def test_an_empty_run_has_no_verdict() -> None:
    run = judge_run([])
    assert run.judged.verdict == Verdict.NO_VERDICT
    assert run.judged.reason == "nothing was measured"
    assert run.summaries == ()


def test_a_few_points_mostly_outside_their_intervals_are_no_pass() -> None:
    """Too few for chance to be excluded on either side, yet nobody would call it as predicted."""
    rows = fake_rows(points(["all_reduce"]))[:4]
    for i, factor in enumerate((0.3, 3.0, 0.3)):
        rows[i] = renamed(rows[i], time_us_loop=rows[i].time_us_loop * factor)
    judged = judge_run(rows).judged
    assert judged.verdict != Verdict.PASS
    assert "outside their intervals" in judged.reason or "than expected" in judged.reason


def test_unchecked_data_is_said_beside_a_pass() -> None:
    run = judge_run(rows_with_errors([0.0, 0.1], wrong=None))
    assert run.judged.verdict == Verdict.PASS
    assert run.judged.reason.endswith("data of 2 not checked")
    assert run.unchecked == 2


def test_right_predictions_let_ninety_nine_of_a_hundred_runs_pass() -> None:
    """Four collectives, Gaussian noise, intervals that hold for 90 %: the model is right."""
    verdicts = [
        judge_run(fake_rows(points(["all_reduce", "reduce", "broadcast", "all_gather"]), seed=s))
        for s in range(200)
    ]
    assert sum(c.judged.verdict != Verdict.PASS for c in verdicts) <= 6


def test_the_verdict_is_plain_data() -> None:
    rows = fake_rows(points())
    data = json.loads(json.dumps(run_verdict_to_json(judge_run(rows)), allow_nan=False))
    assert data["points"] == len(rows) == sum(c["points"] for c in data["collectives"])
    assert sum(data["counts"].values()) == len(rows)
    assert data["collectives"][0]["worst"]["dtype"] == "float32"
    assert not math.isnan(data["collectives"][0]["median_error"])
