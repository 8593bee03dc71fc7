"""Sequence parallelism instead of tensor parallelism, explicitly: all-to-alls around attention.

Every rank has all weights and S/T positions, from embedding to head. Only attention needs other positions,
and it needs them head by head: before it each rank trades positions of all heads for all positions of some,
after it back (Jacobs et al. 2023, "DeepSpeed Ulysses")::

               positions                             positions
      rank 0   0 ── s        heads 0 1 2 3           0 ─────── S   heads 0 1
      rank 1        s ── S   heads 0 1 2 3     ⇄     0 ─────── S   heads 2 3

      embed ── split ── norm ── qkv ── to_heads ── attention ── from_heads ── out ── … ── join ── head
      S        s        s       s      S, A/T      S, A/T       s             s           S       S

A block makes four all_to_alls of a rank's x_BsH forward (q, k, v and what comes of them) and four backward: a
rank sends 4 · (T-1)/T² of x_BSH where tensor parallelism's two all_reduces send 4 · (T-1)/T.

Shapes of a rank: q, k, v (B, s, A, D) to (B, S, A/T, D) and back, s = S/T. All weights are whole; those
between ``split`` and ``join`` saw own positions only, so their gradients are summed along ``tp`` once a step,
by ``finish``. Embedding and head see all positions on every rank: their gradients are whole already.
"""

from __future__ import annotations

from typing import Any

import torch

from clusterlab.trainers.axis import Axis
from clusterlab.trainers.strategies.sp import PositionWays


class UlyssesWays(PositionWays):
    """Traded for heads where attention needs all positions."""

    def to_heads(self, x_BSAD: torch.Tensor) -> torch.Tensor:
        """As in Ways: (B, s, A, D) to (B, S, A/T, D)."""
        traded: torch.Tensor = _ToHeads.apply(x_BSAD, self.axis)  # type: ignore[no-untyped-call]
        return traded

    def from_heads(self, x_BSAD: torch.Tensor) -> torch.Tensor:
        """As in Ways: (B, S, A/T, D) to (B, s, A, D)."""
        traded: torch.Tensor = _FromHeads.apply(x_BSAD, self.axis)  # type: ignore[no-untyped-call]
        return traded


def positions_to_heads(x_BsAD: torch.Tensor, axis: Axis) -> torch.Tensor:
    """To rank t the heads of its T-th part: one all_to_all."""
    B, s, A, D = x_BsAD.shape
    T = axis.size
    sent_TBsaD = x_BsAD.view(B, s, T, A // T, D).permute(2, 0, 1, 3, 4).contiguous()
    received_TBsaD = axis.all_to_all(sent_TBsaD)
    return received_TBsaD.transpose(0, 1).reshape(B, T * s, A // T, D)


def heads_to_positions(x_BSaD: torch.Tensor, axis: Axis) -> torch.Tensor:
    """To rank t the positions of its T-th part: one all_to_all."""
    B, S, a, D = x_BSaD.shape
    T = axis.size
    sent_TBsaD = x_BSaD.reshape(B, T, S // T, a, D).transpose(0, 1).contiguous()
    received_TBsaD = axis.all_to_all(sent_TBsaD)
    return received_TBsaD.permute(1, 2, 0, 3, 4).reshape(B, S // T, T * a, D)


class _ToHeads(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, axis: Axis) -> torch.Tensor:
        ctx.axis = axis
        return positions_to_heads(x, axis)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        return heads_to_positions(grad, ctx.axis), None


class _FromHeads(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, axis: Axis) -> torch.Tensor:
        ctx.axis = axis
        return heads_to_positions(x, axis)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        return positions_to_heads(grad.contiguous(), ctx.axis), None
