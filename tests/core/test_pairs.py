from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.collectives import busbw_factor, collectives
from clusterlab.core.dtypes import dtype
from clusterlab.core.errors import UsageError
from clusterlab.core.pairs import (
    LATENCY_BYTES,
    between,
    one_by_one,
    pair_steps,
    ranks_in_words,
    round_robin,
)
from clusterlab.core.rows import make_point, ranks_from_json

sizes = st.integers(2, 65)


@given(sizes)
def test_every_pair_meets_once_in_rounds_of_disjoint_pairs(n: int) -> None:
    rounds = round_robin(n)
    met = [pair for pairs in rounds for pair in pairs]
    assert sorted(met) == list(itertools.combinations(range(n), 2))
    assert len(rounds) == (n if n % 2 else n - 1)
    for pairs in rounds:
        busy = [rank for pair in pairs for rank in pair]
        assert len(busy) == len(set(busy)) == n - n % 2
    if n % 2:
        idle = [set(range(n)) - {rank for pair in pairs for rank in pair} for pairs in rounds]
        assert sorted(rank for one in idle for rank in one) == list(range(n))


@given(sizes)
def test_one_by_one_is_the_same_pairs_alone(n: int) -> None:
    rounds = one_by_one(n)
    assert all(len(pairs) == 1 for pairs in rounds)
    assert [p for r in rounds for p in r] == [p for r in round_robin(n) for p in r]


def test_a_lone_rank_has_no_pair() -> None:
    assert round_robin(1) == one_by_one(1) == ()


@given(st.integers(2, 9), st.lists(st.integers(1, 1 << 20), min_size=1, max_size=3, unique=True))
def test_every_pair_gets_latency_and_each_size_three_ways(n: int, some: list[int]) -> None:
    steps = pair_steps(round_robin(n), some, ["float32"])
    points = [point for step in steps for point in step]
    assert len(set(points)) == len(points) == n * (n - 1) // 2 * (1 + 3 * len(some))
    ways = {p.ranks for p in points if p.collective == "send"}
    assert ways == set(itertools.permutations(range(n), 2))
    assert {p.requested_bytes for p in points if p.collective == "ping_pong"} == {LATENCY_BYTES}
    for step in steps:
        assert len({(p.collective, p.size_bytes) for p in step}) == 1
        ranks = [rank for p in step for rank in p.ranks or ()]
        assert len(ranks) == len(set(ranks))


def test_operations_between_two_ranks_are_no_collectives_to_sweep() -> None:
    assert busbw_factor("send", 2) == busbw_factor("ping_pong", 2) == 1.0
    for name in ("send", "ping_pong"):
        with pytest.raises(UsageError, match="unknown collective"):
            collectives(name)


def test_the_ranks_of_a_point_are_as_many_and_different() -> None:
    f32 = dtype("float32")
    assert make_point("send", 64, f32, 2, ranks=(3, 1)).ranks == (3, 1)
    for ranks in ((1,), (1, 1), (0, 1, 2)):
        with pytest.raises(UsageError, match="2 different ranks"):
            make_point("send", 64, f32, 2, ranks=ranks)


@pytest.mark.parametrize("data", [3, "01", [0, "1"], [True, 0], {"0": 1}])
def test_foreign_ranks_are_refused_with_their_place(data: object) -> None:
    with pytest.raises(UsageError, match=r"^line 7: ranks: "):
        ranks_from_json(data, where="line 7")
    assert ranks_from_json(json.loads("[4, 2]"), where="x") == (4, 2)


def test_a_pair_says_which_way() -> None:
    assert between("send", (3, 0)) == "3 → 0"
    assert between("send_recv", (0, 3)) == "0 ↔ 3"


@pytest.mark.parametrize(
    ("collective", "ranks", "words"),
    [
        ("send", (3, 0), "rank 3 → 0"),
        ("ping_pong", (0, 1), "rank 0 ↔ 1"),
        ("send_recv", (0, 1), "rank 0 ↔ 1"),
        ("send_recv", (0, 1, 2), "ranks 0-2"),
        ("all_reduce", (0, 1), "ranks 0-1"),
        ("all_reduce", tuple(range(0, 1024, 512)), "ranks 0,512"),
        ("all_reduce", tuple(range(512)), "ranks 0-511"),
    ],
)
def test_a_group_is_not_taken_for_a_pair_and_stays_short(
    collective: str, ranks: tuple[int, ...], words: str
) -> None:
    assert ranks_in_words(collective, ranks) == words
