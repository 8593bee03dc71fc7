"""Every algorithm by name: run on many shapes, its closed form compared, its faults noticed."""

from __future__ import annotations

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.cost.schedules.family import Family
from clusterlab.cost.schedules.registry import (
    ALGORITHMS,
    algorithms_for,
    counts,
    family,
    schedule,
)
from clusterlab.cost.schedules.schedule import Schedule
from clusterlab.cost.schedules.shape import GroupShape
from tests.cost.schedules.families import (
    SIZE,
    assert_family,
    assert_faults_are_noticed,
    first,
    runnable,
)

# Rings and chains have a file of their own.
OTHERS = [f for f in ALGORITHMS.values() if f.algorithm not in ("ring", "chain", "ring_gather")]
S = 720.0


def name(found: Family) -> str:
    return f"{found.collective}-{found.algorithm}"


@pytest.mark.parametrize("found", OTHERS, ids=name)
def test_data_arrives_and_counts_agree(found: Family) -> None:
    assert_family(found)


@pytest.mark.parametrize("found", OTHERS, ids=name)
def test_a_dropped_or_doubled_transfer_is_noticed(found: Family) -> None:
    assert_faults_are_noticed(found, first(found, ranks=4))
    assert_faults_are_noticed(found, first(found, ranks=8))


@pytest.mark.parametrize("found", ALGORITHMS.values(), ids=name)
def test_one_rank_does_nothing(found: Family) -> None:
    alone = GroupShape(1)
    if found.requires(alone) is None:
        assert list(found.run(alone)) == []
        assert found.counts(alone, S) == counts("all_reduce", "ring", alone, S)


@pytest.mark.parametrize("found", ALGORITHMS.values(), ids=name)
def test_counts_of_a_hundred_thousand_ranks(found: Family) -> None:
    """No flow is built: it would take hours."""
    shapes = (GroupShape(1 << 17, 1 << 14, 8), GroupShape(1 << 17, 1 << 17), GroupShape(1 << 17))
    for shape in shapes:
        if found.requires(shape) is None:
            told = found.counts(shape, S, chunks=4)
            assert told.steps >= 1
            assert told.sent_bytes > 0


@pytest.mark.parametrize("found", ALGORITHMS.values(), ids=name)
def test_bytes_are_proportional_to_the_size_and_steps_are_not(found: Family) -> None:
    shape = first(found, ranks=8)
    once, twice = found.counts(shape, S), found.counts(shape, 2 * S)
    assert twice.steps == once.steps
    for field in ("sent", "gpu_out", "gpu_in", "node_out", "node_in", "nic_out", "nic_in"):
        assert getattr(twice, f"{field}_bytes") == 2 * getattr(once, f"{field}_bytes")


def sent_by(made: Schedule, end: int) -> float:
    return sum(p.steps * f.size_bytes for p in made.phases for f in p.flows if f.src == end)


@pytest.mark.parametrize("found", ALGORITHMS.values(), ids=name)
def test_the_schedule_has_the_steps_and_bytes_of_the_counts(found: Family) -> None:
    for shape in runnable(found, largest=12)[-4:]:
        made = schedule(found.collective, found.algorithm, shape, SIZE, chunks=2)
        told = found.counts(shape, SIZE, chunks=2)
        assert made.steps == told.steps
        most = max(sent_by(made, rank) for rank in range(shape.ranks))
        assert most == pytest.approx(told.sent_bytes)


def test_a_ring_is_two_phases_of_like_steps() -> None:
    made = schedule("all_reduce", "ring", GroupShape(8), S)
    assert [(p.steps, p.reduces, len(p.flows)) for p in made.phases] == [
        (7, True, 8),
        (7, False, 8),
    ]


def test_nvls_loads_nvlink_with_less_than_a_ring() -> None:
    """Why its busbw, counted as a ring's, can exceed the line rate: S(1 + 1/n) against 2S(n-1)/n."""
    node = GroupShape(8)
    assert counts("all_reduce", "nvls", node, S).gpu_out_bytes == S * (1 + 1 / 8)
    assert counts("all_reduce", "ring", node, S).gpu_out_bytes == 2 * S * 7 / 8


def test_rails_share_what_leaves_a_node() -> None:
    one, all_ = GroupShape(64, 8, 1), GroupShape(64, 8, 8)
    for algorithm in ("ring", "tree", "nvls_tree", "collnet_chain", "two_level"):
        few, many = (counts("all_reduce", algorithm, s, S) for s in (one, all_))
        assert few.node_out_bytes == pytest.approx(many.node_out_bytes)
        assert few.nic_out_bytes == pytest.approx(8 * many.nic_out_bytes)


def test_the_network_carries_half_as_much_when_it_reduces() -> None:
    shape = GroupShape(1024, 128, 8)
    ring, sharp = (counts("all_reduce", a, shape, S) for a in ("ring", "collnet_direct"))
    assert sharp.node_out_bytes == S
    assert ring.node_out_bytes == pytest.approx(2 * S * 1023 / 1024)


def test_pxn_sends_as_much_between_nodes_and_more_inside() -> None:
    shape = GroupShape(64, 8, 8)
    straight, by_rail = (counts("all_to_all", a, shape, S) for a in ("direct", "pxn"))
    assert by_rail.node_out_bytes == pytest.approx(straight.node_out_bytes)
    assert by_rail.gpu_out_bytes == pytest.approx(8 * straight.gpu_out_bytes)


@pytest.mark.parametrize(
    ("collective", "algorithm", "shape", "expected"),
    [
        ("all_gather", "pat", GroupShape(16, 2, 8), "one rank per node"),
        ("all_reduce", "collnet_chain", GroupShape(8), "more than one node"),
        ("all_reduce", "nvls_tree", GroupShape(8), "more than one node"),
        ("all_gather", "recursive_doubling", GroupShape(6), "power of two"),
        ("all_reduce", "halving_doubling", GroupShape(12, 2, 1), "power of two"),
        ("reduce_scatter", "nvls", GroupShape(16, 2, 4), "a NIC for every rank"),
    ],
)
def test_shapes_an_algorithm_cannot_do_are_refused(
    collective: str, algorithm: str, shape: GroupShape, expected: str
) -> None:
    with pytest.raises(UsageError, match=expected):
        counts(collective, algorithm, shape, S)
    with pytest.raises(UsageError, match=expected):
        schedule(collective, algorithm, shape, S)


@pytest.mark.parametrize(
    ("ranks", "nodes", "heads", "expected"),
    [
        (0, 1, 1, "at least one"),
        (7, 2, 1, "use 6 ranks"),
        (8, 2, 5, "one per rank"),
        (8, 2, 0, "one per rank"),
    ],
)
def test_shapes_that_cannot_be_are_refused(
    ranks: int, nodes: int, heads: int, expected: str
) -> None:
    with pytest.raises(UsageError, match=expected):
        GroupShape(ranks, nodes, heads)


def test_unknown_names_are_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError, match="nvls_tree"):
        family("all_reduce", "rings")
    with pytest.raises(UsageError, match="all_reduce"):
        family("allreduce", "ring")
    with pytest.raises(UsageError, match="did you mean 'ring'"):
        counts("all_reduce", "rings", GroupShape(4), S)
    with pytest.raises(UsageError, match="at least 1"):
        counts("all_reduce", "tree", GroupShape(4), S, chunks=0)


def test_names_by_collective() -> None:
    assert set(algorithms_for("all_to_all")) == {"bruck", "direct", "pairwise", "pxn", "two_level"}
    assert algorithms_for("scan") == ()
