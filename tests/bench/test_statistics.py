"""Quantiles are numpy's, the median's interval holds it as often as it says, outliers are what stands out."""

from __future__ import annotations

import random
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.bench.statistics import (
    CONFIDENCE,
    median_interval,
    outliers,
    quantile,
    summarise,
)

times = st.lists(st.floats(0.01, 1e7), min_size=1, max_size=60)


@given(times, st.floats(0, 1))
def test_quantiles_are_numpys(values, share):
    ordered = sorted(values)
    assert quantile(ordered, share) == pytest.approx(float(np.quantile(ordered, share)))


@given(times)
def test_a_summary_describes_its_sample(values):
    summary = summarise(values)
    assert summary.min_us == min(values)
    assert summary.max_us == max(values)
    assert summary.min_us <= summary.p50_us <= summary.p95_us <= summary.p99_us <= summary.max_us
    assert summary.p50_us == pytest.approx(float(np.median(values)))
    assert summary.p99_us == pytest.approx(float(np.quantile(values, 0.99)))
    if len(values) > 1:
        expected = float(np.std(values, ddof=1) / np.mean(values))
        assert summary.cv == pytest.approx(expected, abs=1e-9)
    else:
        assert summary.cv == 0
    assert (summary.low_us is None) == (len(values) < 6)
    if summary.low_us is not None:
        assert summary.min_us <= summary.low_us <= summary.p50_us
        assert summary.p50_us <= summary.high_us <= summary.max_us


@given(st.integers(1, 700))
def test_the_interval_is_the_narrowest_that_the_exact_binomial_allows(n):
    def holds(low):
        return sum(comb(n, b) for b in range(low + 1, n - low)) / 2**n

    place = median_interval(n)
    if place is None:
        assert holds(0) < CONFIDENCE
        return
    low, high = place
    assert low + high == n - 1
    assert holds(low) >= CONFIDENCE
    assert low + 1 > (n - 1) // 2 or holds(low + 1) < CONFIDENCE


@pytest.mark.parametrize("n", [10, 100, 5000, 2_000_000])
def test_the_interval_narrows_as_the_root_of_the_sample(n):
    low, high = median_interval(n)
    normal = 1.96 * n**0.5
    assert high - low == pytest.approx(normal, rel=0.05, abs=2)


@pytest.mark.parametrize("draw", [random.Random.gauss, random.Random.lognormvariate])
@pytest.mark.parametrize("n", [6, 20, 81])
def test_the_interval_holds_the_median_as_often_as_it_says(draw, n):
    generator = random.Random(8)
    true = {random.Random.gauss: 3.0, random.Random.lognormvariate: float(np.exp(3.0))}[draw]
    held = 0
    trials = 2000
    for _ in range(trials):
        summary = summarise([draw(generator, 3.0, 0.1) for _ in range(n)])
        held += summary.low_us <= true <= summary.high_us
    # three standard errors below what the binomial says; above it the interval would be too wide
    low, _ = median_interval(n)
    exact = sum(comb(n, b) for b in range(low + 1, n - low)) / 2**n
    assert held / trials == pytest.approx(exact, abs=3 * (exact * (1 - exact) / trials) ** 0.5)


@given(st.lists(st.floats(95, 105), min_size=9, max_size=60), st.floats(1e-3, 1e3))
def test_outliers_do_not_depend_on_the_unit(values, scale):
    ordered = sorted(values)
    # away from the limit itself, where rounding decides
    assert abs(outliers(ordered) - outliers([v * scale for v in ordered])) <= 1


@given(st.lists(st.floats(99, 101), min_size=9, max_size=60), st.integers(1, 4))
def test_times_far_off_are_counted_whatever_the_others_do(values, many):
    """Up to four of at least thirteen; the rest within 1 % of each other."""
    far = [500.0] * many
    assert many <= outliers(sorted(values + far)) <= many + len(values) // 2


def test_times_that_agree_within_a_tick_of_the_clock_have_no_outlier():
    assert outliers([5.0] * 40 + [5.01] * 3) == 0
    assert outliers([5.0] * 40 + [25.0]) == 1


def test_an_outlier_stays_in_every_figure():
    summary = summarise([10.0] * 99 + [1000.0])
    assert summary.outliers == 1
    assert summary.max_us == 1000.0
    assert summary.p50_us == 10.0
    assert summary.cv > 4


@given(st.lists(st.floats(50, 150), min_size=6, max_size=60))
def test_within_compares_the_interval_with_the_median(values):
    summary = summarise(values)
    width = (summary.high_us - summary.low_us) / summary.p50_us
    assert summary.within(width + 1e-9)
    assert not summary.within(width - 1e-6) or width <= 1e-6
