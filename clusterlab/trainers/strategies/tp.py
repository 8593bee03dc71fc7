"""Tensor parallelism, explicitly: every matrix is cut among the T ranks of ``tp``, two by two.

The first of a pair is cut by columns (its outputs), the second by rows (its inputs), so that what lies
between them, heads or the inner width, needs nobody else's part::

              rank 0   x_BSH ── norm ──●── qkv, A/T heads ── out, H/T inputs ──┐
                                     enter                                   leave ── + bias ── + x ──
              rank 1   x_BSH ── norm ──●── qkv, A/T heads ── out, H/T inputs ──┘
                                                                                     and so for up, F/T, down

              enter     forward: x as it is        backward: all_reduce, each rank has a part of the gradient
              leave     forward: all_reduce        backward: the gradient as it is

A block makes two all_reduces of x_BSH forward and two backward (Shoeybi et al. 2019, "Megatron-LM", section
3, where enter is f and leave is g).

Shapes of a rank: qkv (3, H/T, H) with its bias (3, H/T), out (H, H/T), up (F/T, H) with its bias (F/T), down
(H, F/T). Norms, the rows' biases, embedding and head are whole on every rank, see the same x_BSH there, and
so get the same whole gradient: nothing of them is summed along ``tp``. A rank's bias of rows is added after
``leave``: before it, it would count T times. A mixture of experts is not cut along ``tp``.
"""

from __future__ import annotations

from typing import Any

import torch

from clusterlab.trainers.axis import Axis
from clusterlab.trainers.model import Ways


class TensorWays(Ways):
    """``axis``: the ranks that cut the weights among them."""

    def __init__(self, axis: Axis) -> None:
        self.axis = axis

    def enter(self, x_BSH: torch.Tensor) -> torch.Tensor:
        """As in Ways: backward, the ranks' parts of the gradient are summed."""
        entered: torch.Tensor = _Enter.apply(x_BSH, self.axis)  # type: ignore[no-untyped-call]
        return entered

    def leave(self, x_BSH: torch.Tensor) -> torch.Tensor:
        """As in Ways: forward, the ranks' parts are summed."""
        left: torch.Tensor = _Leave.apply(x_BSH, self.axis)  # type: ignore[no-untyped-call]
        return left


class _Enter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, axis: Axis) -> torch.Tensor:
        ctx.axis = axis
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        # Autograd may hand the same tensor to others: the sum goes into a copy.
        return ctx.axis.all_reduce(grad.clone(memory_format=torch.contiguous_format)), None


class _Leave(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, axis: Axis) -> torch.Tensor:
        ctx.mark_dirty(x)
        return axis.all_reduce(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        return grad, None
