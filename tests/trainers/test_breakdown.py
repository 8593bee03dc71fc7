"""The step breakdown, against intervals made by hand and by brute force."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.stepping import Entry, Span, StepLedger
from clusterlab.trainers.breakdown import Piece, break_down, exposed_us, painted, transfers
from clusterlab.trainers.collectives import summarise


def span(name: str, start: float, end: float) -> Span:
    return Span(0, name, None, start, end)


def entry(
    axis: str, start: float, end: float, waited: float | None, op: str = "all_reduce", size: int = 8
) -> Entry:
    return Entry(0, op, axis, (0, 1), size, "float32", "forward", None, start, end, waited)


STEP = [
    span("data", 0, 10),
    span("forward", 10, 40),
    span("backward", 40, 100),
    span("reduce", 100, 120),
    span("optimizer", 120, 130),
    span("step", 0, 140),
]


def test_computation_alone_is_its_spans_and_the_rest_is_other() -> None:
    found = break_down(STEP, [])
    assert (found.data_us, found.forward_us, found.backward_us) == (10, 30, 60)
    assert (found.optimizer_us, found.other_us, found.bubble_us) == (10, 30, 0)
    assert found.exposed_us == {}
    assert found.total_us == found.step_us == 140


def test_what_runs_beside_the_backward_is_hidden_until_the_rank_waits() -> None:
    found = break_down(STEP, [entry("dp", 60, 115, 105)])
    assert found.exposed_us == {"dp": 10}
    assert found.backward_us == 60
    assert found.other_us == 20


def test_a_blocking_collective_takes_its_time_from_the_forward() -> None:
    found = break_down(STEP, [entry("tp", 15, 22, 15), entry("tp", 30, 33, 30)])
    assert found.exposed_us == {"tp": 10}
    assert found.forward_us == 20


def test_making_a_call_is_no_computation() -> None:
    one = replace(entry("dp", 50, 112, 105), issued_us=54)
    found = break_down(STEP, [one])
    assert (found.exposed_us, found.backward_us) == ({"dp": 11}, 56)
    assert exposed_us(one, STEP) == 11


def test_without_a_noted_wait_only_what_no_computation_covers_is_exposed() -> None:
    one = entry("dp", 90, 110, None)
    assert break_down(STEP, [one]).exposed_us == {"dp": 10}
    assert exposed_us(one, STEP) == 10


def test_receiving_in_a_pipeline_is_bubble_but_for_the_transfer() -> None:
    late, early = entry("pp", 10, 30, 10, "recv"), entry("pp", 50, 54, 50, "recv")
    assert transfers([late, early]) == {8: 4}
    found = break_down(STEP, [late, early], transfers([late, early]))
    assert found.bubble_us == 16
    assert found.exposed_us == {"pp": 8}
    assert break_down(STEP, [late, early]).bubble_us == 24


def test_sending_in_a_pipeline_without_handshakes_is_bubble_but_for_the_transfer() -> None:
    taken, received = entry("pp", 10, 30, 12, "send"), entry("pp", 50, 54, 50, "recv")
    found = break_down(STEP, [taken, received], {8: 4.0})
    assert (found.bubble_us, found.exposed_us) == (14, {"pp": 8})
    # Nobody waited for it: it lies beside the forward.
    assert break_down(STEP, [entry("pp", 10, 30, None, "send")], {8: 4.0}).bubble_us == 0
    byte = replace(entry("pp", 5, 8, 5, "recv", 1), phase="handshake")
    assert break_down(STEP, [taken, byte]).exposed_us == {"pp": 18}


def test_a_handshake_tells_the_bubble_from_the_transfer() -> None:
    byte = replace(entry("pp", 5, 30, 10, "recv", 1), phase="handshake")
    message = entry("pp", 6, 34, 30, "recv")
    found = break_down(STEP, [byte, message], {8: 1.0})
    assert (found.bubble_us, found.exposed_us, found.forward_us) == (20, {"pp": 4}, 6)


def test_phases_may_say_more_than_their_kind() -> None:
    spans = [span("backward_input", 0, 4), span("wait", 4, 6), span("step", 0, 10)]
    found = break_down(spans, [])
    assert (found.backward_us, found.bubble_us, found.other_us) == (4, 2, 4)


times = st.floats(0, 1000, allow_nan=False, width=32)
pieces = st.builds(
    lambda a, b, name, rank: Piece(min(a, b), max(a, b), name, rank),
    times, times, st.sampled_from("abc"), st.integers(0, 3),
)  # fmt: skip


@given(st.lists(pieces, max_size=25))
def test_parts_add_up_whatever_the_intervals(found: list[Piece]) -> None:
    parts = painted(found, 100, 900)
    assert sum(parts.values()) == pytest.approx(800)
    assert all(us >= 0 for us in parts.values())


@given(st.lists(st.builds(
    lambda a, b, name, rank: Piece(min(a, b), max(a, b), name, rank),
    st.integers(0, 30), st.integers(0, 30), st.sampled_from("abc"), st.integers(0, 2),
), max_size=12))  # fmt: skip
def test_every_instant_goes_to_the_highest_and_then_the_latest(found: list[Piece]) -> None:
    if len({(p.rank, p.start_us) for p in found}) < len(found):
        return  # two that began together: either will do
    parts = painted(found, 0, 30)
    for name in "abc":
        assert parts.get(name, 0.0) == sum(_belongs(found, at, name) for at in range(30))


def _belongs(found: list[Piece], at: int, name: str) -> bool:
    holds = [p for p in found if p.start_us <= at < p.end_us]
    return bool(holds) and max(holds, key=lambda p: (p.rank, p.start_us)).name == name


@given(
    st.lists(st.tuples(times, times, times), max_size=10),
    st.lists(st.tuples(st.sampled_from(["data", "forward", "backward", "reduce"]), times, times)),
)
def test_a_step_is_the_sum_of_its_parts(
    calls: list[tuple[float, float, float]], phases: list[tuple[str, float, float]]
) -> None:
    entries = []
    for three in calls:
        start, waited, end = sorted(three)
        entries.append(entry("dp", start, end, waited))
    spans = [span(name, min(a, b), max(a, b)) for name, a, b in phases]
    found = break_down([*spans, span("step", 0, 1000)], entries)
    assert found.total_us == pytest.approx(1000, rel=1e-9)


def test_a_summary_counts_a_steps_calls_and_their_rates() -> None:
    ledger = StepLedger(
        0, "here", 1, 0, 0.0, tuple(STEP),
        (entry("dp", 60, 115, 105, size=1000), entry("dp", 100, 120, 115, size=1000)),
    )  # fmt: skip
    (one,) = summarise([ledger, ledger], {("all_reduce", "dp", 2, 1000, "float32", "forward"): 9.0})
    assert (one.count, one.time_us, one.predicted_us) == (2, 37.5, 9.0)
    assert one.algbw_GBps == pytest.approx(1000 / 37.5e3)
    assert one.busbw_GBps == one.algbw_GBps  # 2 (n-1) / n of two ranks
    assert (one.exposed_us, one.hidden_us) == (15, 60)


@given(st.lists(st.integers(8, 1 << 20), min_size=1, max_size=20))
def test_calls_whose_sizes_follow_from_routing_share_a_row(sizes: list[int]) -> None:
    calls = [
        replace(
            entry("ep", 10.0 * i, 10.0 * i + 5, 10.0 * i, size=size), op="all_to_all_v", phase=phase
        )
        for i, size in enumerate(sizes)
        for phase in ("dispatch", "combine")
    ]
    ledger = StepLedger(0, "here", 1, 0, 0.0, tuple(STEP), tuple(calls))
    rows = summarise([ledger])
    assert [row.phase for row in rows] == ["dispatch", "combine"]
    for row in rows:
        assert row.count == len(sizes)
        assert row.size_bytes == round(sum(sizes) / len(sizes))
        differ = min(sizes) != max(sizes)
        assert (row.least_bytes, row.most_bytes) == (
            (min(sizes), max(sizes)) if differ else (None, None)
        )
        assert row.algbw_GBps == pytest.approx(row.size_bytes / 5e3)
    # Other calls are told apart by their size.
    plain = [replace(one, op="all_reduce") for one in calls]
    assert len(summarise([replace(ledger, entries=tuple(plain))])) == 2 * len(set(sizes))
