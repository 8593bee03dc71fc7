"""Rows of tokens to rows of choices and back, both ways by gathering.

torch's own backward of a gather adds rows where they came from, element by element with atomics on GPUs: slow
in bfloat16, and in another order each time. Where it is known which choices are a token's, or that rows
only change places, both directions can gather.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


def spread(x_TH: torch.Tensor, token: torch.Tensor, place_TK: torch.Tensor) -> torch.Tensor:
    """Row ``token[c]`` of ``x_TH`` for every choice c, (C, H). ``place_TK``: where each of a token's K
    choices is among the C; C itself for one that is not kept.
    """
    rows: torch.Tensor = _Spread.apply(x_TH, token, place_TK)  # type: ignore[no-untyped-call]
    return rows


def gathered(y_CH: torch.Tensor, token: torch.Tensor, place_TK: torch.Tensor) -> torch.Tensor:
    """The sum of each token's choices, (T, H): what ``spread`` does, transposed."""
    rows: torch.Tensor = _Gathered.apply(y_CH, token, place_TK)  # type: ignore[no-untyped-call]
    return rows


def permuted(x: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    """``x[order]``, where ``order`` has every row once."""
    rows: torch.Tensor = _Permuted.apply(x, order)  # type: ignore[no-untyped-call]
    return rows


def transposed(rows: torch.Tensor, counts: Sequence[Sequence[int]]) -> torch.Tensor:
    """``rows`` are blocks, ``counts[a][b]`` rows in each, by a and then by b: the same by b and then by a."""
    blocks = iter(torch.split(rows, [n for line in counts for n in line]))
    lines = [[next(blocks) for _ in line] for line in counts]
    return torch.cat([block for column in zip(*lines, strict=True) for block in column])


def by_key(key: torch.Tensor, most: int) -> torch.Tensor:
    """The order that sorts ``key`` (0 to ``most``), equal ones as they are.

    In the narrowest type: a GPU's radix sort goes over all of it once for every 8 bits of a key.
    """
    kind = torch.uint8 if most < 256 else torch.int16 if most < 1 << 15 else torch.int64
    return torch.argsort(key.to(kind), stable=True)


def inverse(order: torch.Tensor) -> torch.Tensor:
    """The permutation that undoes ``order``."""
    back = torch.empty_like(order)
    back[order] = torch.arange(order.numel(), device=order.device)
    return back


def _sum_of_choices(y_CH: torch.Tensor, place_TK: torch.Tensor) -> torch.Tensor:
    # The row after the last stands for what is not kept.
    padded = torch.cat([y_CH, y_CH.new_zeros(1, y_CH.shape[1])])
    rows = padded.index_select(0, place_TK.reshape(-1))
    return rows.view(*place_TK.shape, -1).sum(1)


class _Spread(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x_TH: torch.Tensor, token: torch.Tensor, place_TK: torch.Tensor
    ) -> torch.Tensor:
        ctx.save_for_backward(place_TK)
        return x_TH.index_select(0, token)

    @staticmethod
    def backward(ctx: Any, grad_CH: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (place_TK,) = ctx.saved_tensors
        return _sum_of_choices(grad_CH, place_TK), None, None


class _Gathered(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, y_CH: torch.Tensor, token: torch.Tensor, place_TK: torch.Tensor
    ) -> torch.Tensor:
        ctx.save_for_backward(token)
        return _sum_of_choices(y_CH, place_TK)

    @staticmethod
    def backward(ctx: Any, grad_TH: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (token,) = ctx.saved_tensors
        return grad_TH.index_select(0, token), None, None


class _Permuted(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(order)
        return x.index_select(0, order)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        (order,) = ctx.saved_tensors
        return grad.index_select(0, inverse(order)), None
