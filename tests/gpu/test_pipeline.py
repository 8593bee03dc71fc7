"""Pipelines over NCCL, explicitly and by torch's own schedules, against one unsharded process on CPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gpu.training import RANKS, reference, train

pytestmark = pytest.mark.gpu

SCHEDULES = [("gpipe", 1), ("1f1b", 1), ("interleaved", 2), ("zero_bubble", 1)]


def setup_of(schedule: str, chunks: int, dtype: str, *, library: bool):
    from clusterlab.trainers.config import MeshConfig, ModelConfig, Setup, TrainConfig, check

    model = ModelConfig(layers=4, hidden=128, heads=4, ffn=256, vocab=64, sequence=64)
    train = TrainConfig(
        batch=8, micro_batches=4, dtype=dtype, schedule=schedule, chunks=chunks, library=library
    )
    return check(Setup(model, MeshConfig(pp=RANKS), train))


@pytest.mark.parametrize("library", [False, True])
@pytest.mark.parametrize(("schedule", "chunks"), SCHEDULES)
def test_equals_the_reference(tmp_path: Path, gpus: int, schedule, chunks, library: bool) -> None:
    setup = setup_of(schedule, chunks, "float64", library=library)
    said = train(setup, tmp_path, one_gpu=gpus < RANKS)
    expected = reference(setup, tmp_path)
    assert {name for one in said for name in one.parameters} == set(expected.parameters)
    for one in said:
        assert one.losses == pytest.approx(expected.losses, abs=1e-10)
        for held, wanted in (
            (one.parameters, expected.parameters),
            (one.gradients, expected.gradients),
        ):
            for name, got in held.items():
                worst = (got - wanted[name]).abs().max().item()
                assert worst < 1e-10, f"{name}: {worst}"


@pytest.mark.parametrize("library", [False, True])
@pytest.mark.parametrize(("schedule", "chunks"), SCHEDULES)
def test_the_ledger_is_the_plan_and_times_every_call(
    tmp_path: Path, gpus: int, schedule, chunks, library: bool
) -> None:
    from collections import Counter

    from clusterlab.trainers.plans import pp
    from clusterlab.trainers.plans.plan import counted

    setup = setup_of(schedule, chunks, "bfloat16", library=library)
    said = train(setup, tmp_path, one_gpu=gpus < RANKS)
    for rank, one in enumerate(said):
        entries, spans = one.entries, one.spans
        assert one.losses[-1] < one.losses[0]
        made = Counter(
            (e.op, e.axis, e.ranks, e.size_bytes, e.dtype, e.phase) for e in entries if e.step == 3
        )
        assert made == counted(pp.calls(setup, rank))
        assert all(0 <= e.start_us < e.end_us for e in entries)
        if library:
            continue
        # What each message waited for, and then took, lies inside the step.
        step = next(s for s in spans if s.step == 3 and s.name == "step")
        parts = [s for s in spans if s.step == 3 and s.name in ("wait", "transfer")]
        assert len(parts) == sum(e.op == "recv" for e in entries if e.step == 3)
        assert all(0 <= s.start_us <= s.end_us <= step.end_us for s in parts)
