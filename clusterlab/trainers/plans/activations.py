"""What autograd keeps of a micro-batch until its backward, in bytes: every storage once. Pure.

Of a dense block: both norms' inputs (the residuals) and their mean and deviation, the norms' outputs (the
matrices' inputs), q, k, v, attention's output and its log-sum-exp, the input and the output of gelu. Adding
keeps nothing; a view keeps what it is a view of. Parameters are counted elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from clusterlab.trainers.config import Setup
from clusterlab.trainers.plans.work import Sizes, sizes_of

_INDEX = 8
"""Bytes of an int64: tokens, targets, choices."""


def saved_bytes(setup: Setup, layers: Sequence[int]) -> int:
    """Of one micro-batch through ``layers``; with the first comes the embedding, with the last the loss."""
    size = sizes_of(setup)
    found = len(layers) * _block(setup, size)
    if 0 in layers:
        found += size.tokens * _INDEX
    if setup.model.layers - 1 in layers:
        found += _head(setup, size)
    return found


def _block(setup: Setup, size: Sizes) -> int:
    model, mesh, item = setup.model, setup.mesh, size.item
    local, seen = size.local * model.hidden, size.seen * model.hidden
    # Attention's own, whether matrices are cut or, in Ulysses, heads are traded for positions.
    part = size.tokens * size.heads * model.head_width
    found = (_norm(setup, size) + seen + 4 * part) * item
    if mesh.sequence == "ulysses" and mesh.tp > 1:
        found += local * item  # its output once more, traded back
    found += size.tokens * size.heads * max(item, 4)  # log-sum-exp: float32 at least
    if model.experts:
        return found + (_norm(setup, size) + local) * item + _experts(setup, size)
    inner = size.seen * model.ffn // size.cut
    return found + (_norm(setup, size) + seen + 2 * inner) * item


def _norm(setup: Setup, size: Sizes) -> int:
    """Elements: its input, and mean and deviation of each token."""
    return size.local * (setup.model.hidden + 2)


def _experts(setup: Setup, size: Sizes) -> int:
    """Of choices that are even: what goes in, before and after gelu, what comes out; where each choice is."""
    model, item = setup.model, size.item
    choices = round(size.choices * size.experts)
    asked = size.local * model.top_k
    routing = size.local * (model.experts + 1) + 2 * asked + choices
    indices = 3 * asked + 2 * choices
    passed = choices * (2 * model.hidden + 2 * model.ffn)
    return (routing + passed) * item + indices * _INDEX


def _head(setup: Setup, size: Sizes) -> int:
    model, item = setup.model, size.item
    joined = size.tokens * model.hidden
    logits = size.tokens * model.vocab
    weight = 1  # cross entropy's sum of weights
    return (_norm(setup, size) + joined + logits + weight) * item + size.tokens * _INDEX
