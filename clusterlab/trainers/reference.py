"""The same training in one process, unsharded: what every strategy must equal."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from clusterlab.trainers.config import MeshConfig, Setup
from clusterlab.trainers.data import batch_of
from clusterlab.trainers.model import Transformer, Ways, loss_of, named
from clusterlab.trainers.moe import force
from clusterlab.trainers.weights import first_value, weights_of


@dataclass(frozen=True, slots=True)
class Trained:
    """After some steps: each step's loss, the last step's gradients and the parameters, whole, by name."""

    losses: list[float]
    gradients: dict[str, torch.Tensor]
    parameters: dict[str, torch.Tensor]


def train_reference(setup: Setup) -> Trained:
    """Plain SGD over the whole batch at once, in float64 or the setup's dtype."""
    model, train = setup.model, setup.train
    dtype: torch.dtype = getattr(torch, train.dtype)
    values = {
        weight.name: first_value(weight, index, train.seed).to(dtype)
        for index, weight in enumerate(weights_of(model, MeshConfig()))
    }
    transformer = Transformer(model, values, range(model.layers), Ways())
    parameters = named(transformer)
    losses = []
    for step in range(train.steps):
        transformer.zero_grad()
        inputs, targets = batch_of(
            model, range(train.batch), step=step, seed=train.seed, text=train.text
        )
        force(transformer.ways, setup, step, range(train.batch), "cpu")
        loss = loss_of(transformer(inputs), targets, targets.numel())
        torch.autograd.backward(loss)
        losses.append(loss.item())
        with torch.no_grad():
            for parameter in parameters.values():
                assert parameter.grad is not None, "every parameter has a gradient"
                parameter.sub_(train.lr * parameter.grad)
    gradients = {n: p.grad.clone() for n, p in parameters.items() if p.grad is not None}
    return Trained(losses, gradients, {n: p.detach().clone() for n, p in parameters.items()})
