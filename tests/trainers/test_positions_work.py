"""The copies that a plan counts where positions are split are those that torch makes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from clusterlab.trainers.config import MeshConfig, ModelConfig, Setup, TrainConfig
from clusterlab.trainers.plans.work import work_of
from clusterlab.trainers.strategies.positions import gather, scatter

T = 2
MODEL = ModelConfig(layers=3, hidden=8, heads=2, ffn=16, vocab=8, sequence=6)


class Copies(TorchDispatchMode):
    """Bytes that copies read and write."""

    size_bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func is torch.ops.aten.clone.default:
            self.size_bytes += 2 * out.nbytes
        return out


class Two:
    """An axis of two ranks, without the other: shapes are what counts."""

    size, index = T, 0

    def all_gather(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, x])

    def reduce_scatter(self, x: torch.Tensor) -> torch.Tensor:
        return x[: len(x) // T]


@pytest.mark.parametrize("experts", [0, 4])
@pytest.mark.parametrize("rows", [1, 2, 5])
def test_copies_around_the_collectives(rows: int, experts: int) -> None:
    model = replace(MODEL, experts=experts)
    setup = Setup(model, MeshConfig(tp=T, sequence="tp"), TrainConfig(batch=rows, dtype="float32"))
    planned = [op for op in work_of(setup, range(1, 2)).forward if op.name == "positions"]
    with Copies() as copies:
        for _ in range(1 if experts else 2):
            whole = gather(torch.zeros(rows, model.sequence // T, model.hidden), Two())  # type: ignore[arg-type]
            scatter(whole, Two())  # type: ignore[arg-type]
    assert sum(op.size_bytes * op.count for op in planned) == copies.size_bytes
    assert (copies.size_bytes == 0) == (rows == 1)
