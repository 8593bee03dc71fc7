"""Sequence parallelism beside tensor parallelism, explicitly: between the cut matrices positions are split.

Tensor parallelism computes norms, residuals and biases of all positions on every rank. Here each of the T
ranks has S/T of them, and an all_reduce becomes a reduce_scatter and an all_gather of the same bytes
(Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models", section 4.2.2)::

      embed ── split ── x_BsH ── norm ── enter ── qkv … out ── leave ── + bias ── + x ── … ── join ── head
      S        S/T      S/T      S/T     S                     S/T      S/T       S/T         S       S

                  forward           backward
      split       own positions     all_gather         once, after the embedding
      enter       all_gather        reduce_scatter     before each column-cut matrix
      leave       reduce_scatter    all_gather         after each row-cut one
      join        all_gather        own positions      once, before the head

A dense block makes two all_gathers and two reduce_scatters of x_BSH forward, and as many backward.

Shapes of a rank: x_BsH with s = S/T outside, x_BSH with A/T heads or F/T inside; weights as in tensor
parallelism. A norm's weights and a row's bias are whole on every rank but see its positions only: their
gradients are parts, which ``finish`` sums along ``tp`` once a step. Embedding and head see all positions on
every rank: their gradients are whole already. Router and experts of a mixture see own positions too, and are
summed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from clusterlab.trainers.axis import Axis
from clusterlab.trainers.config import Setup
from clusterlab.trainers.model import Ways
from clusterlab.trainers.plans.sp import partial_buckets
from clusterlab.trainers.strategies.positions import Join, Split, gather, scatter


class PositionWays(Ways):
    """Positions split among the ranks of ``axis`` from embedding to head: what both kinds have in common."""

    def __init__(self, setup: Setup, axis: Axis) -> None:
        self.setup, self.axis = setup, axis

    def split(self, x_BSH: torch.Tensor) -> torch.Tensor:
        """As in Ways."""
        own: torch.Tensor = Split.apply(x_BSH, self.axis)  # type: ignore[no-untyped-call]
        return own

    def join(self, x_BSH: torch.Tensor) -> torch.Tensor:
        """As in Ways."""
        joined: torch.Tensor = Join.apply(x_BSH, self.axis)  # type: ignore[no-untyped-call]
        return joined

    def finish(self, parameters: Mapping[str, nn.Parameter]) -> None:
        """As in Ways: gradients of what saw only own positions, several in a call."""
        for names in partial_buckets(self.setup, parameters):
            # An expert without tokens here has no gradient; other ranks' may have.
            gradients = [_gradient(parameters[name]) for name in names]
            flat = self.axis.all_reduce(torch.cat([gradient.flatten() for gradient in gradients]))
            sizes = [gradient.numel() for gradient in gradients]
            for gradient, whole in zip(gradients, torch.split(flat, sizes), strict=True):
                gradient.copy_(whole.view_as(gradient))


def _gradient(parameter: nn.Parameter) -> torch.Tensor:
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    return parameter.grad


class SequenceWays(PositionWays):
    """Beside tensor parallelism: gathered where matrices are cut."""

    def enter(self, x_BSH: torch.Tensor) -> torch.Tensor:
        """As in Ways: all positions, from each rank's own."""
        entered: torch.Tensor = _Enter.apply(x_BSH, self.axis)  # type: ignore[no-untyped-call]
        return entered

    def leave(self, x_BSH: torch.Tensor) -> torch.Tensor:
        """As in Ways: own positions of the sum of the ranks' parts."""
        left: torch.Tensor = _Leave.apply(x_BSH, self.axis)  # type: ignore[no-untyped-call]
        return left


class _Enter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_BsH: torch.Tensor, axis: Axis) -> torch.Tensor:
        ctx.axis = axis
        return gather(x_BsH, axis)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        return scatter(grad, ctx.axis), None


class _Leave(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_BSH: torch.Tensor, axis: Axis) -> torch.Tensor:
        ctx.axis = axis
        return scatter(x_BSH, axis)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gather(grad, ctx.axis), None
