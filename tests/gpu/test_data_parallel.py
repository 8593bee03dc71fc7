"""Data parallelism over NCCL, explicitly and by torch's own, against one unsharded process on CPU.

With one GPU its ranks share it, as in training.py: for the data only, not for times.
"""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.gpu.training import RANKS, reference, train

pytestmark = pytest.mark.gpu

KINDS = [(kind, False) for kind in ("ddp", "zero1", "zero2", "fsdp")]
KINDS += [("ddp", True), ("fsdp", True)]

BIG = {"layers": 8, "hidden": 2048, "heads": 16, "ffn": 8192, "vocab": 4096, "sequence": 1024}


def setup_of(kind: str, dtype: str, *, library: bool, model: dict[str, int] | None = None) -> Any:
    from clusterlab.trainers.config import MeshConfig, ModelConfig, Setup, TrainConfig, check

    small = {"layers": 2, "hidden": 128, "heads": 4, "ffn": 255, "vocab": 63, "sequence": 64}
    how = TrainConfig(
        batch=8, micro_batches=2, dtype=dtype, library=library, data_parallel=kind,
        bucket_bytes=25 << 20 if model else 200_000,
    )  # fmt: skip
    return check(Setup(ModelConfig(**(model or small)), MeshConfig(dp=RANKS), how))


@pytest.mark.parametrize(("kind", "library"), KINDS)
def test_equals_the_reference_and_makes_its_plan(
    tmp_path: Path,
    gpus: int,
    kind: str,
    library: bool,
) -> None:
    from clusterlab.trainers.plans import dp
    from clusterlab.trainers.plans.plan import counted

    setup = setup_of(kind, "float64", library=library)
    expected = reference(setup, tmp_path)
    for rank, said in enumerate(train(setup, tmp_path, one_gpu=gpus < RANKS)):
        assert said.losses == pytest.approx(expected.losses, abs=1e-10)
        for found, wanted in (
            (said.parameters, expected.parameters),
            (said.gradients, expected.gradients),
        ):
            assert found.keys() == wanted.keys()
            for name, value in wanted.items():
                worst = (found[name] - value).abs().max().item()
                assert worst < 1e-10, f"{name} of rank {rank}: {worst}"
        made = Counter(
            (e.op, e.axis, e.ranks, e.size_bytes, e.dtype, e.phase)
            for e in said.entries
            if e.step == 3
        )
        assert made == counted(dp.calls(setup, rank))


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_the_explicit_form_is_as_fast_as_torchs(
    tmp_path: Path,
    gpus: int,
    kind: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if gpus < RANKS:
        pytest.skip("needs 2 GPUs")
    took = {}
    for library in (False, True):
        setup = setup_of(kind, "bfloat16", library=library, model=BIG)
        setup = replace(setup, train=replace(setup.train, steps=25))
        entries = train(setup, tmp_path, one_gpu=False)[0].entries
        # The loss's all_reduce ends a step; entries are in µs from the step's begin.
        ends = [e.end_us for e in entries if e.phase == "loss" and e.step >= 5]
        took[library] = statistics.median(ends)
    with capsys.disabled():
        print(f"\n{kind}: explicit {took[False]:.0f} µs, torch's {took[True]:.0f} µs a step")
    assert took[False] < took[True] * (1.03 if kind == "ddp" else 1.10)
