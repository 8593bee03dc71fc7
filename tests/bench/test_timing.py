"""Timers call exactly as often as they say, and say when."""

from __future__ import annotations

import pytest
import torch

from clusterlab.bench.timing import MonotonicTimer, Samples, timer_for


@pytest.mark.parametrize("iterations", [1, 7, 20])
def test_loop_and_each_make_exactly_that_many_calls(iterations):
    calls = []
    timer = MonotonicTimer()
    assert timer.loop_us(lambda: calls.append(1), iterations) >= 0
    assert len(calls) == iterations
    samples = timer.each(lambda: calls.append(1), iterations)
    assert len(calls) == 2 * iterations
    assert len(samples.times_us) == len(samples.begun_us) == iterations
    assert all(s >= 0 for s in samples.times_us)
    assert samples.begun_us == sorted(samples.begun_us)


def test_loop_and_each_agree_on_a_clock_of_our_own(monkeypatch):
    """Every call advances the clock by 3 µs: both must read 3 µs per call."""
    now_ns = [0]
    monkeypatch.setattr("time.perf_counter_ns", lambda: now_ns[0])

    def call() -> None:
        now_ns[0] += 3000

    timer = MonotonicTimer()
    assert timer.loop_us(call, 10) == 3.0
    assert timer.each(call, 3) == Samples([3.0] * 3, [30.0, 33.0, 36.0])


def test_cpu_collectives_are_timed_by_the_clock():
    assert isinstance(timer_for(torch.device("cpu")), MonotonicTimer)
