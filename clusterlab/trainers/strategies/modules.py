"""Units of a model, gathered and freed together: the embedding, each block, the head with its norm."""

from __future__ import annotations

import itertools

from torch import nn

from clusterlab.trainers.config import Setup
from clusterlab.trainers.model import Transformer


def modules_of(model: Transformer) -> dict[str, tuple[nn.Module, nn.Module]]:
    """The first and the last module of every unit that ``model`` has, in order of use."""
    found: dict[str, tuple[nn.Module, nn.Module]] = {}
    if model.embed is not None:
        found["embed"] = model.embed, model.embed
    found.update({f"blocks.{i}": (block, block) for i, block in model.blocks.items()})
    if model.norm is not None and model.head is not None:
        found["head"] = model.norm, model.head
    return found


def neighbours(model: Transformer, setup: Setup) -> list[tuple[str, str]]:
    """Units that are used one after the other: not those of two of a pipeline's stages."""
    return [
        (one, other)
        for one, other in itertools.pairwise(modules_of(model))
        if _stage_of(one, setup) == _stage_of(other, setup)
    ]


def _stage_of(unit: str, setup: Setup) -> int:
    if not unit.startswith("blocks."):
        return 0 if unit == "embed" else setup.stages - 1
    return int(unit.removeprefix("blocks.")) * setup.stages // setup.model.layers
