"""A rank's trainer from a setup: its slice of the weights, the ways of its mesh, its update, its step."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from clusterlab.trainers.axis import Axis
from clusterlab.trainers.config import Setup
from clusterlab.trainers.ledger import Ledger
from clusterlab.trainers.mesh import place_of
from clusterlab.trainers.model import Transformer, Ways, named
from clusterlab.trainers.step import LocalUpdate, OnRank, PlainTrainer, Trainer, Update
from clusterlab.trainers.weights import first_value, part_of, weights_of


def build(
    setup: Setup,
    rank: int,
    axes: Mapping[str, Axis],
    ledger: Ledger,
    device: torch.device,
    values: Mapping[str, torch.Tensor] | None = None,
) -> Trainer:
    """The trainer of ``rank``; ``axes`` from ``open_axes``. All ranks build alike.

    ``values``: parameters to go on with, named and cut as ``Trainer.held`` has them.
    """
    own = OnRank(setup, place_of(rank, setup.mesh), axes, ledger, device, values)
    if setup.mesh.pp > 1:
        return pipeline(own)
    layers = range(setup.model.layers)
    model = Transformer(setup.model, own_values(own), layers, ways_of(own))
    return PlainTrainer(own, model, update_of(own, model))


def pipeline(own: OnRank) -> Trainer:
    """The trainer of a rank that has some stages only."""
    from clusterlab.trainers.plans.schedules import layers_of, stages_of
    from clusterlab.trainers.strategies.pp import PipelineTrainer
    from clusterlab.trainers.strategies.stages import Stages

    layers = [
        layer
        for stage in stages_of(own.place.pp, own.setup)
        for layer in layers_of(stage, own.setup)
    ]
    model = Transformer(own.setup.model, own_values(own), layers, ways_of(own))
    return PipelineTrainer(Stages(own, model), update_of(own, model))


def own_values(own: OnRank) -> dict[str, torch.Tensor]:
    """First values of every parameter, this rank's part of those that are cut."""
    setup, place, device = own.setup, own.place, own.device
    dtype: torch.dtype = getattr(torch, setup.train.dtype)
    if own.values is not None:
        return {name: value.to(device, dtype).clone() for name, value in own.values.items()}
    return {
        weight.name: part_of(
            weight, first_value(weight, index, setup.train.seed), setup.mesh, place
        ).to(device, dtype)
        for index, weight in enumerate(weights_of(setup.model, setup.mesh))
    }


def ways_of(own: OnRank) -> Ways:
    """Tensor, sequence and expert parallelism."""
    from clusterlab.trainers.strategies.ep import ExpertWays

    inner = dense_ways_of(own)
    return ExpertWays(inner, own.setup, own.axes) if own.setup.model.experts else inner


def dense_ways_of(own: OnRank) -> Ways:
    """Tensor and sequence parallelism."""
    from clusterlab.trainers.strategies.sp import SequenceWays
    from clusterlab.trainers.strategies.tp import TensorWays
    from clusterlab.trainers.strategies.ulysses import UlyssesWays

    axis, sequence = own.axes["tp"], own.setup.mesh.sequence
    if axis.size == 1:
        return Ways()
    if sequence is None:
        return TensorWays(axis)
    return (SequenceWays if sequence == "tp" else UlyssesWays)(own.setup, axis)


def update_of(_own: OnRank, model: Transformer) -> Update:
    """Data parallelism."""
    return LocalUpdate(named(model))
