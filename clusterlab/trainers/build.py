"""A rank's trainer from a setup: its slice of the weights, the ways of its mesh, its update, its step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import nn

from clusterlab.trainers.axis import Axis
from clusterlab.trainers.config import Setup
from clusterlab.trainers.ledger import Ledger
from clusterlab.trainers.mesh import place_of
from clusterlab.trainers.model import Transformer, Ways, named
from clusterlab.trainers.plans.tp import by_dtensor
from clusterlab.trainers.step import LocalUpdate, OnRank, PlainTrainer, Trainer, Update
from clusterlab.trainers.weights import first_value, part_of, weights_of


def build(
    setup: Setup,
    rank: int,
    axes: Mapping[str, Axis],
    ledger: Ledger,
    device: torch.device,
    *,
    values: Mapping[str, torch.Tensor] | None = None,
) -> Trainer:
    """The trainer of ``rank``; ``axes`` from ``open_axes``. All ranks build alike.

    ``values``: parameters to go on with, named and cut as ``Trainer.held`` has them.
    """
    own = OnRank(setup, place_of(rank, setup.mesh), axes, ledger, device, values)
    if setup.mesh.pp > 1:
        return pipeline(own)
    model = model_of(own, range(setup.model.layers))
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
    model = model_of(own, layers)
    if own.setup.train.library:
        from clusterlab.trainers.strategies.library.pipelining import TorchPipelineTrainer

        return TorchPipelineTrainer(own, model, update_of(own, model))
    return PipelineTrainer(Stages(own, model), update_of(own, model))


def model_of(own: OnRank, layers: Sequence[int]) -> Transformer:
    """These ``layers`` of the model, as much of them as the rank has."""
    if own.setup.model.fp8:
        from clusterlab.trainers.eight_bits import check_device

        check_device(own.device)
    model = Transformer(own.setup.model, own_values(own), layers, ways_of(own))
    if by_dtensor(own.setup):
        from clusterlab.trainers.strategies.library.dtensor import mesh_of, parallelize

        parallelize(model, own.setup, mesh_of(own.axes["tp"], own.device))
    return model


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
    if by_dtensor(own.setup):
        from clusterlab.trainers.strategies.library.dtensor import (
            TorchSequenceWays,
            TorchTensorWays,
            mesh_of,
        )

        if sequence is None:
            return TorchTensorWays(axis)
        return TorchSequenceWays(own.setup, axis, mesh_of(axis, own.device))
    if sequence is None:
        return TensorWays(axis)
    return (SequenceWays if sequence == "tp" else UlyssesWays)(own.setup, axis)


def update_of(own: OnRank, model: Transformer) -> Update:
    """Data parallelism of ``model``, which is all that this rank has of the whole."""
    from clusterlab.trainers.plans.buckets import buckets, units
    from clusterlab.trainers.plans.dp import by_torch
    from clusterlab.trainers.strategies.dp import BucketedUpdate
    from clusterlab.trainers.strategies.fsdp import FullyShardedUpdate
    from clusterlab.trainers.strategies.zero import ShardedUpdate

    parameters = named(model)
    if own.setup.mesh.dp == 1:
        return _alone(own, parameters)
    kind = own.setup.train.data_parallel
    if by_torch(own.setup):
        from clusterlab.trainers.strategies.library.ddp import TorchDdpUpdate
        from clusterlab.trainers.strategies.library.fsdp2 import TorchFsdpUpdate

        if kind == "fsdp":
            return TorchFsdpUpdate(own, model)
        return TorchDdpUpdate(own, model, parameters)
    weights = [w for w in weights_of(own.setup.model, own.setup.mesh) if w.name in parameters]
    if kind == "fsdp":
        return FullyShardedUpdate(own, units(own.setup, weights), parameters, model)
    planned = buckets(own.setup, weights)
    if kind == "ddp":
        return BucketedUpdate(own, planned, parameters)
    return ShardedUpdate(own, planned, parameters, stage=1 if kind == "zero1" else 2)


def _alone(own: OnRank, parameters: Mapping[str, nn.Parameter]) -> Update:
    """Without other ranks of this data."""
    if by_dtensor(own.setup):
        from clusterlab.trainers.strategies.library.dtensor import PartsUpdate

        return PartsUpdate(parameters)
    return LocalUpdate(parameters)
