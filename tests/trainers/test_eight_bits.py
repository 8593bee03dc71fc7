"""Products in 8 bits: exact where 8 bits are enough, else off by their rounding; a model learns by them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.runs.training.setup import TrainTyped, setup_of
from clusterlab.runs.training.whatif import what_if
from clusterlab.topology.design.load import load_fabric
from clusterlab.trainers.config import check
from clusterlab.trainers.eight_bits import product, scaled
from clusterlab.trainers.plans.compose import calls_of
from clusterlab.trainers.plans.compute import typed_compute
from clusterlab.trainers.reference import train_reference
from tests.trainers.ranks import assert_ledger_is_plan, small, train

E4, E5 = 2.0**-4, 2.0**-3
"""Half of the distance between neighbours, relative: what a cast to e4m3 or e5m2 may be off by."""

BF16 = 2.0**-8


def random(*shape: int, seed: int, spread: float) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(shape, generator=generator) * 2.0**spread).bfloat16()


@given(st.integers(0, 1000), st.integers(-20, 20), st.integers(-20, 20))
@settings(max_examples=40, deadline=None)
def test_a_product_and_its_gradients_are_off_by_8_bits_rounding_at_most(
    seed: int, wide: int, high: int
) -> None:
    x = random(32, 48, seed=seed, spread=wide).requires_grad_()
    weight = random(16, 48, seed=seed + 1, spread=high).requires_grad_()
    dy = random(32, 16, seed=seed + 2, spread=-wide)
    y = product(x, weight)
    y.backward(dy)
    X, W, D = (t.detach().double() for t in (x, weight, dy))
    assert x.grad is not None and weight.grad is not None
    for found, a, b, rounding in (
        (y.detach(), X, W.T, 2 * E4),
        (x.grad, D, W, E4 + E5),
        (weight.grad, D.T, X, E4 + E5),
    ):
        # What is far below a tensor's largest value goes to zero: off by a grain of that.
        most = a.abs() @ b.abs()
        grain = a.abs().max() * b.abs().max() * a.shape[1] * 2.0**-12
        assert ((found.double() - a @ b).abs() <= 1.2 * (rounding + BF16) * most + grain).all()


def test_values_that_8_bits_hold_are_multiplied_exactly() -> None:
    generator = torch.Generator().manual_seed(1)
    x, weight = (
        torch.randint(-8, 9, (16, 16), generator=generator).bfloat16() * 2.0**-30 for _ in range(2)
    )
    assert torch.equal(product(x * 2.0**20, weight), (x * 2.0**20).float() @ weight.float().T)


@given(st.floats(1e-30, 1e30))
def test_a_scale_is_a_power_of_two_and_wastes_no_more_than_one(largest: float) -> None:
    x = torch.tensor([largest, -largest / 3]).bfloat16()
    small_x, back = scaled(x, torch.float8_e4m3fn)
    exponent = torch.log2(back).item()
    assert exponent == round(exponent)
    assert 448 / 2 * 0.99 < small_x.float().abs().max().item() <= 448


def test_zeros_stay_zeros() -> None:
    x, weight = torch.zeros(16, 32).bfloat16(), random(16, 32, seed=1, spread=0)
    assert not product(x, weight).any()


@pytest.mark.parametrize("changes", [{}, {"dtype": "float32"}], ids=["bf16", "float32"])
def test_a_model_learns_as_it_does_otherwise(changes: dict[str, Any]) -> None:
    setup = small(steps=12, hidden=32, heads=4, dtype="bfloat16", lr=0.5, text=True, vocab=128)
    eight = train_reference(replace(setup, model=replace(setup.model, fp8=True)))
    other = train_reference(replace(setup, train=replace(setup.train, **changes)))
    assert eight.losses != other.losses
    assert eight.losses[-1] < eight.losses[0]
    assert eight.losses == pytest.approx(other.losses, rel=0.08)  # 8 bits of mantissa in both


@pytest.mark.ranks
@pytest.mark.parametrize(
    "changes",
    [
        {"dp": 2, "data_parallel": "fsdp"},
        {"dp": 2, "library": True},
        {"tp": 2, "split": "tp"},
        {"pp": 2, "micro_batches": 2, "schedule": "zero_bubble"},
    ],
    ids=["fsdp", "ddp", "sp", "pp"],
)
def test_ranks_train_by_them_and_send_what_they_do_otherwise(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    setup = small(hidden=32, heads=4, dtype="bfloat16", fp8=True, **changes)
    ranks = train(setup, tmp_path)
    assert_ledger_is_plan(ranks, calls_of, first_step=1)
    whole = replace(setup, mesh=replace(setup.mesh, dp=1, tp=1, pp=1, sequence=None))
    reference = train_reference(replace(whole, train=replace(setup.train, library=False)))
    assert ranks.trained.losses == pytest.approx(reference.losses, rel=0.02)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dtype": "float32"}, "bfloat16"),
        ({"experts": 4}, "dense MLP"),
        ({"tp": 2, "library": True}, "explicit"),
        ({"hidden": 24, "heads": 4}, "hidden 16 or 32"),
        ({"tp": 4, "ffn": 96}, "ffn 64 or 128"),
        ({"batch": 1, "sequence": 24}, "multiple of 16"),
    ],
)
def test_what_8_bits_cannot_is_refused(changes: dict[str, Any], message: str) -> None:
    setup = small(**{"dtype": "bfloat16", **changes})
    with pytest.raises(UsageError, match=message):
        check(replace(setup, model=replace(setup.model, fp8=True)))


def test_no_step_is_predicted() -> None:
    setup = setup_of(TrainTyped("dp", dtype="fp8"), 2, "gloo")
    assert (setup.model.fp8, setup.train.dtype) == (True, "bfloat16")
    with pytest.raises(UsageError, match="8 bits"):
        what_if(setup, load_fabric("h100-2"), typed_compute("1,1"))
