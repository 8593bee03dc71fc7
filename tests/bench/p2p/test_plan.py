"""What a probe measures: every pair both ways, every step once, in every shape of machine."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.bench.p2p.plan import all_pairs, copy_steps, kernel_steps, parse_pairs
from clusterlab.core.errors import UsageError
from clusterlab.core.p2p import HOST, Way
from tests.bench.p2p.fakes import access, gpus


@given(st.integers(1, 9), st.lists(st.integers(1, 1 << 30), min_size=1, max_size=4, unique=True))
def test_every_two_gpus_are_copied_between_one_way_the_other_and_both(
    n: int, sizes: list[int]
) -> None:
    steps = copy_steps(n, all_pairs(n), sizes)
    assert len(set(steps)) == len(steps)
    ways = {step.way for step in steps}
    assert {(w.src, w.dst) for w in ways if w.kind == "peer" and not w.both} == set(
        itertools.permutations(range(n), 2)
    )
    assert {(w.src, w.dst) for w in ways if w.kind == "peer" and w.both} == set(all_pairs(n))
    for gpu in range(n):
        assert {Way(gpu, gpu), Way(HOST, gpu), Way(gpu, HOST), Way(HOST, gpu, True)} <= ways
    assert all({s.size_bytes for s in steps if s.way == way} == set(sizes) for way in ways)


def test_only_the_gpus_of_the_named_pairs_are_touched() -> None:
    ways = {step.way for step in copy_steps(8, [(1, 5)], [8])}
    assert {place for way in ways for place in (way.src, way.dst)} == {1, 5, HOST}


@given(st.integers(1, 6), st.integers(1, 200), st.booleans())
def test_the_kernel_never_has_more_programs_than_sms_and_always_all(
    n: int, sms: int, may: bool
) -> None:
    machine = gpus(n, sms)
    steps = kernel_steps(
        machine, all_pairs(n), access(n, cuda=may),
        programs=(1, 7, 500), access_bytes=(4, 16), size_bytes=256,
    )  # fmt: skip
    assert len(set(steps)) == len(steps)
    assert max(step.programs for step in steps) == sms
    touched = {(step.touch.gpu, step.touch.peer) for step in steps}
    if n == 1 or not may:
        assert {step.touch.access for step in steps} == {"local"}
        assert touched == {(0, 0)}
        return
    assert touched == set(itertools.permutations(range(n), 2))
    for step in steps:  # the whole sweep for the first pair, the most of both for the others
        if (step.touch.gpu, step.touch.peer) != (0, 1):
            assert (step.programs, step.access_bytes) == (sms, 16)
    first = [s for s in steps if (s.touch.gpu, s.touch.peer) == (0, 1)]
    assert len(first) == 2 * 2 * len({min(p, sms) for p in (1, 7, 500)})


def test_a_pair_that_may_not_is_left_out_of_the_kernel() -> None:
    table = tuple(a for a in access(3) if (a.src, a.dst) != (0, 1))
    steps = kernel_steps(
        gpus(3), all_pairs(3), table, programs=(1,), access_bytes=(16,), size_bytes=256
    )
    touched = {(step.touch.gpu, step.touch.peer) for step in steps}
    assert touched == set(itertools.permutations(range(3), 2)) - {(0, 1)}


@pytest.mark.parametrize(
    ("text", "pairs"),
    [("all", [(0, 1), (0, 2), (1, 2)]), ("2-0", [(0, 2)]), ("0-1, 1-2,1-0", [(0, 1), (1, 2)])],
)
def test_pairs_are_read_lower_first_and_once(text: str, pairs: list[tuple[int, int]]) -> None:
    assert parse_pairs(text, 3) == pairs


@pytest.mark.parametrize(
    "text", ["", "0", "0-0", "0-3", "-1-0", "0-1-2", "a-b", "0-1,", "٠-١", "0-99999999"]
)
def test_what_is_no_pair_is_refused_by_its_name(text: str) -> None:
    with pytest.raises(UsageError, match=r"--pairs: no pair of GPUs"):
        parse_pairs(text, 3)
