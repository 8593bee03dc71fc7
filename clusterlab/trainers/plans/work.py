"""What a rank computes: every matrix product, attention and pass over memory of one micro-batch. Pure.

Products are counted exactly, 2·m·n·k each. Attention is torch's fused one: only pairs that the causal mask
leaves, S(S+1)/2 of S², two products forward and five backward, which computes the scores again (so does
torch.utils.flop_counter count it, but for the mask). Bytes are what an op must read and write once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from clusterlab.core.dtypes import dtype
from clusterlab.trainers.config import Setup

Kind = Literal["matmul", "attention", "memory", "function", "wait"]
"""``function``: a pass over memory that computes exp, erf and the like of each element. ``wait``: the host
waits for a number from the GPU, which then has nothing to do until as many kernels are issued.
"""


@dataclass(frozen=True, slots=True)
class Op:
    """One operation, ``count`` times: ``flops`` and ``size_bytes`` of each, in as many ``kernels``."""

    name: str
    kind: Kind
    flops: float
    size_bytes: float
    kernels: int = 1
    count: int = 1


@dataclass(frozen=True, slots=True)
class Work:
    """Of one micro-batch through some layers."""

    forward: tuple[Op, ...]
    backward: tuple[Op, ...]

    @property
    def flops(self) -> float:
        """Both ways."""
        return flops_of((*self.forward, *self.backward))


def flops_of(ops: Iterable[Op]) -> float:
    """Of all of them."""
    return sum(op.flops * op.count for op in ops)


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a rank has of one micro-batch. ``tokens`` in all; ``local`` between the matrices, ``seen`` at
    those that are cut, each in ``cut`` parts; ``heads`` at attention; ``choices`` of experts, if routed
    evenly, at each of ``experts``; ``item`` bytes of an element.
    """

    tokens: int
    local: int
    seen: int
    cut: int
    heads: int
    experts: int
    choices: float
    item: int


def sizes_of(setup: Setup) -> Sizes:
    """The same for all ranks."""
    model, mesh = setup.model, setup.mesh
    tokens = setup.rows * model.sequence
    local = tokens // mesh.tp if mesh.sequence else tokens
    ulysses = mesh.sequence == "ulysses"
    kept = 1.0 if model.capacity is None else min(1.0, model.capacity)
    experts = model.experts // mesh.ep
    return Sizes(
        tokens=tokens,
        local=local,
        seen=local if ulysses else tokens,
        cut=1 if ulysses else mesh.tp,
        heads=model.heads // mesh.tp,
        experts=experts,
        choices=local * model.top_k * kept / experts if experts else 0.0,
        item=dtype(setup.train.dtype).bytes,
    )


def work_of(setup: Setup, layers: Sequence[int]) -> Work:
    """Of one micro-batch through ``layers``; with the first comes the embedding, with the last the head."""
    size = sizes_of(setup)
    block = _block(setup, size)
    blocks = _times(block, len(layers))
    forward, backward = list(blocks.forward), list(blocks.backward)
    if 0 in layers:
        first = _embedding(setup, size)
        forward += first.forward
        backward += first.backward
    if setup.model.layers - 1 in layers:
        last = _head(setup, size)
        forward += last.forward
        backward += last.backward
    return Work(tuple(forward), tuple(backward))


def weights_only(work: Work) -> tuple[Op, ...]:
    """Of a backward, what makes gradients of weights: half of its products but for attention's."""
    return tuple(
        replace(op, count=op.count // 2) for op in work.backward if op.kind == "matmul"
    )  # fmt: skip


def updating(setup: Setup, elements: int) -> tuple[Op, ...]:
    """Plain SGD of parameters with ``elements`` in all: one call of torch's foreach for all (step.sgd)."""
    size_bytes = elements * dtype(setup.train.dtype).bytes
    return (_memory("update", 3 * size_bytes),)


def accumulating(setup: Setup, elements: int, tensors: int) -> tuple[Op, ...]:
    """Another micro-batch's gradients are added."""
    size_bytes = elements * dtype(setup.train.dtype).bytes
    return (_memory("add gradients", 3 * size_bytes, kernels=tensors),)


def _times(work: Work, count: int) -> Work:
    return Work(
        tuple(replace(op, count=op.count * count) for op in work.forward),
        tuple(replace(op, count=op.count * count) for op in work.backward),
    )


def _block(setup: Setup, size: Sizes) -> Work:
    H, item = setup.model.hidden, size.item
    width = H // size.cut
    x, entered, part = size.local * H * item, size.seen * H * item, size.seen * width * item
    forward = [
        _memory("norm", 2 * x),
        *_matmul("qkv", size.seen, H, width, item, count=3),
        *_matmul("out", size.seen, width, H, item),
        _memory("bias and residual", 5 * x, kernels=2),
    ]
    backward = [
        _memory("norm", 5 * x, kernels=2),
        *_both_gradients("qkv", size.seen, H, width, item, count=3),
        _memory("qkv biases", part, count=3),
        _memory("gradients of x", 3 * entered, count=2),
        # Each of the three gradients of F.linear(x, weight[i]) is put into zeros of all three, then added.
        _memory("gradients of qkv", 11 * H * width * item, kernels=3, count=3),
        *_both_gradients("out", size.seen, width, H, item),
        _memory("bias and residual", 4 * x, kernels=2),
    ]
    turned = _turned(setup, x, entered)
    attention = _attention(setup, size)
    rest = _experts(setup, size) if setup.model.experts else _mlp(setup, size)
    return Work(
        (*forward, *turned, *attention.forward, *rest.forward),
        (*backward, *turned, *attention.backward, *rest.backward),
    )


def _turned(setup: Setup, x: float, entered: float) -> tuple[Op, ...]:
    """Copies that bring positions to the front for a collective and back, as many each way of a block
    (strategies/positions.py, ulysses.py); of one sequence there are none beside tensor parallelism.
    """
    if setup.mesh.sequence == "ulysses":
        return (_memory("positions", 4 * x, kernels=2, count=4),)
    if setup.mesh.sequence is None or setup.rows == 1:
        return ()
    calls = 2 if setup.model.experts else 4
    return (_memory("positions", 2 * x + 2 * entered, kernels=2, count=calls),)


def _attention(setup: Setup, size: Sizes) -> Work:
    S, D = setup.model.sequence, setup.model.head_width
    product = 2 * setup.rows * size.heads * D * causal_pairs(S)
    one = setup.rows * S * size.heads * D * size.item
    return Work(
        (Op("attention", "attention", 2 * product, 4 * one),),
        (Op("attention", "attention", 5 * product, 8 * one, kernels=3),),
    )


def causal_pairs(sequence: int) -> int:
    """Pairs of positions that attention looks at: each with itself and those before it."""
    return sequence * (sequence + 1) // 2


def _mlp(setup: Setup, size: Sizes) -> Work:
    H, item = setup.model.hidden, size.item
    inner = setup.model.ffn // size.cut
    x, h = size.local * H * item, size.seen * inner * item
    return Work(
        (
            _memory("norm", 2 * x),
            *_matmul("up", size.seen, H, inner, item),
            _function("gelu", 2 * h),
            *_matmul("down", size.seen, inner, H, item),
            _memory("bias and residual", 5 * x, kernels=2),
        ),
        (
            _memory("norm", 5 * x, kernels=2),
            *_both_gradients("up", size.seen, H, inner, item),
            _memory("up bias", h),
            _function("gelu", 3 * h),
            *_both_gradients("down", size.seen, inner, H, item),
            _memory("bias and residual", 4 * x, kernels=2),
        ),
    )


def _experts(setup: Setup, size: Sizes) -> Work:
    """Routed evenly, which is the best case: the slowest rank is the one whose experts are asked most."""
    model, item = setup.model, size.item
    H, F, E = model.hidden, model.ffn, model.experts
    x = size.local * H * item
    # The experts of a rank take the choices of all ep ranks: as many as its own tokens make, if even.
    each = size.choices
    rows, inner = each * H * item, each * F * item
    n = size.experts
    return Work(
        (
            _memory("norm", 2 * x),
            *_matmul("router", size.local, H, E, item),
            _memory("routing", 6 * size.local * E * item, kernels=20),
            _memory("gather", 2 * rows, count=n),
            # How many rows each expert gets; then come the exchange, their order, and the first product.
            Op("counts", "wait", 0.0, 0.0, kernels=3),
            *_matmul("up", each, H, F, item, count=n),
            _function("gelu", 2 * inner, count=n),
            *_matmul("down", each, F, H, item, count=n),
            _memory("weigh and add", 5 * rows + 2 * x, kernels=3, count=n),
            _memory("residual", 3 * x),
        ),
        (
            _memory("norm", 5 * x, kernels=2),
            *_both_gradients("router", size.local, H, E, item),
            _memory("routing", 6 * size.local * E * item, kernels=20),
            _memory("gather", 3 * rows + 4 * x, kernels=3, count=n),
            *_both_gradients("up", each, H, F, item, count=n),
            _function("gelu", 3 * inner, count=n),
            *_both_gradients("down", each, F, H, item, count=n),
            # The gradient of up[expert] is put into zeros of all experts' weights, then added.
            _memory("gradients of experts", 2 * 2 * H * F * item * (1 + 2 * n), kernels=6, count=n),
            _memory("weigh and add", 6 * rows, kernels=4, count=n),
            _memory("residual", 3 * x),
        ),
    )


def _embedding(setup: Setup, size: Sizes) -> Work:
    table = setup.model.vocab * setup.model.hidden * size.item
    x = size.tokens * setup.model.hidden * size.item
    return Work(
        (_memory("embedding", 5 * x, kernels=2),),
        (_memory("embedding", 4 * x + table, kernels=4),),
    )


def _head(setup: Setup, size: Sizes) -> Work:
    """All positions on every rank: neither tensor nor sequence parallelism cuts it."""
    H, V, item = setup.model.hidden, setup.model.vocab, size.item
    x, logits = size.local * H * item, size.tokens * V * item
    return Work(
        (
            _memory("norm", 2 * x),
            *_matmul("head", size.tokens, H, V, item),
            _function("loss", 2 * logits, kernels=3),
        ),
        (
            _memory("norm", 5 * x, kernels=2),
            *_both_gradients("head", size.tokens, H, V, item),
            _function("loss", 4 * logits, kernels=4),
        ),
    )


def _memory(name: str, size_bytes: float, *, kernels: int = 1, count: int = 1) -> Op:
    return Op(name, "memory", 0.0, size_bytes, kernels, count)


def _function(name: str, size_bytes: float, *, kernels: int = 1, count: int = 1) -> Op:
    return Op(name, "function", 0.0, size_bytes, kernels, count)


def _matmul(
    name: str, rows: float, inner: int, columns: int, item: int, *, count: int = 1
) -> tuple[Op, ...]:
    size_bytes = (rows * inner + inner * columns + rows * columns) * item
    return (Op(name, "matmul", 2.0 * rows * inner * columns, size_bytes, 1, count),)


def _both_gradients(
    name: str, rows: float, inner: int, columns: int, item: int, *, count: int = 1
) -> tuple[Op, ...]:
    """Of the input and of the weight: as many flops each as forward."""
    return _matmul(name, rows, inner, columns, item, count=2 * count)
