"""What the plan says that autograd keeps, and what it keeps."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils import flop_counter

from clusterlab.trainers.config import MeshConfig, ModelConfig, Setup, TrainConfig, check
from clusterlab.trainers.data import batch_of
from clusterlab.trainers.mesh import Place
from clusterlab.trainers.model import Transformer, Ways, loss_of
from clusterlab.trainers.plans.activations import saved_bytes
from clusterlab.trainers.plans.work import causal_pairs, work_of
from clusterlab.trainers.strategies.sp import SequenceWays
from clusterlab.trainers.strategies.tp import TensorWays
from clusterlab.trainers.strategies.ulysses import UlyssesWays
from clusterlab.trainers.weights import first_value, part_of, weights_of


class Alone:
    """An axis of which only this rank is there: what others would send is its own."""

    index = 0

    def __init__(self, size: int) -> None:
        self.size = size

    def all_reduce(self, x: torch.Tensor) -> torch.Tensor:
        return x

    def all_gather(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x] * self.size)

    def reduce_scatter(self, x: torch.Tensor) -> torch.Tensor:
        return x.chunk(self.size)[0].clone()

    def all_to_all(self, x: torch.Tensor, *_: Any) -> torch.Tensor:
        return x.clone()


DENSE = ModelConfig(layers=3, hidden=24, heads=4, ffn=40, vocab=19, sequence=12)
EXPERTS = ModelConfig(layers=2, hidden=24, heads=4, ffn=40, vocab=19, sequence=12, experts=4)
SETUPS = [
    Setup(DENSE, MeshConfig(), TrainConfig(batch=6, micro_batches=2, dtype="float64")),
    Setup(DENSE, MeshConfig(), TrainConfig(batch=2, dtype="bfloat16")),
    Setup(DENSE, MeshConfig(tp=2), TrainConfig(batch=2)),
    Setup(DENSE, MeshConfig(tp=4, sequence="tp"), TrainConfig(batch=2)),
    Setup(DENSE, MeshConfig(tp=4, sequence="ulysses"), TrainConfig(batch=2)),
    Setup(DENSE, MeshConfig(dp=3, tp=2), TrainConfig(batch=12, micro_batches=2)),
    Setup(EXPERTS, MeshConfig(), TrainConfig(batch=2, dtype="float64")),
    Setup(EXPERTS, MeshConfig(tp=2), TrainConfig(batch=2, dtype="float32")),
]


ON_CPU = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: (
        lambda q, k, v, *_, **__: flop_counter.sdpa_flop_count(q, k, v)
    ),
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: (
        lambda grad, q, k, v, *_, **__: flop_counter.sdpa_backward_flop_count(grad, q, k, v)
    ),
}
"""torch counts fused attention on GPUs only: the same formulas for the CPU's."""


def model_of(setup: Setup) -> Transformer:
    mesh = setup.mesh
    axis: Any = Alone(mesh.tp)
    ways = Ways()
    if mesh.tp > 1:
        if mesh.sequence is None:
            ways = TensorWays(axis)
        else:
            ways = (SequenceWays if mesh.sequence == "tp" else UlyssesWays)(setup, axis)
    dtype = getattr(torch, setup.train.dtype)
    values = {
        w.name: part_of(w, first_value(w, i, 1).to(dtype), mesh, Place(0, 0, 0, 0, 0))
        for i, w in enumerate(weights_of(setup.model, mesh))
    }
    return Transformer(setup.model, values, range(setup.model.layers), ways)


def loss(model: Transformer, setup: Setup) -> torch.Tensor:
    inputs, targets = batch_of(setup.model, range(setup.rows), step=0, seed=1)
    return loss_of(model(inputs), targets, targets.numel())


@pytest.mark.parametrize("setup", SETUPS, ids=lambda s: f"{s.mesh}{s.train.dtype}{s.model.experts}")
def test_autograd_keeps_what_the_plan_says(setup: Setup) -> None:
    model = model_of(check(setup))
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept: dict[int, torch.Tensor] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        place = tensor.untyped_storage().data_ptr()
        if place not in own:
            kept[place] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        loss(model, setup)
    measured = sum(t.untyped_storage().nbytes() for t in kept.values())
    assert saved_bytes(setup, range(setup.model.layers)) == measured


@pytest.mark.parametrize("setup", SETUPS, ids=lambda s: f"{s.mesh}{s.train.dtype}{s.model.experts}")
def test_products_are_as_many_as_torch_counts(setup: Setup) -> None:
    """torch counts attention as if nothing were masked."""
    model = model_of(check(setup))
    with flop_counter.FlopCounterMode(display=False, custom_mapping=ON_CPU) as counter:
        torch.autograd.backward(loss(model, setup))
    work = work_of(setup, range(setup.model.layers))
    S = setup.model.sequence
    unmasked = sum(
        op.flops * op.count * (S * S / causal_pairs(S) if op.kind == "attention" else 1)
        for op in (*work.forward, *work.backward)
    )
    assert unmasked == pytest.approx(counter.get_total_flops(), rel=1e-12)
