"""Why a point or a run has no verdict: every reason, by its class, and that none of them is a pass."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.findings import Verdict
from clusterlab.core.rows import SCHEMA_VERSION, Row
from clusterlab.records.run_dir import open_run
from clusterlab.records.schema import row_to_line
from clusterlab.report.data import load
from clusterlab.verdict.judge import Why, judge_row
from clusterlab.verdict.run_verdict import judge_run
from clusterlab.verdict.run_verdict_json import run_verdict_to_json
from clusterlab.verdict.steady import NOISY_SHARE
from tests.records.fake_runs import fake_rows, make_run, points, renamed

ROW = renamed(
    fake_rows(points(["all_reduce"]))[0],
    time_us_loop=100.0,
    time_us_p50=100.0,
    predicted_time_us=100.0,
    predicted_low_us=90.0,
    predicted_high_us=120.0,
    predicted_coverage=0.9,
    p50_low_us=99.0,
    p50_high_us=101.0,
    samples=200,
    outliers=0,
    wrong=0,
)


def known(time_us: float, half: float, **changes: Any) -> dict[str, Any]:
    """A time and its median, known to ± ``half``."""
    return {
        "time_us_loop": time_us, "time_us_p50": time_us,
        "p50_low_us": time_us - half, "p50_high_us": time_us + half, **changes,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "verdict", "why"),
    [
        (known(125, 3), Verdict.SLOW, None),
        (known(125, 6), Verdict.NO_VERDICT, Why.NOISE),
        (known(125, 6, samples=20), Verdict.NO_VERDICT, Why.FEW_ITERATIONS),
        (known(85, 3), Verdict.FAST_UNEXPECTED, None),
        (known(85, 6), Verdict.NO_VERDICT, Why.NOISE),
        (known(105, 10), Verdict.PASS, None),
        (known(105, 16), Verdict.NO_VERDICT, Why.NOISE),  # wider than the prediction's interval
        (known(105, 16, samples=12), Verdict.NO_VERDICT, Why.FEW_ITERATIONS),
        (known(300, 40), Verdict.SLOW, None),  # as wide, and clear of it
        (known(105, 1, p50_low_us=None, samples=3), Verdict.NO_VERDICT, Why.FEW_ITERATIONS),
        (known(105, 1, p50_low_us=None, samples=None), Verdict.PASS, None),  # an old row
        (
            known(105, 1, time_us_loop=130.0, outliers=60, cv=0.4),
            Verdict.NO_VERDICT,
            Why.NOISE,
        ),
        (known(105, 1, time_us_loop=130.0, outliers=2, cv=0.4), Verdict.SLOW, None),
        ({"predicted_doubt": "a size outside 1 KiB to 1 MiB"}, Verdict.NO_VERDICT, Why.DOUBTED),
        (known(900, 1, predicted_doubt="elsewhere"), Verdict.NO_VERDICT, Why.DOUBTED),
        ({"predicted_time_us": None}, Verdict.NO_VERDICT, Why.NO_PREDICTION),
        ({"predicted_low_us": None}, Verdict.NO_VERDICT, Why.NO_INTERVAL),
        ({"time_us_loop": 0.0}, Verdict.NO_VERDICT, Why.NO_TIME),
        (known(125, 6, wrong=1, predicted_doubt="x"), Verdict.INVALID, None),
    ],
)
def test_a_point(changes: dict[str, Any], verdict: Verdict, why: Why | None) -> None:
    judged = judge_row(renamed(ROW, **changes))
    assert (judged.verdict, judged.why) == (verdict, why), judged.reason
    assert judged.reason
    if changes.get("predicted_doubt") and not changes.get("wrong"):
        assert changes["predicted_doubt"] in judged.reason


@given(
    time_us=st.floats(1, 1000),
    half=st.floats(0.001, 0.9),
    low=st.floats(1, 500),
    width=st.floats(0.1, 500),
)
def test_what_is_judged_is_known_well_enough(
    time_us: float, half: float, low: float, width: float
) -> None:
    """Slow and fast ones lie outside with all of their interval; a pass is no less certain than predicted."""
    row = renamed(
        ROW,
        **known(time_us, half * time_us),
        predicted_low_us=low,
        predicted_high_us=low + width,
    )
    least, most = time_us * (1 - half), time_us * (1 + half)
    verdict = judge_row(row).verdict
    if verdict == Verdict.SLOW:
        assert least > low + width
    elif verdict == Verdict.FAST_UNEXPECTED:
        assert most < low
    elif verdict == Verdict.PASS:
        assert low <= time_us <= low + width and most - least <= width * (1 + 1e-9)
    else:
        assert verdict == Verdict.NO_VERDICT


def rows_of(count: int, **changes: Any) -> list[Row]:
    sizes = [1024 * (i + 1) for i in range(count)]
    rows = [r for r in fake_rows(points(["all_reduce"], sizes)) if not r.in_place]
    kept = {f: getattr(ROW, f) for f in ("time_us_loop", "time_us_p50", "predicted_time_us",
            "predicted_low_us", "predicted_high_us", "predicted_coverage", "p50_low_us", "p50_high_us",
            "samples", "outliers")}  # fmt: skip
    return [renamed(row, **{**kept, **changes}) for row in rows]


@pytest.mark.parametrize("share", [0.05, 0.3])
def test_a_run_is_no_pass_where_noise_hides_a_tenth_of_it(share: float) -> None:
    rows = rows_of(40)
    for i in range(round(share * 40)):
        rows[i] = renamed(rows[i], **known(125, 8))
    judged = judge_run(rows).judged
    if share < NOISY_SHARE:
        assert judged.verdict == Verdict.PASS and "2 are known too little" in judged.reason
    else:
        assert (judged.verdict, judged.why) == (Verdict.NO_VERDICT, Why.NOISE)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"predicted_doubt": "a size outside 1 KiB to 1 MiB"}, Why.DOUBTED),
        ({"predicted_time_us": None}, Why.NO_PREDICTION),
        ({"predicted_high_us": None}, Why.NO_INTERVAL),
    ],
)
def test_one_hole_keeps_a_run_from_passing(changes: dict[str, Any], why: Why) -> None:
    rows = rows_of(40)
    rows[7] = renamed(rows[7], **changes)
    run = judge_run(rows)
    assert (run.judged.verdict, run.judged.why) == (Verdict.NO_VERDICT, why)
    assert run_verdict_to_json(run)["why"] == why.value


def test_missing_and_nothing_have_their_class() -> None:
    assert judge_run(rows_of(10), planned_points=12).judged.why == Why.MISSING
    assert judge_run([]).judged.why == Why.NOTHING
    assert judge_run(rows_of(10)).judged.why is None


def test_problems_outrank_speed_not_wrong_data() -> None:
    slow = rows_of(20, **known(300, 1))
    judged = judge_run(slow, problems=["a point twice"]).judged
    assert (judged.verdict, judged.why) == (Verdict.NO_VERDICT, Why.DAMAGED)
    slow[0] = renamed(slow[0], wrong=2)
    assert judge_run(slow, problems=["a point twice"]).judged.verdict == Verdict.INVALID


def test_where_the_intervals_are_from_is_said() -> None:
    rows = rows_of(6, provenance="calibrated on this machine, 60 rows")
    run = judge_run(rows)
    assert run.judged_by == ("90% intervals: calibrated on this machine, 60 rows",)
    assert judge_run(rows_of(6, predicted_doubt="x")).judged_by == ()


@pytest.mark.parametrize("damage", ["twice", "schemas"])
def test_a_run_directory_whose_rows_contradict_each_other(tmp_path: Any, damage: str) -> None:
    rows = rows_of(12)
    run = make_run(tmp_path, rows, planned_points=12)
    assert load(run).judged.verdict == Verdict.PASS
    with run.records_path.open("ab") as file:
        if damage == "twice":
            file.write(row_to_line(replace(rows[2], time_us_loop=101.0)))
        else:
            old = row_to_line(rows[2]).replace(
                f'"schema_version":{SCHEMA_VERSION}'.encode(), b'"schema_version":1'
            )
            file.write(old)
    judged = load(open_run(run.path)).judged
    assert (judged.verdict, judged.why) == (Verdict.NO_VERDICT, Why.DAMAGED)
    assert ("twice" if damage == "twice" else "schema versions 1") in judged.reason


def test_a_point_measured_again_by_a_later_attempt_is_no_contradiction(tmp_path: Any) -> None:
    rows = rows_of(12)
    again = [replace(rows[2], time_us_loop=101.0, attempt=2), rows[5]]
    assert (
        load(make_run(tmp_path, [*rows, *again], planned_points=12)).judged.verdict == Verdict.PASS
    )
