"""Which rows say that the machine was noisy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clusterlab.core.rows import Row
from clusterlab.verdict.steady import FEWEST, MANY, NOISY_SHARE, WIDE, quiet, unsteady
from tests.records.fake_runs import fake_rows, points


def steady_rows(count: int = 20) -> list[Row]:
    rows = fake_rows(points(["all_reduce", "broadcast"]))[:count]
    return [
        replace(
            row,
            p50_low_us=row.time_us_p50 * 0.99,
            p50_high_us=row.time_us_p50 * 1.01,
            samples=200,
            outliers=3,
            cv=0.1,
            throttled=None,
        )
        for row in rows
    ]


def with_width(row: Row, share: float) -> Row:
    half = share * row.time_us_p50 / 2
    return replace(row, p50_low_us=row.time_us_p50 - half, p50_high_us=row.time_us_p50 + half)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, False),
        ({"outliers": int(MANY * 200)}, False),
        ({"outliers": int(MANY * 200) + 1}, True),
        ({"outliers": 60, "cv": 0.01}, False),  # they stand out, by next to nothing
        ({"outliers": FEWEST - 1, "samples": 6}, False),
        ({"outliers": None}, False),
        ({"throttled": "sw_power_cap"}, True),
        ({"throttled": "applications_clocks_setting, hw_thermal_slowdown"}, True),
        ({"throttled": "applications_clocks_setting"}, False),
        ({"p50_low_us": None, "p50_high_us": None}, False),
        ({"p50_low_us": None, "p50_high_us": None, "samples": 5}, True),
        ({"p50_low_us": None, "p50_high_us": None, "samples": None}, False),
    ],
)
def test_what_makes_a_point_unsteady(changes: dict[str, object], expected: bool) -> None:
    row = steady_rows()[0]
    assert unsteady(replace(row, **changes)) is expected  # type: ignore[arg-type]


@pytest.mark.parametrize(("share", "expected"), [(WIDE * 0.99, False), (WIDE * 1.01, True)])
def test_a_median_that_is_not_known_well_is_unsteady(share: float, expected: bool) -> None:
    assert unsteady(with_width(steady_rows()[0], share)) is expected


@pytest.mark.parametrize("count", [0, 1, 2, 20])
def test_a_run_is_noisy_from_a_tenth_of_its_points_on(count: int) -> None:
    rows = steady_rows(20)
    rows = [with_width(row, 0.5) if i < count else row for i, row in enumerate(rows)]
    found = quiet(rows)
    assert found.unsteady == count and found.points == 20
    assert found.noisy is (count >= NOISY_SHARE * 20)
    if found.noisy:
        assert found.reasons == (f"at {count} of 20 points medians are not known to 10%",)


def test_few_iterations_are_not_blamed_on_the_machine() -> None:
    few = [replace(with_width(row, 0.5), samples=20, outliers=0) for row in steady_rows()]
    found = quiet(few)
    assert found.noisy and found.few and "too few" in found.what
    assert found.reasons == ("at 20 of 20 points 20 iterations do not tell the median to 10%",)
    shaken = [*few[:18], *(replace(row, outliers=60) for row in steady_rows()[18:])]
    mixed = quiet(shaken)
    assert mixed.noisy and not mixed.few and "noisy" in mixed.what and len(mixed.reasons) == 2


def test_reasons_name_what_held_gpus_back() -> None:
    rows = [replace(row, throttled="sw_power_cap, hw_slowdown") for row in steady_rows()]
    assert {r.rpartition("(")[2] for r in quiet(rows).reasons} == {"sw_power_cap)", "hw_slowdown)"}


def test_a_run_without_rows_is_not_noisy() -> None:
    assert not quiet([]).noisy
