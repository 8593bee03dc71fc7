"""Pipeline schedules: simulated and closed form agree, nothing locks up, what is kept; mistakes are seen."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.core.stepping import Span
from clusterlab.trainers.config import SCHEDULES
from clusterlab.trainers.plans.bubble import (
    StageTimes,
    bubble_fraction,
    bubble_time,
    kept,
    kept_by_formula,
    measured,
    needed_by,
    simulate,
)
from clusterlab.trainers.plans.messages import Message, locked_up, message_of, programs
from clusterlab.trainers.plans.schedules import Action, schedule, splits_backward


@st.composite
def pipelines(draw: st.DrawFn) -> tuple[str, int, int, int]:
    """Schedule, ranks, micro-batches (any number from the ranks' up), chunks."""
    name = draw(st.sampled_from(SCHEDULES))
    pp = draw(st.integers(1, 6))
    micro_batches = draw(st.integers(pp, 3 * pp + 2))
    return name, pp, micro_batches, draw(st.integers(1, 4)) if name == "interleaved" else 1


def times_for(name: str, forward: float, backward: float, weight: float) -> StageTimes:
    return StageTimes(forward, backward, weight if splits_backward(name) else 0.0)


durations = st.integers(1, 9)


@given(pipelines())
def test_every_action_is_there_once_and_on_its_rank(given_: tuple[str, int, int, int]) -> None:
    name, pp, micro_batches, chunks = given_
    lists = schedule(name, pp, micro_batches, chunks)
    kinds = "FBW" if splits_backward(name) else "FB"
    for rank, actions in enumerate(lists):
        assert len(actions) == len(set(actions))
        assert set(actions) == {
            Action(kind, stage, m)  # type: ignore[arg-type]
            for kind in kinds
            for stage in range(rank, pp * chunks, pp)
            for m in range(micro_batches)
        }


@settings(deadline=None)
@given(pipelines(), durations, durations, durations)
def test_simulated_bubble_is_the_formulas_on_every_rank(
    given_: tuple[str, int, int, int], forward: int, backward: int, weight: int
) -> None:
    name, pp, micro_batches, chunks = given_
    times = times_for(name, forward, backward, weight)
    timeline = simulate(schedule(name, pp, micro_batches, chunks), [times] * (pp * chunks))
    assert timeline.bubbles == (bubble_time(name, pp, times),) * pp
    assert timeline.fraction == pytest.approx(
        bubble_fraction(name, pp, micro_batches, chunks, times), abs=1e-12
    )


@pytest.mark.parametrize(
    ("name", "chunks", "fraction"),
    [
        ("gpipe", 1, 3 / 11),
        ("1f1b", 1, 3 / 11),
        ("interleaved", 2, 3 / 19),
        ("zero_bubble", 1, 1 / 9),
    ],
)
def test_bubbles_of_four_ranks_and_eight_micro_batches(
    name: str, chunks: int, fraction: float
) -> None:
    times = times_for(name, 1, 1, 1)
    timeline = simulate(schedule(name, 4, 8, chunks), [times] * (4 * chunks))
    assert timeline.fraction == pytest.approx(fraction, abs=1e-12)


@settings(deadline=None)
@given(pipelines(), st.data())
def test_no_action_starts_before_what_it_needs(
    given_: tuple[str, int, int, int], data: st.DataObject
) -> None:
    """With unequal stages and sends that take time; a rank does one thing at a time."""
    name, pp, micro_batches, chunks = given_
    each = st.builds(times_for, st.just(name), durations, durations, durations)
    stages = [data.draw(each) for _ in range(pp * chunks)]
    send = data.draw(st.integers(0, 5))
    stages = [StageTimes(s.forward, s.backward, s.weight, send) for s in stages]
    timeline = simulate(schedule(name, pp, micro_batches, chunks), stages)
    runs = {run.action: run for rank in timeline.ranks for run in rank}
    for action, run in runs.items():
        assert run.end - run.start == stages[action.stage].of(action)
        for need in needed_by(action, pp * chunks):
            apart = need.stage % pp != action.stage % pp
            assert run.start >= runs[need].end + (send if apart else 0)
    for rank in timeline.ranks:
        assert all(before.end <= after.start for before, after in pairwise(rank))
    # A step is no shorter than the busiest rank, nor than a micro-batch's way there and back.
    way = 2 * (pp * chunks - 1) * (send if pp > 1 else 0)
    assert timeline.step >= sum(s.forward + s.backward for s in stages) + way
    assert min(timeline.bubbles) >= 0


@settings(deadline=None)
@given(pipelines())
def test_nothing_locks_up_though_all_sends_and_receives_block(
    given_: tuple[str, int, int, int],
) -> None:
    name, pp, micro_batches, chunks = given_
    lists = schedule(name, pp, micro_batches, chunks)
    found = programs(lists)
    assert locked_up(found) == []
    for rank, program in enumerate(found):
        assert tuple(step for step in program if isinstance(step, Action)) == lists[rank]
    sent = [s for r, p in enumerate(found) for s in p if isinstance(s, Message) and s.source == r]
    received = [
        s for r, p in enumerate(found) for s in p if isinstance(s, Message) and s.target == r
    ]
    assert sorted(map(str, sent)) == sorted(map(str, received))
    between = (pp * chunks - 1) * micro_batches * 2 if pp > 1 else 0
    assert len(sent) == between == len(set(sent))


def eager(name: str, pp: int, micro_batches: int) -> list[tuple[Action | Message, ...]]:
    """Programs that send as soon as they can and receive as late as they must."""
    found = []
    for rank, actions in enumerate(schedule(name, pp, micro_batches)):
        steps: list[Action | Message] = []
        for action in actions:
            for need in needed_by(action, pp):
                message = message_of(need, pp, pp)
                if message is not None and message.target == rank:
                    steps.append(message)
            steps.append(action)
            message = message_of(action, pp, pp)
            if message is not None:
                steps.append(message)
        found.append(tuple(steps))
    return found


def test_eager_sends_lock_up_in_1f1b_but_not_in_gpipe() -> None:
    assert locked_up(eager("gpipe", 4, 8)) == []
    stuck = locked_up(eager("1f1b", 4, 8))
    assert len(stuck) == 4, "two neighbours send to each other at once, all others wait for them"


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_receive_that_is_missing_or_out_of_order_is_a_standstill(name: str) -> None:
    found = list(programs(schedule(name, 3, 6, 2 if name == "interleaved" else 1)))
    places = [i for i, step in enumerate(found[1]) if isinstance(step, Message)]
    without = tuple(step for i, step in enumerate(found[1]) if i != places[3])
    assert locked_up([found[0], without, found[2]])
    swapped = list(found[1])
    a, b = places[0], next(i for i in places if swapped[i].target != swapped[places[0]].target)  # type: ignore[union-attr]
    swapped[a], swapped[b] = swapped[b], swapped[a]
    assert locked_up([found[0], tuple(swapped), found[2]])


def test_ranks_that_wait_in_a_circle_are_named() -> None:
    lists = list(schedule("1f1b", 2, 2))
    lists[1] = tuple(reversed(lists[1]))
    with pytest.raises(ValueError, match=r"rank 0 at B0\.0, rank 1 at B1\.1"):
        simulate(lists, [StageTimes(1, 1)] * 2)


@given(pipelines())
def test_what_is_kept_is_the_formulas(given_: tuple[str, int, int, int]) -> None:
    name, pp, micro_batches, chunks = given_
    lists = schedule(name, pp, micro_batches, chunks)
    for rank, actions in enumerate(lists):
        assert kept(actions) == kept_by_formula(name, pp, rank, micro_batches, chunks)


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("skew_us", [0.0, 7_000.0])
def test_a_timeline_as_spans_of_ledgers_is_measured_as_simulated(name: str, skew_us: float) -> None:
    """Each rank's step begins when it likes, by its own ledger at 0."""
    chunks = 2 if name == "interleaved" else 1
    times = times_for(name, 30, 50, 20)
    timeline = simulate(schedule(name, 4, 9, chunks), [times] * (4 * chunks))
    words = {"F": "forward", "B": "backward", "W": "backward"}
    began = [rank * skew_us for rank in range(4)]
    spans: list[list[Span]] = [[], [], [], []]
    for rank, runs in enumerate(timeline.ranks):
        for run in runs:
            start, end = run.start - began[rank], run.end - began[rank]
            spans[rank] += [
                Span(0, "wait", 0, start - 1, start),
                Span(0, words[run.action.kind], 0, start, end),
            ]
    found = measured(spans, began)
    assert found == pytest.approx([bubble / timeline.step for bubble in timeline.bubbles])
    assert sum(found) / 4 == pytest.approx(timeline.fraction)
