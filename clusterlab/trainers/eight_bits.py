"""A matrix product in 8 bits, forward and backward, of 16-bit tensors: what fp8 training of Hopper is.

      forward    y  = x  wᵀ      x and w in e4m3 (4 bits of exponent, 3 of mantissa)
      backward   dx = dy w       dy in e5m2 (5, 2), for gradients spread over more powers of two
                 dw = dyᵀ x

A tensor is scaled as a whole, by the power of two that brings its largest value just below what 8 bits hold:
a scale rounds nothing, only the cast does. Scales are made from the tensor at hand, each time anew (dynamic
scaling); sums are in 32 bits, results in 16. Parameters, their updates, what is kept between forward and
backward and what ranks send each other stay in 16 bits: fewer bytes are multiplied, not fewer stored or sent
(Micikevicius et al. 2022, "FP8 Formats for Deep Learning", has the formats). On CPUs torch multiplies the
same values slowly.

Ranks that split a matrix scale their parts by themselves, so tensor parallelism rounds otherwise than one
rank does.
"""

from __future__ import annotations

from typing import Any

import torch

from clusterlab.core.errors import UsageError

GRAIN = 16
"""torch's product wants every side to be a multiple."""


def check_device(device: torch.device) -> None:
    """Raises UsageError where ``device`` multiplies no 8-bit floats: Hopper, Ada and later do, and CPUs."""
    if not hasattr(torch, "_scaled_mm"):
        raise UsageError(f"torch {torch.__version__}", where="--dtype fp8", expected="2.5 or later")
    if device.type == "cuda" and torch.cuda.get_device_capability(device) < (8, 9):
        raise UsageError(
            f"{torch.cuda.get_device_name(device)} has no products in 8 bits", where="--dtype fp8",
            expected="compute capability 8.9 or later", fix="--dtype bfloat16",
        )  # fmt: skip


def scaled(x: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """``x`` in 8 bits, and what to multiply it by to have it back."""
    most = torch.finfo(dtype).max
    largest = x.detach().abs().amax().float().clamp(min=torch.finfo(torch.float32).tiny * most)
    back = torch.exp2(torch.ceil(torch.log2(largest / most)))
    return (x / back.to(x.dtype)).clamp(-most, most).to(dtype), back


def product(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """x Wᵀ over the last dimension of ``x``."""
    flat: torch.Tensor = _Product.apply(x.reshape(-1, x.shape[-1]), weight)  # type: ignore[no-untyped-call]
    return flat.view(*x.shape[:-1], weight.shape[0])


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_TK: torch.Tensor, w_NK: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x_TK, w_NK)
        return _multiply(scaled(x_TK, _E4), scaled(w_NK, _E4), x_TK.dtype, fast=True)

    @staticmethod
    def backward(ctx: Any, dy_TN: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x_TK, w_NK = ctx.saved_tensors
        dy8_TN, back = scaled(dy_TN, _E5)
        w8_NK, x8_TK = scaled(w_NK, _E4), scaled(x_TK, _E4)
        dx_TK = _multiply((dy8_TN, back), _turned(w8_NK), x_TK.dtype)
        dw_NK = _multiply((dy8_TN.t().contiguous(), back), _turned(x8_TK), w_NK.dtype)
        return dx_TK, dw_NK


_E4, _E5 = torch.float8_e4m3fn, torch.float8_e5m2

_Scaled = tuple[torch.Tensor, torch.Tensor]


def _turned(one: _Scaled) -> _Scaled:
    return one[0].t().contiguous(), one[1]


def _multiply(a: _Scaled, b: _Scaled, dtype: torch.dtype, *, fast: bool = False) -> torch.Tensor:
    """a bᵀ, both by rows. ``fast``: sums of less than 32 bits, enough for a forward."""
    made: torch.Tensor = torch._scaled_mm(
        a[0], b[0].t(), scale_a=a[1], scale_b=b[1], out_dtype=dtype, use_fast_accum=fast
    )
    return made
