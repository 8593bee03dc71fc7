"""What experts took in a step: as many choices as were made, whoever they are counted by."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from clusterlab.trainers.config import ROUTINGS, Setup, check
from clusterlab.trainers.plans.compose import calls_of, plan_of
from clusterlab.trainers.plans.load import expert_load, totals
from clusterlab.trainers.plans.routed import expected
from clusterlab.trainers.plans.workloads import choices
from tests.trainers.ranks import small

MESHES: list[dict[str, Any]] = [
    {"dp": 4, "ep": 4},
    {"dp": 4, "ep": 2, "micro_batches": 2},
    {"dp": 2, "ep": 2, "tp": 2},
    {"dp": 2, "ep": 2, "tp": 2, "split": "tp"},
    {"dp": 2, "ep": 2, "pp": 2, "micro_batches": 2},
]
FORCED = [name for name in ROUTINGS if name != "learned"]


def named(changes: dict[str, Any]) -> str:
    return "-".join(f"{name}{value}" for name, value in changes.items())


def setup_of(changes: dict[str, Any], routing: str) -> Setup:
    changes = dict(changes)
    split = changes.pop("split", None)
    setup = small(experts=8, layers=2, routing=routing, batch=8, **changes)
    return check(replace(setup, mesh=replace(setup.mesh, sequence=split)))


def by_rank(setup: Setup, step: int) -> list[list[float]]:
    blocks = setup.model.layers // setup.mesh.pp
    return [
        [
            float(count)
            for count in totals(
                setup,
                [
                    expected(setup, rank, step, m)
                    for m in range(setup.train.micro_batches)
                    for _ in range(blocks)
                ],
            )
        ]
        for rank in range(setup.mesh.world_size)
    ]


@pytest.mark.parametrize("routing", FORCED)
@pytest.mark.parametrize("changes", MESHES, ids=named)
def test_tokens_are_those_that_the_workload_forces_on_every_mesh(
    changes: dict[str, Any], routing: str
) -> None:
    setup = setup_of(changes, routing)
    for step in (0, 1, 3):
        load = expert_load(setup, step, 1, by_rank(setup, step))
        made = [0] * setup.model.experts
        for sample in range(setup.train.batch):
            for chosen in choices(setup, step, sample):
                for expert in chosen:
                    made[expert] += setup.model.layers
        assert list(load.tokens) == made
        assert load.dropped == 0
        row = setup.model.hidden * 8  # float64
        assert sum(map(sum, load.rows_bytes)) == sum(made) * row
        own = setup.model.experts // setup.mesh.ep
        for rank in range(setup.mesh.ep):
            to = sum(sent[rank] for sent in load.rows_bytes)
            assert to == sum(made[rank * own : (rank + 1) * own]) * row


def test_what_does_not_fit_is_dropped_and_counted() -> None:
    setup = setup_of(MESHES[0], "hot_expert")
    whole = expert_load(setup, 0, 1, by_rank(setup, 0))
    narrow = replace(setup, model=replace(setup.model, capacity=1.0))
    load = expert_load(narrow, 0, 1, by_rank(narrow, 0))
    assert load.dropped > 0
    assert sum(load.tokens) + load.dropped == sum(whole.tokens)
    assert load.overload < whole.overload
    assert load.entropy > whole.entropy


@pytest.mark.parametrize("routing", ["rotating", "bursty", "ragged"])
def test_a_plan_is_of_its_step_where_steps_differ(routing: str) -> None:
    setup = setup_of(MESHES[0], routing)
    found = [[calls_of(setup, rank, step) for rank in range(4)] for step in range(8)]
    assert len({tuple(step) for step in found}) > 1
    # What ranks counted in a step replaces what was forced.
    for step in (3, 5):
        routed = {
            rank: [replace(expected(setup, rank, step, 0), layer=layer) for layer in range(2)]
            for rank in range(4)
        }
        assert plan_of(setup, 0, step).calls == found[step][0]
        for rank in range(4):
            assert set(calls_of(setup, rank, 0, routed)) == set(found[step][rank])
