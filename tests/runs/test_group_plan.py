"""Sweeps over groups of ranks: the plan, and what each group should take beside the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.core.placement import Placement, RankPlacement
from clusterlab.runs.sweeping.group_predicting import groups_note, predict_steps
from clusterlab.runs.sweeping.plan import SweepConfig, SweepPlan, make_plan, resolve_config
from clusterlab.runs.sweeping.predicting import choose_model

TYPED: dict[str, Any] = {
    "collective_text": "all_reduce,gather,alltoallv", "begin": "1K", "end": "4K", "factor": None,
    "step": None, "dtype_text": "float", "op_text": "sum", "root": 0, "place": "both",
    "iterations": 20, "warmup": 5, "check": True, "backend": "gloo", "deadline_s": 60.0, "fabric": None,
}  # fmt: skip


def config(pattern: str, *, uneven: str | None = None, **changes: Any) -> SweepConfig:
    made = resolve_config(**{**TYPED, **changes})
    return replace(made, pattern=pattern, uneven=uneven)


def placed(hosts: int, per_host: int) -> Placement:
    return Placement(
        tuple(RankPlacement(r, f"n{r // per_host}", r % per_host) for r in range(hosts * per_host))
    )


def plan(asked: SweepConfig, placement: Placement) -> SweepPlan:
    return make_plan(asked, placement.world_size, lambda *_: None, placement)


@given(
    st.sampled_from(["node", "rail", "halves", "nodes:2", "groups:0-1/2-3"]),
    st.booleans(),
    st.integers(2, 4),
    st.integers(2, 4),
)
def test_every_step_has_every_group_once_or_one_alone(pattern, alone, hosts, per_host) -> None:
    placement = placed(hosts, per_host)
    asked = config(pattern + ("_one_by_one" if alone else ""))
    made = plan(asked, placement)
    together = plan(config(pattern), placement)
    groups = {point.ranks for point in made.points}
    assert made.points == together.points  # the same points in the same order
    for step in made.steps:
        taken = [rank for point in step for rank in point.ranks or ()]
        assert len(taken) == len(set(taken))
        assert len(step) == (1 if alone else len(groups))
        assert len({(p.collective, p.requested_bytes, p.in_place) for p in step}) == 1
        assert all(point.world_size == len(point.ranks or ()) for point in step)
    assert len(made.points) == 3 * 3 * 2 * len(groups)
    assert len(set(made.points)) == len(made.points)


def test_groups_of_one_rank_are_left_out() -> None:
    placement = Placement(tuple(RankPlacement(r, f"n{h}", i) for r, (h, i) in enumerate(
        [(0, 0), (0, 1), (1, 0)]
    )))  # fmt: skip
    assert {p.ranks for p in plan(config("node"), placement).points} == {(0, 1)}
    with pytest.raises(UsageError, match="has one rank"):
        plan(config("rail"), placed(1, 4))
    with pytest.raises(UsageError, match="has one rank"):  # not known where: all on one host
        make_plan(config("rail"), 4, lambda *_: None)


def test_a_root_counts_within_each_group() -> None:
    assert plan(config("node", root=1), placed(2, 2)).points[0].root is None
    with pytest.raises(UsageError, match="root 2 of groups of 2 ranks"):
        plan(config("node", root=2), placed(2, 2))


def test_uneven_parts_are_those_of_all_to_all_v_only() -> None:
    for pattern in ("all", "node"):
        points = plan(config(pattern, uneven="linear"), placed(2, 2)).points
        assert {p.uneven for p in points if p.collective == "all_to_all_v"} == {"linear"}
        assert {p.uneven for p in points if p.collective != "all_to_all_v"} == {None}
    with pytest.raises(UsageError, match="a matrix of 2 ranks for 4"):
        plan(config("all", uneven="matrix:1 2/3 4"), placed(2, 2))
    plan(config("node", uneven="matrix:1 2/3 4"), placed(2, 2))
    with pytest.raises(UsageError, match="without an all_to_all_v"):
        plan(config("all", uneven="linear", collective_text="all_reduce"), placed(2, 2))


def test_each_group_is_predicted_beside_the_others() -> None:
    """Rails of the lab share the NIC of each host, its hosts share nothing between their ranks."""
    placement = placed(2, 4)
    model = choose_model(placement, "gloo", "lab-2x4", None)
    asked = config("rail", collective_text="all_gather", begin="1M", end="1M", place="out")
    together, alone = (
        predict_steps(plan(replace(asked, pattern=p), placement).steps, model)
        for p in ("rail", "rail_one_by_one")
    )
    assert together.keys() == alone.keys()
    for point, predicted in together.items():
        assert predicted.time_us == pytest.approx(4 * alone[point].time_us)
    points = plan(replace(asked, pattern="node"), placement).points
    assert predict_steps([points], model) == {}
    assert "2 groups of ranks not predicted: lab-2x4" in str(groups_note(points, {}, model))


@given(st.integers(1, 5000))
def test_groups_of_different_size_are_padded_and_predicted_each_by_its_own(size) -> None:
    placement = placed(4, 2)
    model = choose_model(placement, "gloo", "lab-flat-4x2", None)
    asked = config(
        "nodes:3", collective_text="alltoall", begin=str(size), end=str(size), place="out"
    )
    (step,) = plan(asked, placement).steps
    found = predict_steps([step], model)
    assert [point.world_size for point in found] == [6]  # inside a host the lab has no figures
    for point in found:
        assert point.size_bytes % (4 * point.world_size) == 0
