from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.core.patterns import group_name, groups_of, pattern_name
from clusterlab.core.placement import Placement, RankPlacement

patterns = st.one_of(
    st.sampled_from(["all", "node", "rail", "halves"]), st.integers(1, 9).map("nodes:{}".format)
)


def placed(per_host: list[int], *, cyclic: bool = False) -> Placement:
    """Ranks on hosts n0, n1, …, filled one after the other, or dealt in turn."""
    seats = [(local, h) for h, count in enumerate(per_host) for local in range(count)]
    if not cyclic:
        seats.sort(key=lambda seat: (seat[1], seat[0]))
    else:
        seats.sort()
    return Placement(tuple(RankPlacement(r, f"n{h}", local) for r, (local, h) in enumerate(seats)))


@st.composite
def placements(draw: st.DrawFn) -> Placement:
    per_host = draw(st.lists(st.integers(1, 5), min_size=1, max_size=9))
    return placed(per_host, cyclic=draw(st.booleans()))


@given(patterns, placements())
def test_every_rank_is_in_exactly_one_group(pattern, placement):
    if pattern == "halves" and placement.world_size < 2:
        return
    groups = groups_of(pattern, placement)
    everyone = [rank for group in groups for rank in group.ranks]
    assert sorted(everyone) == list(range(placement.world_size))
    assert all(group.ranks == tuple(sorted(group.ranks)) for group in groups)
    assert len({group.name for group in groups}) == len(groups)


@given(placements())
def test_a_node_is_one_host_and_a_rail_one_seat_of_every_host(placement):
    of = placement.ranks
    for group in groups_of("node", placement):
        assert len({of[r].host for r in group.ranks}) == 1
    for group in groups_of("rail", placement):
        assert len({of[r].local_rank for r in group.ranks}) == 1
        assert len({of[r].host for r in group.ranks}) == len(group.ranks)


@given(placements(), st.integers(1, 9))
def test_batches_have_so_many_hosts_and_the_last_what_is_left(placement, k):
    hosts = [{placement.ranks[r].host for r in g.ranks} for g in groups_of(f"nodes:{k}", placement)]
    assert all(len(batch) == k for batch in hosts[:-1])
    assert 1 <= len(hosts[-1]) <= k
    assert sum(map(len, hosts)) == len(placement.hosts)


@given(placements())
def test_halves_are_two_and_differ_by_one_host_at_most(placement):
    if placement.world_size < 2:
        return
    first, second = groups_of("halves", placement)
    hosts = [len({placement.ranks[r].host for r in g.ranks}) for g in (first, second)]
    if len(placement.hosts) > 1:
        assert 0 <= hosts[0] - hosts[1] <= 1
    else:
        assert 0 <= len(first.ranks) - len(second.ranks) <= 1


def test_names_say_where():
    placement = placed([2, 2, 2, 2])
    assert [g.name for g in groups_of("rail", placement)] == ["rail 0", "rail 1"]
    assert [g.name for g in groups_of("node", placement)][:2] == ["host n0", "host n1"]
    assert [g.name for g in groups_of("nodes:3", placement)] == ["hosts n0–n2", "host n3"]
    assert [g.name for g in groups_of("halves", placement)] == ["hosts n0–n1", "hosts n2–n3"]
    assert [g.name for g in groups_of("halves", placed([3]))] == ["ranks 0-1", "ranks 2"]
    assert [g.name for g in groups_of("all", placement)] == ["all ranks"]
    assert group_name((0, 1, 4, 5), placement) == "ranks 0-1,4-5"  # hosts apart
    assert group_name((0, 2), placement) == "ranks 0,2"  # not the whole rail
    assert group_name((0, 2), None) == "ranks 0,2"
    assert groups_of("rail", placed([2, 2], cyclic=True))[0].ranks == (0, 1)


def test_groups_are_taken_as_written():
    found = groups_of(pattern_name("groups:3,1/0, 4-6"), placed([8]))
    assert [g.ranks for g in found] == [(1, 3), (0, 4, 5, 6)]
    assert [g.name for g in found] == ["ranks 1,3", "ranks 0,4-6"]


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("Node", "node"),
        ("nodes:04", "nodes:4"),
        ("groups:0,1,2/3", "groups:0-2/3"),
        (" ALL ", "all"),
    ],
)
def test_names_are_kept_in_one_way(typed, kept):
    assert pattern_name(typed) == kept
    assert pattern_name(kept) == kept


@pytest.mark.parametrize(
    "typed",
    ["", "nod", "nodes", "nodes:0", "nodes:-1", "nodes:x", "groups:", "groups:1-0", "groups:0/0",
     "groups:a", "node:3", "groups:0-1/1-2"],
)  # fmt: skip
def test_other_names_are_refused(typed):
    with pytest.raises(UsageError):
        pattern_name(typed)


def test_one_by_one_is_part_of_the_name_and_changes_no_group():
    kept = pattern_name("nodes:2", one_by_one=True)
    assert kept == "nodes:2_one_by_one" == pattern_name(kept) == pattern_name(kept, one_by_one=True)
    assert groups_of(kept, placed([2] * 5)) == groups_of("nodes:2", placed([2] * 5))
    assert pattern_name("all", one_by_one=True) == "all"


def test_groups_of_ranks_that_there_are_not_are_refused():
    with pytest.raises(UsageError, match="rank 9 of 4"):
        groups_of("groups:0/9", placed([4]))
    with pytest.raises(UsageError, match="at least 2"):
        groups_of("halves", placed([1]))
