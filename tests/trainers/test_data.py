"""What is learnt from: the same tokens whoever asks for them, and a text that comes along."""

from __future__ import annotations

import math

import pytest
import torch

from clusterlab.trainers.config import MeshConfig, ModelConfig, Setup, TrainConfig
from clusterlab.trainers.data import batch_of, corpus
from clusterlab.trainers.reference import train_reference

MODEL = ModelConfig(layers=1, hidden=32, heads=2, ffn=64, vocab=128, sequence=16)


@pytest.mark.parametrize("text", [False, True])
def test_a_sample_is_the_same_in_whichever_batch_it_comes(text: bool) -> None:
    whole, targets = batch_of(MODEL, range(8), step=3, seed=1, text=text)
    part, _ = batch_of(MODEL, range(4, 6), step=3, seed=1, text=text)
    assert torch.equal(whole[4:6], part)
    assert torch.equal(whole[:, 1:], targets[:, :-1])
    other, _ = batch_of(MODEL, range(8), step=4, seed=1, text=text)
    assert not torch.equal(whole, other)


def test_the_text_is_plain_prose_that_the_vocabulary_holds() -> None:
    text = corpus().decode("ascii")
    assert len(text) > 4000
    inputs, _ = batch_of(MODEL, range(2), step=0, seed=1, text=True)
    for row in inputs.tolist():
        assert bytes(row).decode("ascii") in text


def test_the_text_is_learnt() -> None:
    train = TrainConfig(batch=16, steps=60, lr=0.5, text=True)
    losses = train_reference(Setup(MODEL, MeshConfig(), train)).losses
    assert losses[0] == pytest.approx(math.log(MODEL.vocab), abs=0.7)
    assert losses[-1] < losses[0] - 1.5
