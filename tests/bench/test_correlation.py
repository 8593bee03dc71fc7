"""A stretch of slow iterations does not count as so many independent ones."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.bench.correlation import LEAST, MOST_LAGS, effective_size, widened
from clusterlab.bench.statistics import median_interval, summarise


def by_definition(series: list[float], median: float) -> float:
    """The same from numpy's covariances."""
    above = (np.array(series) > median).astype(float)
    n, centred = len(above), above - above.mean()
    variance = float((centred**2).mean())
    total = 1.0
    for lag in range(1, min(n // 4, MOST_LAGS) + 1):
        rho = float((centred[:-lag] * centred[lag:]).sum()) / (n * variance)
        if rho < max(LEAST, n**-0.5):
            break
        total += 2 * rho
    return min(float(n), max(1.0, n / total))


@given(st.lists(st.integers(0, 3), min_size=4, max_size=120))
def test_it_is_its_definition(values: list[int]) -> None:
    series = [float(v) for v in values]
    middle = float(np.median(series))
    if 0 < sum(v > middle for v in series) < len(series):
        assert effective_size(series, middle) == pytest.approx(by_definition(series, middle))
    else:
        assert effective_size(series, middle) == len(series)


def autoregressive(generator: random.Random, n: int, phi: float) -> list[float]:
    """Log times whose neighbours correlate by ``phi``; their median is 100."""
    value, series = generator.gauss(0, 1), []
    for _ in range(n):
        value = phi * value + (1 - phi * phi) ** 0.5 * generator.gauss(0, 1)
        series.append(100.0 * float(np.exp(0.1 * value)))
    return series


@pytest.mark.parametrize(("phi", "least"), [(0.0, 0.93), (0.5, 0.90), (0.8, 0.86), (0.9, 0.80)])
def test_the_interval_holds_the_median_also_when_neighbours_are_alike(
    phi: float, least: float
) -> None:
    generator = random.Random(3)
    held = independent = 0
    trials = 400
    for _ in range(trials):
        series = autoregressive(generator, 200, phi)
        summary = summarise(series)
        assert summary.low_us is not None and summary.high_us is not None
        held += summary.low_us <= 100.0 <= summary.high_us
        low, high = median_interval(200) or (0, 0)
        ordered = sorted(series)
        independent += ordered[low] <= 100.0 <= ordered[high]
    assert held / trials >= least
    if phi >= 0.5:
        assert held > independent


def test_a_burst_that_slows_a_third_of_the_iterations_widens_the_interval() -> None:
    generator = random.Random(5)
    quiet = [100 + generator.gauss(0, 2) for _ in range(200)]
    burst = [*quiet[:100], *(2 * t for t in quiet[100:170]), *quiet[170:]]
    scattered = burst.copy()
    generator.shuffle(scattered)

    def width(series: list[float]) -> float:
        summary = summarise(series)
        assert summary.low_us is not None and summary.high_us is not None
        return (summary.high_us - summary.low_us) / summary.p50_us

    assert width(quiet) < 0.02 and width(scattered) < 0.05
    assert width(burst) > 0.5


@pytest.mark.parametrize("n", [6, 20, 200, 3001])
def test_of_independent_times_the_places_stay_as_they_are(n: int) -> None:
    places = median_interval(n)
    assert places is not None and widened(places, n, n) == places


@given(st.integers(6, 400), st.integers(6, 400))
def test_places_lie_within_the_sample_and_no_narrower(effective: int, n: int) -> None:
    effective = min(effective, n)
    few, all_of_them = median_interval(effective), median_interval(n)
    assert few is not None and all_of_them is not None
    low, high = widened(few, effective, n)
    assert 0 <= low <= high <= n - 1
    assert low <= all_of_them[0] + 1 and high >= all_of_them[1] - 1


def test_widened_places_are_places_of_the_series():
    for n in range(6, 400):
        for effective in range(6, n + 1):
            places = median_interval(effective)
            assert places is not None
            low, high = widened(places, effective, n)
            assert 0 <= low <= high < n, (effective, n)
