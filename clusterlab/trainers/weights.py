"""Every parameter by name: its shape, its first value, and how tensor and expert parallelism slice it.

A value depends on (seed, index of the name) only, so every strategy starts from the same weights, sliced.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterlab.trainers.config import MeshConfig, ModelConfig
from clusterlab.trainers.mesh import Place

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Weight:
    """One parameter, whole. ``axis`` None: every rank of its stage has it all; else it is cut along ``dim``
    in as many parts as ``axis`` has ranks. ``layer`` None: of the embedding or the head.
    """

    name: str
    shape: tuple[int, ...]
    layer: int | None
    axis: str | None = None
    dim: int = 0

    @property
    def elements(self) -> int:
        """Of the whole."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count


def weights_of(model: ModelConfig, mesh: MeshConfig) -> tuple[Weight, ...]:
    """All parameters of ``model``, in one order whatever the mesh, with the mesh's cuts."""
    H, F, V, S = model.hidden, model.ffn, model.vocab, model.sequence
    # Ulysses splits positions, not weights.
    tp = "tp" if mesh.sequence != "ulysses" else None
    found = [
        Weight("embed.token", (V, H), None),
        Weight("embed.position", (S, H), None),
    ]
    for i in range(model.layers):
        block = f"blocks.{i}"
        found += [
            Weight(f"{block}.norm1.weight", (H,), i),
            Weight(f"{block}.norm1.bias", (H,), i),
            Weight(f"{block}.qkv.weight", (3, H, H), i, tp, 1),
            Weight(f"{block}.qkv.bias", (3, H), i, tp, 1),
            Weight(f"{block}.out.weight", (H, H), i, tp, 1),
            Weight(f"{block}.out.bias", (H,), i),
            Weight(f"{block}.norm2.weight", (H,), i),
            Weight(f"{block}.norm2.bias", (H,), i),
        ]
        if model.experts:
            E = model.experts
            found += [
                Weight(f"{block}.router.weight", (E, H), i),
                Weight(f"{block}.experts.up", (E, F, H), i, "ep", 0),
                Weight(f"{block}.experts.down", (E, H, F), i, "ep", 0),
            ]
        else:
            found += [
                Weight(f"{block}.up.weight", (F, H), i, tp, 0),
                Weight(f"{block}.up.bias", (F,), i, tp, 0),
                Weight(f"{block}.down.weight", (H, F), i, tp, 1),
                Weight(f"{block}.down.bias", (H,), i),
            ]
    found += [
        Weight("norm.weight", (H,), None),
        Weight("norm.bias", (H,), None),
        Weight("head.weight", (V, H), None),
    ]
    return tuple(found)


def first_value(weight: Weight, index: int, seed: int) -> torch.Tensor:
    """The whole parameter in float64 as training begins: ones for norms' weights, zeros for biases, else
    normal with 1/√(inputs) as GPT-2 has it at depth 1.
    """
    import torch

    if "norm" in weight.name and weight.name.endswith("weight"):
        return torch.ones(weight.shape, dtype=torch.float64)
    if weight.name.endswith("bias"):
        return torch.zeros(weight.shape, dtype=torch.float64)
    generator = torch.Generator().manual_seed(seed * 1_000_003 + index)
    # Drawn in float32, which takes a quarter of the time: any value will do, if all ranks have the same.
    value = torch.randn(weight.shape, generator=generator).double()
    return value.div_(weight.shape[-1] ** 0.5)


def part_of(weight: Weight, whole: torch.Tensor, mesh: MeshConfig, place: Place) -> torch.Tensor:
    """The part of ``whole`` that a rank at ``place`` holds."""
    if weight.axis is None:
        return whole
    parts: int = getattr(mesh, weight.axis)
    part: torch.Tensor = whole.chunk(parts, weight.dim)[getattr(place, weight.axis)].contiguous()
    return part


def whole_of(weight: Weight, parts: list[torch.Tensor]) -> torch.Tensor:
    """The whole parameter from all parts, in order along its axis."""
    import torch

    return parts[0] if weight.axis is None else torch.cat(parts, weight.dim)
