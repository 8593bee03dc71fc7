"""Tensor and sequence parallelism over NCCL, explicit and by DTensor, against one process on CPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.gpu.training import RANKS, reference, train

pytestmark = pytest.mark.gpu


def setup_of(sequence: str | None, dtype: str, *, library: bool):
    from clusterlab.trainers.config import MeshConfig, ModelConfig, Setup, TrainConfig, check

    model = ModelConfig(layers=2, hidden=128, heads=4, ffn=256, vocab=64, sequence=64)
    train = TrainConfig(batch=4, micro_batches=2, dtype=dtype, library=library)
    return check(Setup(model, MeshConfig(tp=RANKS, sequence=sequence), train))


KINDS = [
    (None, False),
    ("tp", False),
    ("ulysses", False),
    (None, True),
    ("tp", True),
]


@pytest.mark.parametrize(("sequence", "library"), KINDS)
def test_equals_the_reference(tmp_path: Path, gpus: int, sequence, library: bool) -> None:
    from clusterlab.trainers.weights import weights_of, whole_of

    setup = setup_of(sequence, "float64", library=library)
    said = train(setup, tmp_path, one_gpu=gpus < RANKS)
    expected = reference(setup, tmp_path)
    for one in said:
        assert one.losses == pytest.approx(expected.losses, abs=1e-10)
    for weight in weights_of(setup.model, setup.mesh):
        for what, wanted in (
            ("parameters", expected.parameters),
            ("gradients", expected.gradients),
        ):
            parts = [getattr(one, what)[weight.name] for one in said]
            copies = [whole_of(weight, parts)] if weight.axis else parts
            for got in copies:
                worst = (got - wanted[weight.name]).abs().max().item()
                assert worst < 1e-10, f"{weight.name}: {worst}"


@pytest.mark.parametrize(("sequence", "library"), KINDS)
def test_the_ledger_is_the_plan_and_times_every_call(
    tmp_path: Path, gpus: int, sequence, library: bool
) -> None:
    from collections import Counter

    from clusterlab.trainers.plans import sp, tp
    from clusterlab.trainers.plans.plan import counted

    setup = setup_of(sequence, "bfloat16", library=library)
    for rank, said in enumerate(train(setup, tmp_path, one_gpu=gpus < RANKS)):
        assert said.losses[-1] < said.losses[0]
        entries = said.entries
        made = Counter(
            (e.op, e.axis, e.ranks, e.size_bytes, e.dtype, e.phase) for e in entries if e.step == 3
        )
        assert made == counted([*tp.calls(setup, rank), *sp.calls(setup, rank)])
        assert all(0 < e.start_us < e.end_us for e in entries)


def test_bf16_by_dtensor_learns_as_the_explicit_form_does(tmp_path: Path, gpus: int) -> None:
    explicit = setup_of("tp", "bfloat16", library=False)
    library = replace(explicit, train=replace(explicit.train, library=True))
    one, other = (
        train(setup, tmp_path, one_gpu=gpus < RANKS)[0].losses for setup in (explicit, library)
    )
    assert other == pytest.approx(one, rel=0.02)
