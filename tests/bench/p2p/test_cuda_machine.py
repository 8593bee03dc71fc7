"""What a machine copies is what was sent, from where it was sent; anything else is found."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clusterlab.bench.p2p.plan import CopyStep, all_pairs, copy_steps
from clusterlab.core.p2p import HOST, Way
from tests.bench.p2p.cpu_machine import CpuMachine, without_streams

LARGEST = 50_000
WAYS = sorted({step.way for step in copy_steps(3, all_pairs(3), [1])}, key=str)


@pytest.fixture(autouse=True)
def no_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    without_streams(monkeypatch)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.sampled_from(WAYS), st.integers(1, LARGEST))
def test_every_way_and_size_arrives_right(way: Way, size: int) -> None:
    measured = CpuMachine(3, LARGEST).copy(CopyStep(way, size))
    assert measured.wrong is None
    assert len(measured.batches_us) == 3


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_copy_that_does_not_arrive_is_wrong_in_every_byte(way: Way) -> None:
    """Also the second of two at once, and though the step before it left the same bytes there."""
    machine = CpuMachine(3, LARGEST)
    machine.copy(CopyStep(way, 4096))
    machine.lost.add((way.dst, way.src) if way.both else (way.src, way.dst))
    wrong = machine.copy(CopyStep(way, 4096)).wrong
    assert wrong is not None
    assert (wrong.count, wrong.index) == (4096, 0)


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("at", [0, 999])
def test_a_spoilt_byte_is_found_where_it_is(way: Way, at: int) -> None:
    wrong = CpuMachine(3, LARGEST, corrupt=at).copy(CopyStep(way, 1000)).wrong
    assert wrong is not None
    assert (wrong.count, wrong.index) == (1, at)
    assert wrong.got != wrong.expected
    assert CpuMachine(3, LARGEST, corrupt=1000).copy(CopyStep(way, 1000)).wrong is None


def test_no_two_places_send_the_same() -> None:
    machine = CpuMachine(3, LARGEST)
    sent = [machine._data(place) for place in (0, 1, 2, HOST)]
    for i, one in enumerate(sent):
        for other in sent[i + 1 :]:
            assert (one == other).float().mean() < 0.1
