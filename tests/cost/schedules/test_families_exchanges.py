"""Closed forms of exchanges, halving, Bruck and two levels against the formulas as published.

That data arrives and counts are those executed is tested for every family in test_registry.py.
"""

from __future__ import annotations

from math import log2

import pytest

from clusterlab.cost.schedules.registry import counts, family
from clusterlab.cost.schedules.shape import GroupShape

S = 5040.0
ONE_LEVEL = [GroupShape(16), GroupShape(16, 16)]


@pytest.mark.parametrize("shape", ONE_LEVEL, ids=["one node", "one rank per node"])
@pytest.mark.parametrize(
    ("collective", "algorithm", "steps", "sent"),
    [
        ("all_reduce", "halving_doubling", 2 * 4, 2 * S * 15 / 16),
        ("reduce_scatter", "recursive_halving", 4, S * 15 / 16),
        ("all_gather", "recursive_doubling", 4, S * 15 / 16),
        ("all_gather", "bruck", 4, S * 15 / 16),
        ("all_to_all", "bruck", 4, S / 2 * log2(16)),
        ("all_to_all", "pairwise", 15, S * 15 / 16),
        ("all_to_all", "direct", 1, S * 15 / 16),
        ("send_recv", "ring_shift", 1, S),
    ],
)
def test_steps_and_bytes_of_sixteen_ranks(
    shape: GroupShape, collective: str, algorithm: str, steps: int, sent: float
) -> None:
    told = counts(collective, algorithm, shape, S)
    assert told.steps == steps
    assert told.sent_bytes == pytest.approx(sent)
    assert (told.gpu_out_bytes, told.nic_out_bytes) == pytest.approx(
        (sent, 0.0) if shape.nodes == 1 else (0.0, sent)
    )


@pytest.mark.parametrize("n", [5, 16, 33])
def test_bruck_all_to_all_sends_a_block_for_every_bit_set(n: int) -> None:
    told = counts("all_to_all", "bruck", GroupShape(n), S)
    assert told.sent_bytes == pytest.approx(S / n * sum(d.bit_count() for d in range(n)))


@pytest.mark.parametrize("collective", ["all_gather", "reduce_scatter"])
@pytest.mark.parametrize(("n", "steps"), [(5, 3), (8, 3), (9, 4)])
def test_pat_takes_a_logarithm_of_steps(collective: str, n: int, steps: int) -> None:
    told = counts(collective, "pat", GroupShape(n, n), S)
    assert told.steps == steps
    assert told.nic_out_bytes == pytest.approx(S * (n - 1) / n)


def test_folding_costs_two_steps_and_a_whole_buffer() -> None:
    """6 ranks: 4 do it, 2 of them take a buffer in before and hand it out after."""
    told = counts("all_reduce", "halving_doubling", GroupShape(6), S)
    assert (told.steps, told.sent_bytes) == (2 + 2 * 2, 2 * S * 3 / 4 + S)


def test_two_level_all_reduce_is_a_ring_inside_and_a_ring_per_rail() -> None:
    g, nodes = 8, 9
    told = counts("all_reduce", "two_level", GroupShape(g * nodes, nodes, g), S)
    assert told.steps == 2 * (g - 1) + 2 * (nodes - 1)
    assert told.gpu_out_bytes == pytest.approx(2 * S * (g - 1) / g)
    assert told.nic_out_bytes == pytest.approx(2 * S / g * (nodes - 1) / nodes)


def test_pxn_loads_the_nic_and_nvlink_as_published() -> None:
    g, nodes = 8, 9
    told = counts("all_to_all", "pxn", GroupShape(g * nodes, nodes, g), S)
    assert told.nic_out_bytes == pytest.approx(S * (nodes - 1) / nodes)
    assert told.gpu_out_bytes == pytest.approx(S * (g - 1) / g)


def messages_between_nodes(algorithm: str, shape: GroupShape) -> set[int]:
    """Distinct readers on other nodes of each rank, over the whole collective."""
    found = family("all_to_all", algorithm)
    pairs = {(t.src, t.dst) for transfers in found.run(shape) for t in transfers}
    crossing = [src for src, dst in pairs if shape.node_of(src) != shape.node_of(dst)]
    return {crossing.count(rank) for rank in range(shape.ranks)}


def test_pxn_sends_one_message_per_rail_and_node() -> None:
    shape = GroupShape(24, 6, 4)
    assert messages_between_nodes("pxn", shape) == {5}
    assert messages_between_nodes("direct", shape) == {20}


@pytest.mark.parametrize("collective", ["all_gather", "all_to_all"])
@pytest.mark.parametrize(
    ("shape", "inside", "between"),
    [
        (GroupShape(32), 5, 0),
        (GroupShape(32, 32), 0, 5),
        (GroupShape(32, 4, 8), 2, 3),
        (GroupShape(24, 3, 8), 2, 2),
        (GroupShape(48, 24, 2), 0, 5),
    ],
)
def test_a_block_leaves_its_node_at_most_once_by_the_low_bits_of_bruck(
    collective: str, shape: GroupShape, inside: int, between: int
) -> None:
    assert family(collective, "bruck").exact_hops(shape)
    told = counts(collective, "bruck", shape, S)
    assert (told.hops_inside, told.hops_between) == (inside, between)
