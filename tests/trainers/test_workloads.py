"""Every forced routing has the property that it is named for; figures and plans follow from it. No ranks."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.trainers.config import ROUTINGS, MeshConfig, ModelConfig, Setup, TrainConfig, check
from clusterlab.trainers.mesh import group_of, groups_of
from clusterlab.trainers.plans import ep
from clusterlab.trainers.plans.plan import counted
from clusterlab.trainers.plans.routed import Routed, expected, figures, peers, within
from clusterlab.trainers.plans.workloads import (
    STEPWISE,
    WINDOW,
    WORKLOADS,
    choices,
    hottest,
    load_of,
)

STEPS = range(3 * WINDOW)


def setup_of(routing: str, *, per_node: int | None = None, tp: int = 1, **model: Any) -> Setup:
    """8 experts on 4 ranks, two of everything else."""
    config = ModelConfig(**{"experts": 8, "layers": 2, "hidden": 16, "sequence": 32, **model})
    mesh = MeshConfig(dp=8, ep=4, tp=tp, per_node=per_node)
    return check(Setup(config, mesh, TrainConfig(batch=32, micro_batches=2, routing=routing)))


def sent(setup: Setup, step: int) -> list[Routed]:
    """Of the first group's ranks, in their first micro-batch."""
    return [expected(setup, rank, step, 0) for rank in groups_of("ep", setup.mesh)[0]]


def per_expert(setup: Setup, step: int) -> list[int]:
    """Tokens of each expert in a step, over its whole batch."""
    found: Counter[int] = Counter()
    for sample in range(setup.train.batch):
        for chosen in choices(setup, step, sample):
            found.update(chosen)
    return [found[expert] for expert in range(setup.model.experts)]


@pytest.mark.parametrize("routing", WORKLOADS)
def test_what_is_kept_for_all_steps_does_not_change(routing: str) -> None:
    setup = setup_of(routing)
    first = [choices(setup, 0, sample) for sample in range(4)]
    alike = all(first == [choices(setup, step, s) for s in range(4)] for step in STEPS)
    assert alike == (routing not in STEPWISE)


def even(counts: list[int], within: int = 1) -> bool:
    return max(counts) - min(counts) <= within


def without(counts: list[int], experts: range | list[int]) -> list[int]:
    return [count for expert, count in enumerate(counts) if expert not in experts]


def test_there_is_a_generator_for_each_name() -> None:
    assert ("learned", *WORKLOADS) == ROUTINGS


@pytest.mark.parametrize("routing", WORKLOADS)
@pytest.mark.parametrize(("experts", "top_k"), [(8, 2), (8, 1), (12, 3), (8, 6)])
def test_every_token_chooses_top_k_different_experts_the_same_each_time(
    routing: str, experts: int, top_k: int
) -> None:
    setup = setup_of(routing, experts=experts, top_k=top_k)
    for step in STEPS:
        for sample in (0, 5, 31):
            found = choices(setup, step, sample)
            assert found == choices(setup, step, sample)
            assert len(found) == setup.model.sequence
            for chosen in found:
                assert len(set(chosen)) == len(chosen)
                assert len(chosen) == top_k or (routing == "ragged" and not chosen)
                assert all(0 <= expert < experts for expert in chosen)


def test_balanced_gives_every_expert_as_many_from_every_rank() -> None:
    setup = setup_of("balanced")
    for step in STEPS:
        assert all(even(list(one.counts), 0) for one in sent(setup, step))
        found = figures(sent(setup, step))
        assert (found.cv, found.overload) == (0, 1)
        assert found.entropy == pytest.approx(1)


@pytest.mark.parametrize("seed", range(4))
def test_hot_expert_takes_half_of_all_tokens_and_stays(seed: int) -> None:
    setup = setup_of("hot_expert")
    setup = replace(setup, train=replace(setup.train, seed=seed))
    hot, tokens = hottest(load_of(setup)), setup.train.batch * setup.model.sequence
    for step in STEPS:
        counts = per_expert(setup, step)
        assert counts[hot] == tokens // 2
        assert even(without(counts, [hot]), 3)


def test_hot_expert_depends_on_the_seed() -> None:
    setup = setup_of("hot_expert")
    loads = [replace(load_of(setup), seed=seed) for seed in range(20)]
    assert len({hottest(load) for load in loads}) > setup.model.experts // 2


def test_rotating_has_another_hot_expert_each_step_and_all_in_turn() -> None:
    setup = setup_of("rotating")
    hot = []
    for step in STEPS:
        counts = per_expert(setup, step)
        hot.append(counts.index(max(counts)))
        assert even(without(counts, hot[-1:]), 3)
        assert max(counts) == setup.train.batch * setup.model.sequence // 2
    assert all(before != after for before, after in pairwise(hot))
    assert set(hot) == set(range(setup.model.experts))


def test_hot_rank_is_overloaded_by_all_its_experts() -> None:
    setup = setup_of("hot_rank")
    load = load_of(setup)
    hot = load.of_rank(hottest(load) // load.own)
    for step in STEPS:
        counts = per_expert(setup, step)
        assert even([counts[expert] for expert in hot])
        assert even(without(counts, hot))
        # Half of all choices beside its share of the other half.
        assert figures(sent(setup, step)).overload == (1 / 2 + 1 / 8) * 4


def test_zero_load_leaves_one_rank_idle_and_the_others_even() -> None:
    setup = setup_of("zero_load")
    for step in STEPS:
        per_rank = [sum(column) for column in zip(*peers(sent(setup, step)), strict=True)]
        assert per_rank.count(0) == 1
        assert even([count for count in per_rank if count], sum(per_rank) // 30)


@pytest.mark.parametrize("routing", WORKLOADS)
def test_only_those_that_say_so_change_from_step_to_step(routing: str) -> None:
    setup = setup_of(routing)
    steps = {tuple(per_expert(setup, step)) for step in range(WINDOW)}
    chosen = {tuple(choices(setup, step, 3)) for step in range(WINDOW)}
    assert (len(steps) > 1 or len(chosen) > 1) == (routing in {"ragged", "rotating", "bursty"})


def test_ragged_sends_another_number_from_each_rank() -> None:
    setup = setup_of("ragged")
    for step in STEPS:
        totals = [sum(one.counts) for one in sent(setup, step)]
        assert len(set(totals)) == len(totals)
        assert even(per_expert(setup, step), setup.train.batch)
    lengths = [[len(c) for c in choices(setup, 0, sample)] for sample in range(32)]
    # Padding is at the end, and one sequence is full.
    assert all(length == sorted(length, reverse=True) for length in lengths)
    assert any(0 not in length for length in lengths)


def test_bursty_has_one_step_of_a_hot_rank_in_each_window() -> None:
    setup = setup_of("bursty")
    overloads = [figures(sent(setup, step)).overload for step in range(40 * WINDOW)]
    windows = [overloads[at : at + WINDOW] for at in range(0, len(overloads), WINDOW)]
    assert all(sorted(window) == [1, 1, 1, 2.5] for window in windows)
    assert len({window.index(2.5) for window in windows}) == WINDOW, "at no fixed place of them"


def test_figures_of_known_counts() -> None:
    sources = [Routed(0, 0, (3, 1, 0, 0), (), 1), Routed(0, 0, (3, 0, 1, 0), (), 1)]
    found = figures(sources)
    assert (found.least, found.most, found.mean) == (0, 6, 2)
    assert found.cv == pytest.approx(((16 + 1 + 1 + 4) / 4) ** 0.5 / 2)
    assert found.overload == 7 / 4
    assert found.dropped == 2 / 10
    assert found.entropy == pytest.approx((0.75 * 0.41504 + 2 * 0.125 * 3) / 2, abs=1e-4)
    assert peers(sources, row_bytes=10) == [[40, 0], [30, 10]]


def test_nothing_routed_has_figures() -> None:
    found = figures([Routed(0, 0, (0, 0), ())] * 2)
    assert (found.most, found.cv, found.overload, found.dropped) == (0, 0, 1, 0)


def test_capacity_keeps_an_experts_first_choices() -> None:
    assert within([(0, 1), (0, 2), (0, 1)], 1) == [(0, 1), (2,), ()]
    assert within([(0, 1), (0, 2), (0, 1)], 2) == [(0, 1), (0, 2), (1,)]


@pytest.mark.parametrize("routing", ["learned", "balanced"])
def test_balanced_plan_is_the_closed_form(routing: str) -> None:
    """Four all-to-alls of T·K rows a mixture, and one of E counts."""
    setup = setup_of(routing)
    group = groups_of("ep", setup.mesh)[1]
    rows = setup.rows * setup.model.sequence * setup.model.top_k
    size, mixtures = rows * setup.model.hidden * 4, 2 * 2
    for rank in group:
        assert counted(ep.calls(setup, rank)) == {
            ("all_to_all", "ep", group, 8 * 8, "int64", "forward"): mixtures,
            ("all_to_all_v", "ep", group, size, "float32", "forward"): 2 * mixtures,
            ("all_to_all_v", "ep", group, size, "float32", "backward"): 2 * mixtures,
        }


@pytest.mark.parametrize("routing", WORKLOADS)
@pytest.mark.parametrize("tp", [1, 2])
def test_two_levels_send_a_token_once_to_each_node(routing: str, tp: int) -> None:
    """By brute force over tokens; and never more rows across nodes than the flat form has."""
    flat, two = setup_of(routing, tp=tp), setup_of(routing, tp=tp, per_node=2 * tp)
    for rank in range(0, flat.mesh.world_size, 3):
        for step in range(3):
            one, other = expected(flat, rank, step, 1), expected(two, rank, step, 1)
            assert (one.counts, one.tokens) == (other.counts, ())
            first = (rank // tp % 8 * 2 + 1) * two.rows
            chosen = [c for s in range(first, first + two.rows) for c in choices(two, step, s)]
            assert other.tokens == tuple(
                sum(any(expert // 4 == node for expert in c) for c in chosen) for node in (0, 1)
            )
            assert sum(other.tokens) <= sum(one.counts)


@pytest.mark.parametrize(("experts", "top_k", "per_node"), [(8, 2, 2), (16, 4, 2), (64, 6, 1)])
def test_experts_of_a_token_share_a_node_as_often_as_by_chance(
    experts: int, top_k: int, per_node: int
) -> None:
    """Expected: nodes · (1 - C(experts elsewhere, top_k) / C(experts, top_k)) of them a token."""
    setup = setup_of(
        "balanced", per_node=per_node, experts=experts, top_k=top_k, sequence=64 * experts
    )
    nodes = 4 // per_node
    nowhere = math.comb(experts - experts // nodes, top_k) / math.comb(experts, top_k)
    tokens = setup.rows * setup.model.sequence
    found = sum(expected(setup, 3, 0, 0).tokens) / tokens
    assert found == pytest.approx(nodes * (1 - nowhere), rel=0.05)


def test_one_node_is_the_flat_form_inside_it() -> None:
    flat, two = setup_of("hot_rank"), setup_of("hot_rank", per_node=4)
    for rank in range(8):
        inside = counted(ep.calls(two, rank))
        assert {key[1] for key in inside} == {"ep_node"}
        renamed = {(op, "ep", *rest): n for (op, _, *rest), n in inside.items()}
        assert renamed == counted(ep.calls(flat, rank))


@pytest.mark.parametrize(("tp", "per_node"), [(1, 1), (1, 2), (2, 4), (2, 1), (2, 2), (1, 8)])
def test_groups_by_node_and_by_rail_are_the_expert_groups(tp: int, per_node: int) -> None:
    mesh = setup_of("learned", tp=tp, per_node=per_node).mesh
    for rank in range(mesh.world_size):
        node, rail = group_of(rank, "ep_node", mesh), group_of(rank, "ep_rail", mesh)
        ranks = group_of(rank, "ep", mesh)
        assert [one for one in ranks if one // per_node == rank // per_node] == list(node)
        assert len(node) * len(rail) == len(ranks)
        assert {x for one in node for x in group_of(one, "ep_rail", mesh)} == set(ranks)
        assert set(node) & set(rail) == {rank}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"per_node": 3}, "per_node 2"),
        ({"tp": 2, "per_node": 3}, "per_node 2"),
        ({"routing": "hot_exprt"}, "hot_expert"),
        ({"routing": "zero_load", "experts": 4, "top_k": 4}, "top_k"),
        ({"routing": "balanced", "experts": 0}, "without experts"),
    ],
)
def test_what_does_not_fit_says_what_would(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as refused:
        setup_of(**{"routing": "learned", **changes})
    assert words in str(refused.value)
