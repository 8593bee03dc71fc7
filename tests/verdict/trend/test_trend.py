"""Trends of made runs with known truth: what steps, when, on which node; and noise alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.verdict.against.changes import What
from clusterlab.verdict.against.side import Timed
from clusterlab.verdict.trend.judge import FEWEST_RUNS, trend_of
from clusterlab.verdict.trend.model import Once, Series, Trend
from clusterlab.verdict.trend.steps import split, steps_of

SIZES = tuple(8 * 4**i for i in range(15))
NAMES = ("all_reduce", "all_gather", "broadcast")
PACES = {"small": 0.029, "mid": 0.009, "large": 0.006}
"""What runs differ by, as measured on two H200 (verdict/against/noise.py)."""


def _band(size: int) -> str:
    return "small" if size < 1 << 16 else "mid" if size < 1 << 24 else "large"


class Made:
    """``runs`` runs of all NAMES and SIZES with ordinary noise, from a seed; factors are put on top."""

    def __init__(
        self, runs: int, seed: int, *, hosts: Sequence[Sequence[str]] | None = None
    ) -> None:
        self.rng = np.random.default_rng(seed)
        own = hosts or [("a", "b")] * runs
        self.runs = [Once(f"run{i}", 86400 * i, tuple(own[i])) for i in range(runs)]
        pace = {band: self.rng.normal(0, sd, runs) for band, sd in PACES.items()}
        self.logs = {
            (name, size): math.log(20 + size / 170e3)
            + pace[_band(size)]
            + self.rng.normal(0, 0.008, runs)
            for name in NAMES
            for size in SIZES
        }

    def slower(
        self, factor: float, at: Sequence[int], names: Sequence[str] = NAMES, band: str = ""
    ) -> Made:
        for (name, size), logs in self.logs.items():
            if name in names and band in {"", _band(size)}:
                logs[list(at)] += math.log(factor)
        return self

    def trend(self) -> Trend:
        n = len(self.runs)
        series = [
            Series(
                Timed(name, size, 16, 1.0, dtype="float32", in_place=False, timing="graph"),
                np.arange(n),
                np.exp(logs),
                np.ones(n, dtype=bool),
                loops=False,
            )
            for (name, size), logs in self.logs.items()
        ]
        return trend_of(self.runs, series, backend="nccl", one_machine=True)


@pytest.mark.parametrize(
    ("runs", "at"),
    [(8, 5), (12, 6), (15, 10), (40, 30), (40, 37), (120, 60), (120, 112), (400, 385)],
)
@pytest.mark.parametrize("factor", [1.1, 0.9])
def test_a_lasting_change_is_found_where_it_began(runs: int, at: int, factor: float) -> None:
    trend = Made(runs, seed=runs + at).slower(factor, range(at, runs)).trend()
    shifts = [shift for cell in trend.cells for shift in cell.shifts]
    large = [cell for cell in trend.cells if cell.band == "large"]
    assert all(cell.shifts for cell in large)
    assert np.median([abs(shift.at - at) for shift in shifts]) <= 1
    assert all(
        shift.change.ratio == pytest.approx(factor, abs=0.04) for c in large for shift in c.shifts
    )
    if runs - at <= 10:
        assert trend.what is (What.REGRESSION if factor > 1 else What.IMPROVEMENT)


def test_one_collective_in_one_band_is_told_from_the_others() -> None:
    made = Made(60, seed=3).slower(1.06, range(48, 60), ["all_gather"], "large")
    shifted = [(c.collective, c.band) for c in made.trend().cells if c.shifts]
    assert shifted == [("all_gather", "large")]


def test_what_was_slow_for_a_while_is_two_steps_and_no_regression() -> None:
    trend = Made(120, seed=5).slower(1.15, range(50, 80)).trend()
    cell = next(c for c in trend.cells if (c.collective, c.band) == ("all_reduce", "large"))
    assert [shift.at for shift in cell.shifts] == [50, 80]
    assert trend.what is What.SAME


@pytest.mark.parametrize("runs", [6, 8, 15, 40, 120])
def test_noise_alone_is_seldom_called_anything(runs: int) -> None:
    """The rule is 1 % for a regression and as much for an improvement; of twenty, three would be too many."""
    said = [Made(runs, seed=1000 + i).trend() for i in range(20)]
    assert sum(trend.what is not What.SAME for trend in said) <= 2
    assert sum(bool(trend.nodes) for trend in said) <= 1


def test_few_runs_say_nothing() -> None:
    trend = Made(FEWEST_RUNS - 1, seed=1).slower(2.0, [FEWEST_RUNS - 2]).trend()
    assert trend.what is What.NO_VERDICT
    assert all("compare" in (cell.change.why or "") for cell in trend.cells)


def test_one_slow_run_is_no_trend() -> None:
    trend = Made(40, seed=2).slower(3.0, [39]).trend()
    assert trend.what is What.SAME
    assert not [shift for cell in trend.cells for shift in cell.shifts]


def test_a_slow_node_that_jobs_meet_now_and_then_is_named_with_its_first_slow_run() -> None:
    rng = np.random.default_rng(7)
    hosts = [[f"n{i:02}" for i in rng.choice(16, 4, replace=False)] for _ in range(200)]
    since = 120
    slow = [i for i in range(since, 200) if "n07" in hosts[i]]
    trend = Made(200, seed=8, hosts=hosts).slower(1.15, slow, band="large").trend()
    assert {node.host for node in trend.nodes} == {"n07"}
    assert {node.cell[2] for node in trend.nodes} == {"large"}
    assert trend.what is What.REGRESSION
    for node in trend.nodes:
        assert node.ratio == pytest.approx(1.15, abs=0.03)
        assert node.since == slow[0]
        assert node.last_before is not None
        assert node.last_before < since


def test_a_node_that_was_always_slow_has_no_beginning() -> None:
    rng = np.random.default_rng(9)
    hosts = [[f"n{i:02}" for i in rng.choice(8, 3, replace=False)] for _ in range(60)]
    slow = [i for i in range(60) if "n03" in hosts[i]]
    trend = Made(60, seed=8, hosts=hosts).slower(1.2, slow).trend()
    assert {node.host for node in trend.nodes} == {"n03"}
    assert all(node.since is None for node in trend.nodes if node.cell[2] == "large")


def test_on_which_nodes_a_step_is_and_what_changed_with_it() -> None:
    hosts = [["a", "b"]] * 40 + [["a", "c"] if i % 2 else ["a", "b"] for i in range(40)]
    slow = [i for i in range(40, 80) if "c" in hosts[i]]
    made = Made(80, seed=4, hosts=hosts)
    made.runs = [
        replace(r, facts={"library_version": "2.27" if i < 40 else "2.30"})
        for i, r in enumerate(made.runs)
    ]
    trend = made.slower(1.3, range(40, 80)).trend()
    shift = trend.cells[0].shifts[0]
    assert shift.differs == ("library version: 2.27, then 2.30",)
    assert not shift.nodes.slow
    assert shift.nodes.why is not None
    both = Made(80, seed=4, hosts=hosts).slower(1.3, slow).slower(1.001, range(40, 80)).trend()
    assert {node.host for node in both.nodes} == {"c"}


def test_one_slow_pair_among_many_is_named_alone() -> None:
    rng = np.random.default_rng(1)
    series = [
        Series(
            Timed("send", 1 << 25, 2, 1.0, dtype="float32", timing="eager", ranks=(a, b)),
            np.arange(30),
            np.exp(
                7
                + rng.normal(0, 0.006, 30)
                + (math.log(1.5) * (np.arange(30) >= 24) if (a, b) == (2, 5) else 0)
            ),
            np.ones(30, dtype=bool),
            loops=False,
        )
        for a in range(8)
        for b in range(8)
        if a != b
    ]
    trend = trend_of(
        [Once(f"run{i}", i) for i in range(30)], series, backend="nccl", one_machine=True
    )
    (alone,) = trend.alone
    assert series[alone.series].point.ranks == (2, 5)
    assert alone.ratio == pytest.approx(1.5, abs=0.05)
    assert abs(alone.at - 24) <= 1
    assert trend.what is What.REGRESSION


def test_gaps_and_unsteady_or_missing_times_do_no_harm() -> None:
    rng = np.random.default_rng(2)
    series = []
    for size in SIZES:
        at = np.sort(rng.choice(50, 30, replace=False))
        times = np.exp(5 + rng.normal(0, 0.01, 30) + math.log(1.2) * (at >= 40))
        times[rng.random(30) < 0.1] = np.nan
        steady = rng.random(30) < 0.9
        times[~steady] *= 4
        series.append(Series(Timed("all_reduce", size, 8, 1.0), at, times, steady, loops=True))
    trend = trend_of([Once(f"run{i}", i) for i in range(50)], series)
    assert trend.what is What.REGRESSION
    assert all(abs(s.at - 40) <= 2 for c in trend.cells for s in c.shifts if c.band != "small")


@pytest.mark.parametrize("paces", [[], [0.0], [0.0, 1.0], [1.0] * 50])
def test_short_and_constant_series_have_no_step(paces: list[float]) -> None:
    assert steps_of(np.array(paces), 0.01) == []


def test_a_split_leaves_runs_on_either_side() -> None:
    for n in range(2, 20):
        for at in range(n):
            found = split(np.array([0.0] * at + [1.0] * (n - at)))
            assert 1 <= found <= n - 1


@given(
    runs=st.integers(1, 16),
    seed=st.integers(0, 10_000),
    gaps=st.sampled_from([0.0, 0.3, 0.9]),
    shaken=st.sampled_from([0.0, 0.5, 1.0]),
    unknown=st.sampled_from([0.0, 0.5, 1.0]),
    named=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_whatever_is_missing_there_is_an_answer(
    runs: int, seed: int, gaps: float, shaken: float, unknown: float, named: bool
) -> None:
    rng = np.random.default_rng(seed)
    series = []
    for size in SIZES[::3]:
        at = np.flatnonzero(rng.random(runs) >= gaps)
        if not len(at):
            continue
        times = np.exp(5 + rng.normal(0, 0.3, len(at)))
        times[rng.random(len(at)) < unknown] = np.nan
        steady = rng.random(len(at)) >= shaken
        series.append(Series(Timed("all_reduce", size, 8, 1.0), at, times, steady, loops=True))
    once = [Once(f"run{i}", i, (f"h{i % 3}",) if named else ()) for i in range(runs)]
    trend = trend_of(once, series)
    assert {i for cell in trend.cells for i in cell.series} == set(range(len(series)))
    for cell in trend.cells:
        assert all(0 < shift.at < runs for shift in cell.shifts)
        if cell.runs < FEWEST_RUNS:
            assert cell.change.what is What.NO_VERDICT
            assert cell.change.why
