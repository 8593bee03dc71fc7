"""What is learnt from: token ids from (seed, step, sample), or a small real text."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from clusterlab.trainers.config import ModelConfig

if TYPE_CHECKING:
    import torch


def batch_of(
    model: ModelConfig, samples: range, *, step: int, seed: int, text: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and targets (each samples × S, int64) of some of a step's ``samples``, the same on every rank.

    ``text``: consecutive bytes of ``corpus`` from a place that depends on the sample, modulo the vocabulary;
    otherwise each next token is an affine function of the last, which a model can learn.
    """
    import torch

    rows = [_tokens(model, sample, step=step, seed=seed, text=text) for sample in samples]
    tokens = torch.stack(rows) if rows else torch.empty((0, model.sequence + 1), dtype=torch.int64)
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def _tokens(model: ModelConfig, sample: int, *, step: int, seed: int, text: bool) -> torch.Tensor:
    import torch

    generator = torch.Generator().manual_seed((seed * 1_000_003 + step) * 1_000_003 + sample)
    if text:
        content = corpus()
        start = int(torch.randint(len(content) - model.sequence - 1, (1,), generator=generator))
        values = bytearray(content[start : start + model.sequence + 1])
        return torch.frombuffer(values, dtype=torch.uint8).to(torch.int64) % model.vocab
    token = int(torch.randint(model.vocab, (1,), generator=generator))
    stride = 1 + int(torch.randint(3, (1,), generator=generator))
    # Not in Python, token by token: on a fast GPU that would be one step in twenty.
    at = torch.arange(model.sequence + 1, dtype=torch.int64)
    return (token + stride * at * at) % model.vocab


@cache
def corpus() -> bytes:
    """The text that comes with the package."""
    from importlib.resources import files

    return (files("clusterlab.trainers") / "corpus.txt").read_bytes()
