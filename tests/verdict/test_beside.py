"""Rows with something beside them: in no verdict on speed and no curve, but their data counts."""

from __future__ import annotations

from dataclasses import replace

from clusterlab.core.findings import Verdict
from clusterlab.report.curves import curves
from clusterlab.report.error_matrix import error_matrix
from clusterlab.verdict.run_verdict import judge_run
from tests.records.fake_runs import fake_rows, points


def test_they_change_no_verdict_on_speed_however_slow() -> None:
    plain = fake_rows(points(["all_reduce", "all_gather"]), seed=3)
    beside = [replace(row, beside="compute", time_us_loop=50 * row.time_us_loop) for row in plain]
    alone, both = judge_run(plain), judge_run([*plain, *beside])
    assert both.judged == alone.judged
    assert both.summaries == alone.summaries
    assert both.points == len(plain) + len(beside)
    assert curves([*plain, *beside]) == curves(plain)
    assert error_matrix([*plain, *beside]) == error_matrix(plain)


def test_their_wrong_data_makes_a_run_invalid() -> None:
    plain = fake_rows(points(["all_reduce"]), seed=4)
    beside = [replace(plain[0], beside="all_gather", wrong=2)]
    found = judge_run([*plain, *beside])
    assert found.judged.verdict == Verdict.INVALID
    assert "all_reduce beside all_gather" in found.judged.reason
    assert found.wrong == 2


def test_they_count_as_planned_points() -> None:
    plain = fake_rows(points(["all_reduce"]), seed=5)
    beside = [replace(plain[0], beside="compute")]
    assert (
        judge_run([*plain, *beside], planned_points=len(plain) + 1).judged
        == judge_run(plain).judged
    )
    missing = judge_run(plain, planned_points=len(plain) + 1)
    assert missing.judged.verdict == Verdict.NO_VERDICT
