"""Tensor parallelism and both kinds of sequence parallelism, against one unsharded process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from clusterlab.trainers.axis import Axis
from clusterlab.trainers.config import Setup, check
from clusterlab.trainers.model import Ways
from clusterlab.trainers.plans import sp, tp
from clusterlab.trainers.plans.plan import PlannedCall
from clusterlab.trainers.strategies import positions
from clusterlab.trainers.strategies.positions import Join
from clusterlab.trainers.strategies.sp import PositionWays
from clusterlab.trainers.strategies.tp import TensorWays
from clusterlab.trainers.strategies.ulysses import UlyssesWays
from clusterlab.trainers.weights import Weight
from tests.trainers.ranks import assert_equal_to_reference, assert_ledger_is_plan, small, train

pytestmark = pytest.mark.ranks

KINDS = (None, "tp", "ulysses")


def planned(setup: Setup, rank: int) -> Iterator[PlannedCall]:
    yield from tp.calls(setup, rank)
    yield from sp.calls(setup, rank)


def split(sequence: str | None, **changes: Any) -> Setup:
    """A small setup with positions split as ``sequence`` says."""
    setup = small(**changes)
    return check(replace(setup, mesh=replace(setup.mesh, sequence=sequence)))


@pytest.mark.parametrize("sequence", KINDS)
@pytest.mark.parametrize(
    "changes",
    [
        {"tp": 2},
        {"tp": 2, "micro_batches": 3, "bucket_bytes": 1000},
        {"tp": 4, "micro_batches": 2, "batch": 2},
        {"tp": 8, "bucket_bytes": 1},
        {"tp": 2, "experts": 4, "micro_batches": 2},
    ],
    ids=lambda changes: "-".join(f"{name}{value}" for name, value in changes.items()),
)
def test_trains_as_one_process_does_and_makes_the_planned_calls(
    tmp_path: Path, sequence: str | None, changes: dict[str, Any]
) -> None:
    ranks = train(split(sequence, **changes), tmp_path)
    assert_equal_to_reference(ranks)
    assert_ledger_is_plan(ranks, planned)


def untouched(_ways: Ways, x: torch.Tensor) -> torch.Tensor:
    """In place of what needs other ranks."""
    return x


def nothing_is_summed(_ways: Ways, _parameters: object) -> None:
    """In place of ``finish``."""


def mean(axis: Axis, tensor: torch.Tensor) -> torch.Tensor:
    """In place of the sum."""
    axis.start_all_reduce(tensor).wait()
    return tensor.div_(axis.size)


@staticmethod
def every_copy_counts(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
    """In place of own positions of a gradient that all ranks have: the sum of its copies."""
    return positions.scatter(grad, ctx.axis), None


def whole_ones_too(weight: Weight) -> bool:
    """In place of what is summed: embedding and head as well."""
    return weight.axis != "tp"


Patch = tuple[object, str, object]

MISTAKES: dict[str, tuple[str | None, list[Patch]]] = {
    "tp: gradients of x not summed": (None, [(TensorWays, "enter", untouched)]),
    "tp: parts of x not summed": (None, [(TensorWays, "leave", untouched)]),
    "tp: the mean of the parts": (None, [(Axis, "all_reduce", mean)]),
    "sp: gradients not summed": ("tp", [(PositionWays, "finish", nothing_is_summed)]),
    "sp: the mean of the gradients": ("tp", [(Axis, "all_reduce", mean)]),
    "sp: x's gradient counted by each rank": ("tp", [(Join, "backward", every_copy_counts)]),
    "sp: the head's counted by each rank": ("tp", [(sp, "sees_own_positions", whole_ones_too)]),
    "ulysses: gradients not summed": ("ulysses", [(PositionWays, "finish", nothing_is_summed)]),
    "ulysses: the mean of the gradients": ("ulysses", [(Axis, "all_reduce", mean)]),
    "ulysses: attention among own positions": (
        "ulysses", [(UlyssesWays, "to_heads", untouched), (UlyssesWays, "from_heads", untouched)],
    ),
}  # fmt: skip
"""Each with the kind of splitting and what is put in place of what."""


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistake: str) -> None:
    sequence, patches = MISTAKES[mistake]
    for where, name, wrong in patches:
        monkeypatch.setattr(where, name, wrong)
    with pytest.raises(AssertionError, match=r"loss|gradient"):
        assert_equal_to_reference(train(split(sequence, tp=2, layers=2), tmp_path))
