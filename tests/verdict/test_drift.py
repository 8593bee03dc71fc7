"""What the soak's analysis finds in series whose truth is known, and how often it finds what is not there."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from numpy.random import Generator

from clusterlab.core.findings import Verdict
from clusterlab.verdict.drift import LEAST_PASSES, Drift, analyse, rank_correlation

FOUND = (Verdict.SLOW, Verdict.FAST_UNEXPECTED)

Series = Callable[[Generator, int], np.ndarray]


def rate(
    make: Series, passes: int, trials: int, found: Callable[[Drift], bool], *, seed: int = 0
) -> float:
    """The share of ``trials`` series in which ``found`` holds."""
    hits = 0
    for trial in range(trials):
        rng = np.random.default_rng(seed * 100_000 + trial)
        hits += found(analyse(np.arange(passes) * 10.0, make(rng, passes)))
    return hits / trials


def quiet(rng: Generator, n: int, cv: float | None = None) -> np.ndarray:
    cv = rng.uniform(0.02, 0.20) if cv is None else cv
    return 100 * (1 + cv * rng.standard_normal(n))


def skewed(rng: Generator, n: int) -> np.ndarray:
    return 100 * np.exp(rng.uniform(0.02, 0.20) * rng.standard_normal(n))


def with_outliers(rng: Generator, n: int) -> np.ndarray:
    return skewed(rng, n) * np.where(rng.random(n) < 0.03, rng.uniform(1.5, 6, n), 1)


def clinging(rng: Generator, n: int) -> np.ndarray:
    """Each pass half as slow as the one before it, and something of its own."""
    noise = np.empty(n)
    last = 0.0
    for i in range(n):
        last = 0.5 * last + np.sqrt(0.75) * rng.standard_normal()
        noise[i] = last
    return 100 * (1 + rng.uniform(0.02, 0.20) * noise)


def counted(rng: Generator, n: int) -> np.ndarray:
    """A clock of few ticks: many passes are exactly alike."""
    return np.round(quiet(rng, n, 0.02) / 4) * 4


@pytest.mark.parametrize("make", [quiet, skewed, with_outliers, clinging, counted])
def test_what_does_not_change_is_rarely_said_to(
    make: Series, capsys: pytest.CaptureFixture
) -> None:
    alarms = rate(make, 200, 500, lambda d: d.verdict in FOUND)
    with capsys.disabled():
        print(f"\n  {make.__name__}: false alarms {alarms:.1%} of 500 series, cv 2 to 20 %")
    assert alarms <= 0.05


def drifting(rng: Generator, n: int) -> np.ndarray:
    return quiet(rng, n, 0.05) * (1 + 0.05 * np.arange(n) / n)


def stepping(rng: Generator, n: int) -> np.ndarray:
    return quiet(rng, n, 0.05) * np.where(np.arange(n) > n * rng.uniform(0.15, 0.85), 1.1, 1)


def throttling(rng: Generator, n: int) -> np.ndarray:
    """Slower by 15 % for a fifth to a half of every 15 to 60 passes."""
    period, duty = rng.integers(15, 60), rng.uniform(0.2, 0.5)
    held_back = (np.arange(n) / period + rng.random()) % 1 < duty
    return quiet(rng, n, 0.05) * np.where(held_back, 1.15, 1)


@pytest.mark.parametrize(
    ("make", "passes", "found"),
    [
        (drifting, 600, lambda d: d.trend_found and d.drift > 0),
        (stepping, 200, lambda d: d.step is not None and 0.07 < d.step.size < 0.13),
        (throttling, 600, lambda d: d.swing is not None),
    ],
)
def test_what_changes_is_found(
    make: Series, passes: int, found: Callable[[Drift], bool], capsys: pytest.CaptureFixture
) -> None:
    share = rate(make, passes, 200, found, seed=1)
    with capsys.disabled():
        print(f"\n  {make.__name__}: found in {share:.1%} of 200 series, {passes} passes, cv 5 %")
    assert share >= 0.95


def test_the_drift_s_interval_holds_the_truth() -> None:
    """Of 95 % intervals, about 95 % do: no fewer than 91 % of 300."""
    held = rate(drifting, 200, 300, lambda d: d.low <= 0.05 <= d.high * 1.03, seed=2)
    assert held >= 0.91


def test_faster_is_found_too_and_is_not_slow() -> None:
    rng = np.random.default_rng(1)
    n = 400
    series = quiet(rng, n, 0.03) * (1 - 0.2 * np.arange(n) / n)
    found = analyse(np.arange(n) * 1.0, series)
    assert found.verdict == Verdict.FAST_UNEXPECTED
    assert -0.25 < found.drift < -0.15
    assert found.per_hour == pytest.approx(found.drift * 3600 / (n - 1), rel=1e-6)


def test_too_few_or_too_noisy_passes_have_no_verdict() -> None:
    rng = np.random.default_rng(2)
    few = analyse(np.arange(LEAST_PASSES - 1) * 1.0, quiet(rng, LEAST_PASSES - 1, 0.01))
    assert few.verdict == Verdict.NO_VERDICT
    noisy = analyse(np.arange(60) * 1.0, quiet(rng, 60, 0.2))
    assert noisy.verdict == Verdict.NO_VERDICT
    assert re.search(r"about [\d.]+ (s|min|h) more would do", noisy.reason)
    assert analyse([5.0], [100.0]).verdict == Verdict.NO_VERDICT


@pytest.mark.parametrize(("pass_s", "says"), [(1.0, "more would do"), (3600.0, "too noisy here")])
def test_more_time_is_said_in_hours_and_not_where_it_is_no_advice(pass_s: float, says: str) -> None:
    """The same series: of seconds some more would do, of hours no one can wait."""
    series = quiet(np.random.default_rng(2), 60, 0.2)
    reason = analyse(np.arange(60) * pass_s, series).reason
    assert says in reason
    assert "passes" not in reason


def test_a_small_certain_drift_does_not_matter() -> None:
    rng = np.random.default_rng(3)
    series = quiet(rng, 500, 0.002) * (1 + 0.01 * np.arange(500) / 500)
    found = analyse(np.arange(500) * 1.0, series)
    assert found.verdict == Verdict.PASS
    assert found.low > 0  # it is known to be there
    assert analyse(np.arange(500) * 1.0, series, tolerance=0.005).verdict == Verdict.SLOW


def test_the_worst_window_and_the_slow_share_are_where_they_are() -> None:
    rng = np.random.default_rng(4)
    series = quiet(rng, 1000, 0.01)
    series[300:330] *= 1.5
    found = analyse(np.arange(1000) * 2.0, series)
    assert 600 <= found.worst.start_s <= found.worst.end_s <= 660
    assert found.worst.ratio == pytest.approx(1.5, rel=0.02)
    assert found.slow_share == pytest.approx(0.03, abs=0.002)


@pytest.mark.parametrize("values", [[100.0] * 50, [0.0] * 50, [1.0] * 49 + [2.0]])
def test_series_without_noise_are_no_trouble(values: list[float]) -> None:
    assert analyse([float(i) for i in range(50)], values).verdict == Verdict.PASS


def test_rank_correlation() -> None:
    up = [float(i) for i in range(20)]
    assert rank_correlation(up, [x**3 for x in up]) == pytest.approx(1.0)
    assert rank_correlation(up, [5.0] * 20) is None
    assert rank_correlation(up[:5], up[:5]) is None
