from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.collectives import COLLECTIVES, busbw_factor
from clusterlab.core.dtypes import dtype
from clusterlab.core.errors import UsageError
from clusterlab.core.measurement import Measurement, WrongElement
from clusterlab.core.rows import Predicted, Row, make_point, make_row, row_from_json, row_to_json


def a_row(name: str = "all_reduce", size: int = 1 << 20, n: int = 8, **changes: object) -> Row:
    measured = Measurement(20, 5, 1000.0, 990.0, 900.0, 1500.0, 1400.0, 0.1, 0)
    predicted = Predicted(800.0, 400.0, "ring", None, "cpu", 700.0, 900.0, "host")
    return make_row(
        make_point(name, size, dtype("float32"), n),
        changes.get("measured", measured),  # type: ignore[arg-type]
        changes.get("predicted", predicted),  # type: ignore[arg-type]
        backend="gloo",
        attempt=1,
        time_utc="2026-01-01T00:00:00Z",
    )


@given(st.sampled_from(list(COLLECTIVES)), st.integers(1, 1 << 34), st.integers(2, 64))
def test_bandwidths_follow_from_size_and_loop_time(name: str, size: int, n: int) -> None:
    row = a_row(name, size, n)
    assert row.algbw_GBps == pytest.approx(row.size_bytes / 1e6)
    assert row.busbw_GBps == pytest.approx(row.algbw_GBps * busbw_factor(name, n))
    assert row.ratio == pytest.approx(row.busbw_GBps / row.predicted_busbw_GBps)


def test_a_row_survives_json() -> None:
    row = a_row()
    assert row_from_json(json.loads(json.dumps(row_to_json(row))), where="x") == row
    assert row.point == make_point("all_reduce", 1 << 20, dtype("float32"), 8)


NEW_IN_4 = ("predicted_doubt",)
NEW_IN_3 = ("memory", *NEW_IN_4)
NEW_IN_2 = (
    *("beside", "uneven", "time_us_p99", "p50_low_us", "p50_high_us", "samples", "outliers"),
    *("rank_skew_us", "arrival_skew_us", "stopped_by", "calls_per_graph", "aggregated", "blocking"),
    *("gpu_clock_mhz", "gpu_temp_c", "throttled", "library_version", "driver_version"),
    *("library_algorithm", "library_protocol", "library_channels", "library_time_us"),
    *("transport", "gdr"),
    *NEW_IN_3,
)


def test_a_row_of_the_first_schema_is_read() -> None:
    old = {k: v for k, v in row_to_json(a_row()).items() if k not in NEW_IN_2}
    assert row_from_json(old, where="x", schema_version=1) == a_row()
    with pytest.raises(UsageError, match=r"lacks .*time_us_p99"):
        row_from_json(old, where="x")


def test_a_row_of_the_second_schema_is_read() -> None:
    old = {k: v for k, v in row_to_json(a_row()).items() if k not in NEW_IN_3}
    assert row_from_json(old, where="x", schema_version=2) == a_row()
    with pytest.raises(UsageError, match=r"lacks .*memory"):
        row_from_json(old, where="x")


def test_a_row_of_the_third_schema_is_read() -> None:
    old = {k: v for k, v in row_to_json(a_row()).items() if k not in NEW_IN_4}
    assert row_from_json(old, where="x", schema_version=3) == a_row()
    with pytest.raises(UsageError, match=r"lacks .*predicted_doubt"):
        row_from_json(old, where="x")


def test_without_a_prediction_nothing_is_invented() -> None:
    row = a_row(predicted=None)
    assert row.ratio is row.predicted_busbw_GBps is row.bound_busbw_GBps is None


def test_a_prediction_of_no_time_has_no_bandwidth() -> None:
    row = a_row(n=1, predicted=Predicted(0.0, 0.0, "none", None, "nothing", None, None, "x"))
    assert row.predicted_time_us == 0
    assert row.ratio is row.predicted_busbw_GBps is row.bound_busbw_GBps is None


def test_the_first_wrong_element_is_kept() -> None:
    wrong = Measurement(20, 5, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 3, WrongElement(5, 17, 36.0, 35.0))
    row = a_row(measured=wrong)
    assert (row.wrong, row.wrong_rank, row.wrong_index) == (3, 5, 17)
    assert (row.wrong_expected, row.wrong_got) == (36.0, 35.0)


def test_operator_and_root_only_where_they_mean_something() -> None:
    f32 = dtype("float32")
    assert make_point("all_gather", 64, f32, 2, op="max", root=1).op is None
    assert make_point("all_gather", 64, f32, 2, root=1).root is None
    assert make_point("reduce", 64, f32, 2, op="max", root=1).root == 1
    assert make_point("all_reduce", 64, f32, 2).op == "sum"


@pytest.mark.parametrize("data", [[], 3, {"collective": "all_reduce"}, None, "row"])
def test_foreign_rows_are_refused_with_their_place(data: object) -> None:
    with pytest.raises(UsageError, match=r"^records.jsonl:7"):
        row_from_json(data, where="records.jsonl:7")


def test_an_unknown_field_gets_a_suggestion() -> None:
    data = row_to_json(a_row())
    data["busbw_gbps"] = 1.0
    with pytest.raises(UsageError, match="did you mean 'busbw_GBps'"):
        row_from_json(data, where="records.jsonl:1")
