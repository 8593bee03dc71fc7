"""Positions of x_BSH between ranks: each has S/T of them, or all.

The collectives join along dimension 0 and positions are dimension 1, so x is turned to (S, B, H) for the call
and back. (Megatron-LM keeps activations in that order to save the two copies; with B = 1 there are none.)
"""

from __future__ import annotations

from typing import Any

import torch

from clusterlab.trainers.axis import Axis


def gather(x_BsH: torch.Tensor, axis: Axis) -> torch.Tensor:
    """All positions from every rank's own: one all_gather."""
    return _turned(axis.all_gather(_turned(x_BsH)))


def scatter(x_BSH: torch.Tensor, axis: Axis) -> torch.Tensor:
    """This rank's positions of the ranks' sum: one reduce_scatter."""
    return _turned(axis.reduce_scatter(_turned(x_BSH)))


def own(x_BSH: torch.Tensor, axis: Axis) -> torch.Tensor:
    """This rank's positions of what every rank has: no call."""
    return x_BSH.chunk(axis.size, 1)[axis.index].contiguous()


def _turned(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(0, 1).contiguous()


class Split(torch.autograd.Function):
    """Forward: own positions of an x that is the same on all ranks. Backward: the gradient of all of it, on
    every rank: what comes before is as if there were one rank, and nothing of it is summed.
    """

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, axis: Axis) -> torch.Tensor:
        ctx.axis = axis
        return own(x, axis)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gather(grad, ctx.axis), None


class Join(torch.autograd.Function):
    """Forward: all positions. Backward: what follows is the same on all ranks and so is the gradient; each
    keeps that of its own positions. (To sum them would make everything before T times too large.)
    """

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, axis: Axis) -> torch.Tensor:
        ctx.axis = axis
        return gather(x, axis)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        return own(grad, ctx.axis), None
