"""Two runs of one sweep: what counts as the same, what as different, and what as no verdict."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.rows import Row
from clusterlab.verdict.reproduce import FLOOR, LOOSE, Outcome, reproduce
from tests.records.fake_runs import fake_rows, points
from tests.verdict.test_steady import steady_rows, with_width


def again(rows: list[Row], *, by: float = 1.0, noise: float = 0.0, seed: int = 1) -> list[Row]:
    """A second run of ``rows``: medians times ``by``, and normal ``noise`` of its own."""
    rng = random.Random(seed)
    found = []
    for row in rows:
        factor = by * (1 + rng.gauss(0, noise))
        times = {
            name: getattr(row, name) * factor
            for name in ("time_us_p50", "p50_low_us", "p50_high_us")
        }
        found.append(replace(row, **times))
    return found


def test_the_same_run_reproduces_itself() -> None:
    rows = steady_rows()
    found = reproduce(rows, rows)
    assert found.outcome == Outcome.REPRODUCED and found.share_within == 1.0
    assert all(p.stated and p.steady and p.difference == 0 for p in found.points)


@pytest.mark.parametrize("by", [0.9, 1.1])
def test_a_quiet_machine_that_changed_is_different(by: float) -> None:
    rows = steady_rows()
    found = reproduce(rows, again(rows, by=by))
    assert found.outcome == Outcome.DIFFERENT and found.share_within == 0.0
    assert found.points[0].difference == pytest.approx(by - 1)


@pytest.mark.parametrize("which", [0, 1])
def test_on_a_noisy_machine_there_is_no_verdict(which: int) -> None:
    rows = steady_rows()
    runs = [rows, again(rows, by=1.3)]
    runs[which] = [with_width(row, 0.11) for row in runs[which]]
    found = reproduce(*runs)
    assert found.outcome == Outcome.NOISY and "noisy" in found.reason
    assert found.quiet[which].noisy and not found.quiet[1 - which].noisy


@pytest.mark.parametrize("shaken", [True, False])
def test_what_only_unsteady_points_miss_is_no_verdict(shaken: bool) -> None:
    """Of 200 points 19 differ: more than chance, and too few to call the whole run noisy."""
    rows = [replace(row, root=root) for root in range(10) for row in steady_rows(20)]
    odd = again(rows[:19], by=2.0)
    if shaken:
        odd = [replace(row, outliers=50, cv=0.5) for row in odd]
    found = reproduce(rows, [*odd, *rows[19:]])
    assert found.outcome == (Outcome.NOISY if shaken else Outcome.DIFFERENT)
    assert not any(one.noisy for one in found.quiet)


@pytest.mark.parametrize("differ", [1, 12])
def test_one_miss_in_twenty_is_chance_and_most_are_not(differ: int) -> None:
    rows = steady_rows(20)
    other = [*again(rows[:differ], by=1.2), *rows[differ:]]
    wanted = Outcome.REPRODUCED if differ == 1 else Outcome.DIFFERENT
    assert reproduce(rows, other).outcome == wanted


@given(st.floats(-0.2, 0.2), st.floats(0.0, 0.08), st.floats(0.0, 0.08))
def test_a_point_may_differ_by_both_halves_joined_and_the_floor(
    difference: float, width: float, other_width: float
) -> None:
    row = with_width(steady_rows()[0], width)
    second = with_width(again([row], by=1 + difference)[0], other_width)
    (point,) = reproduce([row], [second]).points
    halves = (width / 2, other_width / 2 * (1 + difference))
    room = (halves[0] ** 2 + halves[1] ** 2) ** 0.5 + FLOOR
    assert point.allowed == pytest.approx(room)
    assert point.within == (abs(point.difference) <= point.allowed)


def test_runs_that_differ_by_noise_alone_reproduce() -> None:
    """Intervals that hold 95 % are left by one in twenty: chance must not accuse."""
    outcomes = []
    for seed in range(60):
        rows = [with_width(row, 2 * 1.96 * 0.01) for row in steady_rows(20)]
        first, second = again(rows, noise=0.01, seed=seed), again(rows, noise=0.01, seed=seed + 999)
        outcomes.append(reproduce(first, second).outcome)
    assert outcomes.count(Outcome.REPRODUCED) >= 58


def test_points_of_one_run_only_and_other_ways_of_measuring_are_not_compared() -> None:
    rows = steady_rows(20)
    found = reproduce(rows[:15], rows[5:])
    assert len(found.points) == 10 and found.alone == (5, 5)
    for change in ({"aggregated": 4}, {"blocking": True}, {"timing": "graph"}, {"backend": "nccl"}):
        other = [replace(row, **change) for row in rows]  # type: ignore[arg-type]
        assert reproduce(rows, other).outcome == Outcome.NOTHING


def test_rows_of_before_state_no_interval_and_get_the_floor() -> None:
    rows = fake_rows(points(["all_reduce"]))
    found = reproduce(rows, rows)
    assert found.outcome == Outcome.REPRODUCED
    assert all(not p.stated and p.allowed == FLOOR for p in found.points)


@pytest.mark.parametrize("wide", [0, 5, 10, 11, 20])
def test_agreement_within_intervals_that_allow_nearly_all_is_none(wide: int) -> None:
    """Of 20 points; an allowance over LOOSE at most of them shows nothing."""
    rows = steady_rows(20)
    rows = [*(with_width(row, 0.4) for row in rows[:wide]), *rows[wide:]]
    found = reproduce(rows, rows)
    assert all(p.within for p in found.points)
    assert sum(p.allowed > LOOSE for p in found.points) == wide
    assert found.outcome == (Outcome.NOISY if wide > 10 else Outcome.REPRODUCED)
    assert ("show nothing" in found.reason) == (wide > 10)
