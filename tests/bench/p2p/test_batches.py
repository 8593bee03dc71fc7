"""Batches begin when the host has queued them: the lead grows until that is so, or it is said."""

from __future__ import annotations

import time
from statistics import median
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.bench.p2p.batches import Batches, per_batch
from clusterlab.bench.p2p.deadline import deadline
from clusterlab.bench.p2p.probe import Measured, times_of


def batches(monkeypatch: pytest.MonkeyPatch, enough: int) -> tuple[Batches, list[int]]:
    """Batches whose host keeps ahead from ``enough`` fills on; behind, a batch takes ten times as long."""
    made, seen = Batches(), []

    def batch(_lanes: Any, _count: int) -> tuple[float, bool]:
        seen.append(made._fills)
        return (1.0, True) if made._fills >= enough else (10.0, False)

    monkeypatch.setattr(made, "_batch", batch)
    return made, seen


@pytest.mark.parametrize("enough", [1, 16, 17, 1000, 4096])
def test_the_lead_grows_until_the_host_keeps_ahead(
    monkeypatch: pytest.MonkeyPatch, enough: int
) -> None:
    made, seen = batches(monkeypatch, enough)
    assert made.measure([], 3, 5) == ([1.0] * 5, True)
    again = len(seen)
    assert made.measure([], 3, 5) == ([1.0] * 5, True)
    assert len(seen) - again == 6, "the length that was learnt is kept: one batch apart and five"


def test_a_host_that_never_keeps_ahead_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    made, seen = batches(monkeypatch, 1 << 30)
    assert made.measure([], 3, 5) == ([10.0] * 5, False)
    assert max(seen) <= 4096


@given(st.integers(0, 1 << 40))
def test_a_batch_has_an_operation_and_no_more_than_it_needs(size: int) -> None:
    count = per_batch(size)
    assert 1 <= count <= 16
    assert count == 1 or count * size <= 64 << 20


@given(st.lists(st.floats(0.1, 1e6), min_size=1, max_size=30), st.booleans())
def test_times_are_median_and_extremes(times: list[float], ahead: bool) -> None:
    found = times_of(Measured(times, ahead, None))
    assert (found.min_us, found.max_us, found.batches) == (min(times), max(times), len(times))
    assert found.median_us == median(times)
    assert found.ahead is ahead


def test_a_step_that_outlasts_its_deadline_is_ended_and_one_that_does_not_is_not() -> None:
    ended: list[tuple[str, float]] = []
    with deadline(60.0, "quick", lambda what, s: ended.append((what, s))):
        pass
    assert not ended
    with deadline(0.05, "slow", lambda what, s: ended.append((what, s))):
        time.sleep(0.5)
    assert ended == [("slow", 0.05)]
