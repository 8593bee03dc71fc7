"""The compute beside a collective: matrix products, as many as take about its time, with a known result."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterlab.bench.agreed_check import Outcome, agree
from clusterlab.bench.check import Found
from clusterlab.bench.control import Control

if TYPE_CHECKING:
    import torch

_HOST_SIDES = (32, 64, 128, 256, 512)
_GPU_SIDES = (1024, 2048, 4096, 8192)
_LARGEST_VALUE = 4
"""Of the factors, whole numbers from -4 to 4: every sum of products is exact in float32, so the product is
one value whatever the order of summation, and a check can be exact.
"""
_REFERENCE_ROWS = 1024


@dataclass(frozen=True, slots=True)
class Products:
    """``repeats`` products of two square matrices of ``side``, into ``out``."""

    left: torch.Tensor
    right: torch.Tensor
    out: torch.Tensor
    repeats: int

    def __call__(self) -> None:
        """Compute; on a GPU on the current stream."""
        import torch

        for _ in range(self.repeats):
            torch.mm(self.left, self.right, out=self.out)

    @property
    def text(self) -> str:
        """``3 x matmul 4096 bfloat16``."""
        kind = str(self.left.dtype).removeprefix("torch.")
        return f"{self.repeats} x matmul {self.left.shape[0]} {kind}"


def products(side: int, repeats: int, device: torch.device) -> Products:
    """Products of random whole numbers: bfloat16 on a GPU (what tensor cores are fed), float32 on a CPU."""
    import torch

    on_gpu = device.type == "cuda"
    if on_gpu:
        # Partial sums that are rounded to bfloat16 would depend on how cuBLAS cuts the product.
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    source = torch.Generator(device="cpu").manual_seed(side)
    kind = torch.bfloat16 if on_gpu else torch.float32

    def matrix() -> torch.Tensor:
        values = torch.randint(
            -_LARGEST_VALUE, _LARGEST_VALUE + 1, (side, side), generator=source, dtype=torch.int8
        )
        return values.to(device=device, dtype=kind)

    left, right = matrix(), matrix()
    return Products(left, right, torch.empty_like(left), repeats)


def sized(target_us: float, control: Control, side: int | None) -> Products:
    """Products that take about ``target_us`` (µs) on the slowest rank, of ``side`` where that is given.

    Collective: all ranks compute the same. Without a ``side`` the largest of a few whose product takes no
    longer than the target: large products are what training does.
    """
    on_gpu = control.device.type == "cuda"
    sides = (side,) if side else _GPU_SIDES if on_gpu else _HOST_SIDES
    chosen, took_us = sides[0], 0.0
    for candidate in sides:
        (time_us,) = control.largest([_time_us(products(candidate, 1, control.device))])
        if candidate != sides[0] and time_us > target_us:
            break
        chosen, took_us = candidate, time_us
    return products(chosen, max(1, round(target_us / max(took_us, 1e-3))), control.device)


def _time_us(compute: Products) -> float:
    """Median of a few runs, in µs."""
    import torch

    times = []
    for _ in range(7):
        start_ns = time.perf_counter_ns()
        compute()
        if compute.out.is_cuda:
            torch.cuda.synchronize(compute.out.device)
        times.append((time.perf_counter_ns() - start_ns) / 1e3)
    return statistics.median(times[2:])


def check_products(compute: Products, run: Callable[[], None], control: Control) -> Outcome:
    """``run`` computes beside something else; the wrong elements of all ranks, and the first. Collective."""
    import torch

    compute.out.fill_(torch.nan)
    run()
    wrong, first = 0, (-1, 0.0, 0.0)
    side = compute.left.shape[0]
    right = compute.right.to(torch.float64)
    for begin in range(0, side, _REFERENCE_ROWS):
        rows = slice(begin, begin + _REFERENCE_ROWS)
        exact = compute.left[rows].to(torch.float64) @ right
        expected = exact.to(torch.float32).to(compute.out.dtype).flatten()
        got = compute.out[rows].flatten()
        bad = got != expected  # NaN differs too
        count = int(bad.sum())
        if count and not wrong:
            i = int(bad.nonzero()[0])
            first = (begin * side + i, float(expected[i]), float(got[i]))
        wrong += count
    return agree(Found(wrong, *first), control)
