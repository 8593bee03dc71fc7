"""The roofline of the device at hand, by a short probe: matrix products, attention, memory, issue of an op.

Rates are of the dtype in question, products of a model's own number of rows where it is known: skinny ones
are slower. Each figure is the median of some rounds that follow each other without a pause, as in training.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from clusterlab.trainers.plans.compute import Compute
from clusterlab.trainers.plans.work import causal_pairs

if TYPE_CHECKING:
    import torch

_ROUND_S = 0.03
_ROUNDS = 5
_MOST_S = 0.3
"""Of one figure, on a machine that others keep busy too."""


def probe(device: str, element: str, *, rows: int = 1024, sequence: int = 1024) -> Compute:
    """Of ``device`` (``cpu``, ``cuda:0``) in dtype ``element``: some seconds."""
    import torch

    where, dtype = torch.device(device), getattr(torch, element)
    on_gpu = where.type == "cuda"
    widths = (256, 512, 1024, 2048, 4096, 8192) if on_gpu else (64, 128, 256, 512, 1024)
    name = torch.cuda.get_device_name(where) if on_gpu else "this host's cores"
    return Compute(
        name=name,
        matmul=tuple(_matmul(where, dtype, rows, width) for width in widths),
        attention_TFLOPs=_attention(where, dtype, sequence),
        memory_GBps=_memory(where, 1 << (28 if on_gpu else 25)),
        issue_us=_issue(where),
        behind=on_gpu,
        source=f"measured here: {element}, torch {torch.__version__}",
    )


def _matmul(where: torch.device, dtype: torch.dtype, rows: int, width: int) -> tuple[float, float]:
    import torch

    x = torch.randn(rows, width, device=where).to(dtype)
    weight = torch.randn(width, width, device=where).to(dtype)
    out = torch.empty(rows, width, device=where, dtype=dtype)
    flops = 2.0 * rows * width * width
    return flops, flops / _seconds(where, lambda: torch.mm(x, weight.T, out=out)) / 1e12


def _attention(where: torch.device, dtype: torch.dtype, sequence: int) -> float:
    """Forward and backward, seven products of the pairs that the mask leaves."""
    import torch

    heads, width = (16, 64) if where.type == "cuda" else (2, 32)
    shape = (4 if where.type == "cuda" else 1, heads, sequence, width)
    q, k, v = (torch.randn(shape, device=where).to(dtype).requires_grad_() for _ in range(3))
    grad = torch.ones(shape, device=where, dtype=dtype)

    def once() -> None:
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        torch.autograd.grad(mixed, (q, k, v), grad)

    flops = 7 * 2.0 * shape[0] * heads * width * causal_pairs(sequence)
    return flops / _seconds(where, once) / 1e12


def _memory(where: torch.device, size_bytes: int) -> float:
    """A copy reads and writes each byte."""
    import torch

    source = torch.zeros(size_bytes, dtype=torch.uint8, device=where)
    target = torch.empty_like(source)
    return 2 * size_bytes / _seconds(where, lambda: target.copy_(source)) / 1e9


def _issue(where: torch.device) -> float:
    """µs of an op that computes next to nothing: all of it is torch and the launch."""
    import torch

    x = torch.zeros(1, device=where)
    return _seconds(where, lambda: x.add_(1.0)) * 1e6


def _seconds(where: torch.device, once: Callable[[], object]) -> float:
    """Of one call, many of them one after the other."""
    import torch

    def run(count: int) -> float:
        started = time.perf_counter()
        for _ in range(count):
            once()
        if where.type == "cuda":
            torch.cuda.synchronize(where)
        return time.perf_counter() - started

    run(1)
    began, count = time.perf_counter(), 1
    while (taken := run(count)) < _ROUND_S and count < 1 << 16:
        count = max(2 * count, min(round(count * _ROUND_S / max(taken, 1e-9)), 1 << 16))
    rounds = [taken]
    while len(rounds) < _ROUNDS and time.perf_counter() - began < _MOST_S:
        rounds.append(run(count))
    return statistics.median(rounds) / count
