"""The roofline of the device at hand, by a short probe: matrix products, attention, memory, functions of each
element, and what it costs to issue an op.

Rates are of the dtype in question, products of a model's own number of rows where it is known: skinny ones
are slower. Each figure is the median of some rounds that follow each other without a pause, as in training.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from clusterlab.trainers.config import MeshConfig, ModelConfig, Setup, TrainConfig
from clusterlab.trainers.plans.compute import Compute
from clusterlab.trainers.plans.work import causal_pairs, work_of
from clusterlab.trainers.weights import weights_of

if TYPE_CHECKING:
    import torch

_ROUND_S = 0.03
_ROUNDS = 5
_MOST_S = 0.3
"""Of one figure, on a machine that others keep busy too."""

_WARM_S = 1.0
"""A GPU is kept busy so long first: in training it is hot, and its power limit holds its clock back."""


def probe(
    device: str, element: str, *, rows: int = 1024, sequence: int = 1024, head_width: int = 64
) -> Compute:
    """Of ``device`` (``cpu``, ``cuda:0``) in dtype ``element``: some seconds."""
    import torch

    where, dtype = torch.device(device), getattr(torch, element)
    on_gpu = where.type == "cuda"
    widths = (256, 512, 1024, 2048, 4096, 8192) if on_gpu else (64, 128, 256, 512, 1024)
    name = torch.cuda.get_device_name(where) if on_gpu else "this host's cores"
    if on_gpu:
        _keep_busy(where, dtype, _WARM_S)
    return Compute(
        name=name,
        matmul=tuple(_matmul(where, dtype, rows, width) for width in widths),
        attention_TFLOPs=_attention(where, dtype, sequence, head_width),
        memory_GBps=_memory(where, 1 << (28 if on_gpu else 25)),
        function_GBps=_function(where, dtype, 1 << (27 if on_gpu else 20)),
        issue_us=_issue(where, dtype),
        behind=on_gpu,
        source=f"measured here: {element}, torch {torch.__version__}",
    )


def probe_of(setup: Setup, device: str) -> Compute:
    """``probe`` for the shapes of ``setup``."""
    model = setup.model
    return probe(
        device,
        setup.train.dtype,
        rows=setup.rows * model.sequence,
        sequence=model.sequence,
        head_width=model.head_width,
    )


def _matmul(where: torch.device, dtype: torch.dtype, rows: int, width: int) -> tuple[float, float]:
    import torch

    x = torch.randn(rows, width, device=where).to(dtype)
    weight = torch.randn(width, width, device=where).to(dtype)
    out = torch.empty(rows, width, device=where, dtype=dtype)
    flops = 2.0 * rows * width * width
    return flops, flops / _seconds(where, lambda: torch.mm(x, weight.T, out=out)) / 1e12


def _keep_busy(where: torch.device, dtype: torch.dtype, seconds: float) -> None:
    """Large products, one after the other."""
    import torch

    x = torch.randn(4096, 4096, device=where).to(dtype)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for _ in range(20):
            x @ x
        torch.cuda.synchronize(where)


def _attention(where: torch.device, dtype: torch.dtype, sequence: int, width: int) -> float:
    """Forward and backward, seven products of the pairs that the mask leaves."""
    import torch

    heads = 16 if where.type == "cuda" else 2
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


def _function(where: torch.device, dtype: torch.dtype, elements: int) -> float:
    """A gelu reads its input and writes its output; backward it reads two and writes one."""
    import torch

    x = torch.randn(elements, device=where).to(dtype).requires_grad_()
    grad = torch.ones_like(x)

    def once() -> None:
        torch.autograd.grad(torch.nn.functional.gelu(x), x, grad)

    return 5 * elements * x.element_size() / _seconds(where, once) / 1e9


def _issue(where: torch.device, dtype: torch.dtype) -> float:
    """µs of one of the kernels that plans/work.py counts, from a model that computes next to nothing: all of
    it is Python, torch, autograd and the launch.
    """
    import torch

    from clusterlab.trainers.model import Transformer, Ways, loss_of

    element = str(dtype).removeprefix("torch.")
    setup = Setup(_TINY, MeshConfig(), TrainConfig(batch=1, dtype=element))
    values = {
        weight.name: torch.zeros(weight.shape, device=where, dtype=dtype)
        for weight in weights_of(_TINY, setup.mesh)
    }
    model = Transformer(_TINY, values, range(_TINY.layers), Ways())
    tokens = torch.zeros(1, _TINY.sequence, dtype=torch.int64, device=where)

    def once() -> None:
        model.zero_grad()
        torch.autograd.backward(loss_of(model(tokens), tokens, 1))

    work = work_of(setup, range(_TINY.layers))
    kernels = sum(op.kernels * op.count for op in (*work.forward, *work.backward))
    return _seconds(where, once) * 1e6 / kernels


_TINY = ModelConfig(layers=2, hidden=16, heads=2, ffn=16, vocab=16, sequence=8)


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
