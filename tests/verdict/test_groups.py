from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.core.dtypes import DTYPES
from clusterlab.core.patterns import groups_of
from clusterlab.core.placement import Placement, RankPlacement
from clusterlab.core.rows import Row, make_point
from clusterlab.verdict.groups import group_tables, groups_to_json, nobody_because, slow_groups
from clusterlab.verdict.pairs import pair_tables
from tests.records.fake_runs import fake_row, fake_rows, points, renamed
from tests.verdict.test_pairs import pair_rows

SIZES = tuple(4096 * 4**i for i in range(6))


def hosts(count: int, per_host: int) -> Placement:
    return Placement(
        tuple(RankPlacement(r, f"n{r // per_host}", r % per_host) for r in range(count * per_host))
    )


EIGHT_HOSTS = hosts(8, 2)


def group_rows(
    pattern: str = "node",
    placement: Placement = EIGHT_HOSTS,
    *,
    noise: float = 0.02,
    seed: int = 1,
    collective: str = "all_reduce",
    sizes: tuple[int, ...] = SIZES,
) -> list[Row]:
    rng = random.Random(seed)
    return [
        fake_row(
            make_point(
                collective, size, DTYPES["float32"], len(group.ranks), ranks=group.ranks,
                in_place=in_place,
            ),
            rng,
            noise=noise,
        )
        for size in sizes
        for in_place in (False, True)
        for group in groups_of(pattern, placement)
    ]  # fmt: skip


def slowed(rows: list[Row], ranks: tuple[int, ...], factor: float, least: int = 0) -> list[Row]:
    return [
        renamed(r, busbw_GBps=r.busbw_GBps / factor)
        if r.ranks == ranks and r.requested_bytes >= least
        else r
        for r in rows
    ]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 7), st.floats(1.35, 30), st.integers(0, 10**6))
def test_the_slow_group_is_named_and_no_other(which, factor, seed) -> None:
    placement = hosts(8, 2)
    slow = groups_of("node", placement)[which].ranks
    found = slow_groups(group_tables(slowed(group_rows(seed=seed), slow, factor)), None)
    assert [group.ranks for group in found] == [slow]
    assert found[0].where == "all"
    assert found[0].slowdown == pytest.approx(factor, rel=0.15)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["node", "halves", "rail", "nodes:3"]))
def test_noise_names_nobody(seed, pattern) -> None:
    rows = group_rows(pattern, hosts(8, 2), seed=seed, noise=0.02)
    # groups of different size take different times by the made-up model
    rows = [r for r in rows if r.world_size == rows[0].world_size]
    assert slow_groups(group_tables(rows), None) == ()


def test_a_group_that_is_slow_at_large_sizes_is_named_for_those() -> None:
    rows = slowed(group_rows(), (4, 5), 2.0, least=SIZES[3])
    (found,) = slow_groups(group_tables(rows), None)
    assert (found.ranks, found.where, found.outlying, found.points) == ((4, 5), "all", 3, 6)
    rows = slowed(group_rows(), (4, 5), 2.0, least=SIZES[4])
    (found,) = slow_groups(group_tables(rows), None)
    assert (found.where, found.outlying, found.points) == ("large", 2, 3)


def test_one_point_is_taken_for_chance_also_where_it_is_all_there_is() -> None:
    for sizes in (SIZES[:2], SIZES[:1]):
        rows = [r for r in group_rows(sizes=sizes) if not r.in_place]
        found = slow_groups(group_tables(slowed(rows, (4, 5), 2.0, least=sizes[-1])), None)
        assert found == ()


def test_of_two_groups_one_can_stand_out_and_two_slow_ones_of_eight() -> None:
    rows = group_rows("halves", hosts(4, 2))
    (found,) = slow_groups(group_tables(slowed(rows, (4, 5, 6, 7), 1.6)), None)
    assert found.ranks == (4, 5, 6, 7)
    rows = slowed(slowed(group_rows(), (0, 1), 2.0), (6, 7), 3.0)
    assert [g.ranks for g in slow_groups(group_tables(rows), None)] == [(6, 7), (0, 1)]


def test_faster_is_not_slow() -> None:
    assert slow_groups(group_tables(slowed(group_rows(), (2, 3), 0.5)), None) == ()


def test_least_median_and_most_are_of_the_groups_at_that_size() -> None:
    for table in group_tables(group_rows()):
        figures = sorted(group.busbw_GBps for group in table.groups)
        assert len(figures) == 8
        assert table.slowest.busbw_GBps == figures[0]
        assert table.fastest.busbw_GBps == figures[-1]
        assert table.median_GBps == pytest.approx((figures[3] + figures[4]) / 2)


def test_pairs_are_no_groups_and_groups_of_two_no_pairs() -> None:
    assert group_tables(pair_rows()) == ()
    assert pair_tables(group_rows()) == ()
    assert group_tables(fake_rows(points(["all_reduce"]))) == ()


def test_as_data_it_says_the_same() -> None:
    tables = group_tables(slowed(group_rows(), (4, 5), 2.0))
    data = groups_to_json(tables, None)
    assert len(data["points"]) == len(tables) == 2 * len(SIZES)
    assert data["points"][0]["slowest"] == [4, 5]
    assert [g["ranks"] for g in data["slow"]] == [[4, 5]]


@pytest.mark.parametrize("spoilt", [(4, 5), (0, 1)], ids=["the slow group", "another group"])
@pytest.mark.parametrize("in_place", [False, True])
def test_wrong_data_names_nobody_in_its_table_and_leaves_other_tables_alone(
    spoilt: tuple[int, ...], in_place: bool
) -> None:
    slow = slowed(group_rows(), (4, 5), 2.0)
    wrong = [
        renamed(r, wrong=3)
        if (r.ranks, r.in_place, r.size_bytes) == (spoilt, in_place, slow[-1].size_bytes)
        else r
        for r in slow
    ]
    assert wrong != slow
    tables = group_tables(wrong)
    assert slow_groups(tables, None) == ()
    assert nobody_because(tables, None) == "the data was wrong"
    other = group_tables(slowed(group_rows(collective="all_gather"), (2, 3), 2.0))
    assert [g.ranks for g in slow_groups((*tables, *other), None)] == [(2, 3)]


def test_nobody_is_named_for_the_cores_of_one_host() -> None:
    one_host = hosts(1, 8)
    rows = slowed(group_rows("halves", one_host), (4, 5, 6, 7), 2.0)
    tables = group_tables(rows)
    assert slow_groups(tables, one_host) == ()
    assert groups_to_json(tables, one_host)["slow"] == []
    on_gpus = group_tables([renamed(r, backend="nccl") for r in rows])
    assert [g.ranks for g in slow_groups(on_gpus, one_host)] == [(4, 5, 6, 7)]
