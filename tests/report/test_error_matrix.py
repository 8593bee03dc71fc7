"""Residuals by size."""

from __future__ import annotations

from clusterlab.report.error_matrix import error_matrix
from tests.records.fake_runs import fake_rows, points, renamed


def test_cells_are_median_signed_errors_with_a_shade_by_size_of_error() -> None:
    rows = [
        renamed(r, time_us_loop=100.0, predicted_time_us=112.0 if r.in_place else 110.0)
        for r in fake_rows(points(["all_reduce"], [1024]))
    ] + [
        renamed(r, time_us_loop=100.0, predicted_time_us=40.0)
        for r in fake_rows(points(["reduce"], [2048]))
    ]
    matrix = error_matrix(rows)
    assert matrix is not None
    assert matrix.collectives == ("all_reduce", "reduce")
    (first, (one, nothing)), (second, (_, other)) = matrix.rows
    assert (first, second) == ("1 KiB", "2 KiB")
    assert (one.text, one.shade) == ("+11.0 %", "over-2")
    assert (nothing.text, nothing.shade) == ("–", "")
    assert (other.text, other.shade) == ("-60.0 %", "under-4")


def test_many_sizes_are_grouped_by_powers_of_two() -> None:
    matrix = error_matrix(fake_rows(points(["all_reduce"], range(1024, 1024 * 101, 1024))))
    assert matrix is not None
    assert matrix.grouped
    assert [label for label, _ in matrix.rows] == [
        "1 KiB", "2 KiB", "4 KiB", "8 KiB", "16 KiB", "32 KiB", "64 KiB",
    ]  # fmt: skip


def test_without_predictions_there_is_none() -> None:
    assert error_matrix(fake_rows(points(["all_reduce"]), predicted=False)) is None
