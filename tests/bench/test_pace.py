"""How many calls, and when to stop: decided from numbers that all ranks share."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.bench.options import BenchOptions
from clusterlab.bench.pace import (
    LEAST_BATCH,
    LEAST_LOOP,
    LEAST_REPLAYS,
    LOOP_US,
    MOST_BATCH,
    MOST_LOOP,
    MOST_PER_GRAPH,
    MOST_SAMPLES,
    REPLAY_US,
    choose_pace,
    next_batch,
    size_class,
    stopped,
    warmup_calls,
)
from clusterlab.bench.statistics import summarise

AUTO = BenchOptions(iterations=None, warmup=None)
call_times = st.floats(0, 1e8)


@given(st.integers(1, 1000), call_times, st.sampled_from(["eager", "direct"]))
def test_a_number_of_iterations_is_obeyed_whatever_a_call_takes(iterations, call_us, timing):
    options = BenchOptions(iterations=iterations)
    pace = choose_pace(options, timing, call_us)
    assert (pace.loop, pace.calls, pace.timed) == (iterations,) * 3
    assert pace.per_graph is None
    assert next_batch(options, pace, 0, call_us, 0.0) == iterations
    assert stopped(options, pace, [], 1, 1e9) == "count"


@given(st.integers(1, 500), st.integers(1, 500), call_times)
def test_a_graph_with_n_and_g_is_nccl_tests_graph(iterations, launches, call_us):
    options = BenchOptions(iterations=iterations, graph_launches=launches)
    pace = choose_pace(options, "graph", call_us)
    assert (pace.per_graph, pace.loop) == (iterations, launches)
    assert pace.calls == iterations * launches
    assert pace.timed == max(launches, LEAST_REPLAYS)


@given(call_times, st.sampled_from([None, 7]))
def test_a_replay_is_long_against_its_beginning(call_us, iterations):
    pace = choose_pace(BenchOptions(iterations=iterations), "graph", call_us)
    assert 1 <= pace.per_graph <= MOST_PER_GRAPH
    assert pace.per_graph * call_us >= REPLAY_US * (1 - 1e-9) or pace.per_graph == MOST_PER_GRAPH
    assert (pace.per_graph - 1) * max(call_us, 0.1) < REPLAY_US  # and no longer than that needs
    assert pace.timed == iterations


@given(call_times)
def test_an_automatic_loop_is_long_and_bounded(call_us):
    pace = choose_pace(AUTO, "eager", call_us)
    assert LEAST_LOOP <= pace.loop <= MOST_LOOP
    assert pace.loop * call_us >= LOOP_US * (1 - 1e-9) or pace.loop == MOST_LOOP


@given(st.floats(0.1, 5e6), st.floats(0.01, 5.0))
def test_batches_grow_and_end_within_the_budget_but_for_one_least_batch(unit_us, budget_s):
    """Times that never agree: the budget must end it."""
    options = BenchOptions(iterations=None, budget_s=budget_s)
    pace = choose_pace(options, "eager", unit_us)
    done, spent_s, batches = 0, 0.0, []
    wild = itertools.cycle([unit_us, 3 * unit_us])
    some = summarise(list(itertools.islice(wild, 100)))
    while True:
        batch = next_batch(options, pace, done, unit_us, spent_s)
        assert LEAST_BATCH <= batch <= MOST_BATCH
        batches.append(batch)
        done += batch
        spent_s += batch * unit_us / 1e6
        why = stopped(options, pace, [some], done, spent_s)
        if why is not None:
            break
        assert len(batches) < 100
    assert why == "budget"
    assert spent_s <= budget_s + LEAST_BATCH * unit_us / 1e6 + 1e-9
    assert done < MOST_SAMPLES + MOST_BATCH
    assert len(batches) <= 3 + math.log2(max(done, 2)) + done / MOST_BATCH


@given(st.floats(1, 1e6), st.floats(0.001, 0.2), st.integers(6, 200))
def test_it_stops_when_all_medians_are_known_and_not_before(centre, width, n):
    """Times spread over exactly ``width`` of their median, in one group of the two."""
    options = BenchOptions(iterations=None, median_within=0.02, budget_s=100.0)
    pace = choose_pace(options, "eager", centre)
    spread = [centre * (1 - width / 2 + width * i / (n - 1)) for i in range(n)]
    summary, still = summarise(spread), summarise([centre] * n)
    known = summary.high_us - summary.low_us <= 0.02 * summary.p50_us
    assert stopped(options, pace, [still, summary], n, 1.0) == ("confident" if known else None)
    assert stopped(options, pace, [still, still], n, 1.0) == "confident"
    assert stopped(options, pace, [summary], n, 100.0) == ("confident" if known else "budget")


def test_fewer_than_six_times_are_never_confident():
    for n in range(1, 6):
        pace = choose_pace(AUTO, "eager", 5.0)
        assert stopped(AUTO, pace, [summarise([5.0] * n)], n, 0.1) is None


@pytest.mark.parametrize("size", [1, 64 << 10, 1 << 20, 8 << 20, 64 << 20, 256 << 20, 1 << 32])
def test_larger_sizes_warm_up_no_longer_than_smaller_ones(size):
    assert warmup_calls(size) <= warmup_calls(max(size // 2, 1))
    assert warmup_calls(size) >= 3
    assert size_class(size) <= size_class(size * 2) <= size_class(size) + 1
