"""Timers call exactly as often as they say; quantiles are numpy's."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.bench.timing import MonotonicTimer, quantile, summarise, timer_for

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
    assert summary.min_us <= summary.p50_us <= summary.p95_us <= summary.max_us
    assert summary.p50_us == pytest.approx(float(np.median(values)))
    if len(values) > 1:
        expected = float(np.std(values, ddof=1) / np.mean(values))
        assert summary.cv == pytest.approx(expected, abs=1e-9)
    else:
        assert summary.cv == 0


@pytest.mark.parametrize("iterations", [1, 7, 20])
def test_loop_and_each_make_exactly_that_many_calls(iterations):
    calls = []
    timer = MonotonicTimer()
    assert timer.loop_us(lambda: calls.append(1), iterations) >= 0
    assert len(calls) == iterations
    samples = timer.each_us(lambda: calls.append(1), iterations)
    assert len(calls) == 2 * iterations
    assert len(samples) == iterations
    assert all(s >= 0 for s in samples)


def test_loop_and_each_agree_on_a_clock_of_our_own(monkeypatch):
    """Every call advances the clock by 3 µs: both must read 3 µs per call."""
    now_ns = [0]
    monkeypatch.setattr("time.perf_counter_ns", lambda: now_ns[0])

    def call() -> None:
        now_ns[0] += 3000

    timer = MonotonicTimer()
    assert timer.loop_us(call, 10) == 3.0
    assert timer.each_us(call, 4) == [3.0] * 4


def test_cpu_collectives_are_timed_by_the_clock():
    assert isinstance(timer_for(torch.device("cpu")), MonotonicTimer)
