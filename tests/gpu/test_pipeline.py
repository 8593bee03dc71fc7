"""Pipelines over NCCL, explicitly and by torch's own schedules, against one unsharded process on CPU.

With one GPU its ranks share it: NCCL takes them for as many hosts (NCCL_HOSTID), slow and for the data only.
"""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from clusterlab.launch.local import run_local_ranks

pytestmark = pytest.mark.gpu

RANKS = 2


@pytest.fixture(scope="module", autouse=True)
def gpus() -> int:
    """Number of GPUs, asked of the driver: this process must not touch CUDA before it forks."""
    count = len(list(Path("/dev").glob("nvidia[0-9]*")))
    if count == 0:
        pytest.skip("no NVIDIA GPU on this machine")
    return count


def train(setup, folder: Path, *, one_gpu: bool):
    """Losses, what each rank holds and its ledger, after all steps."""

    def rank_main(identity, open_store):
        import torch

        from clusterlab.launch.rendezvous import init_process_group
        from clusterlab.trainers.axis import open_axes
        from clusterlab.trainers.build import build
        from clusterlab.trainers.ledger import Ledger

        if one_gpu:
            os.environ |= {"NCCL_HOSTID": f"host{identity.rank}", "NCCL_NET": "Socket"}
        device = torch.device("cuda", 0 if one_gpu else identity.local_rank)
        torch.cuda.set_device(device)
        init_process_group(identity, open_store(60), "nccl", timeout_s=120)
        ledger = Ledger(on_gpu=True)
        trainer = build(
            setup, identity.rank, open_axes(setup.mesh, identity.rank, ledger), ledger, device
        )
        losses = [trainer.step(number) for number in range(setup.train.steps)]
        held = trainer.held()
        said = (
            losses,
            {name: value.cpu() for name, value in held.parameters.items()},
            {name: value.cpu() for name, value in held.gradients.items()},
            ledger.entries,
            ledger.spans,
        )
        (folder / f"said-{identity.rank}.pickle").write_bytes(pickle.dumps(said))
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()
        return 0

    outcome = run_local_ranks(RANKS, rank_main, log_dir=folder)
    logs = [path.read_text() for path in folder.glob("rank-*.log")]
    assert outcome.exit_code == 0, "\n".join([str(outcome.message), *logs])
    return [pickle.loads((folder / f"said-{rank}.pickle").read_bytes()) for rank in range(RANKS)]


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
    from clusterlab.trainers.reference import train_reference

    setup = setup_of(schedule, chunks, "float64", library=library)
    said = train(setup, tmp_path, one_gpu=gpus < RANKS)
    expected = train_reference(setup)
    assert {name for one in said for name in one[1]} == set(expected.parameters)
    for losses, parameters, gradients, *_ in said:
        assert losses == pytest.approx(expected.losses, abs=1e-10)
        for held, wanted in (
            (parameters, expected.parameters),
            (gradients, expected.gradients),
        ):
            for name, got in held.items():
                worst = (got - wanted[name]).abs().max().item()
                assert worst < 1e-10, f"{name}: {worst}"


@pytest.mark.parametrize(("schedule", "chunks"), SCHEDULES)
def test_the_ledger_is_the_plan_and_times_every_call(
    tmp_path: Path, gpus: int, schedule, chunks
) -> None:
    from collections import Counter

    from clusterlab.trainers.plans import pp
    from clusterlab.trainers.plans.plan import counted

    setup = setup_of(schedule, chunks, "bfloat16", library=False)
    said = train(setup, tmp_path, one_gpu=gpus < RANKS)
    for rank, (losses, _, _, entries, spans) in enumerate(said):
        assert losses[-1] < losses[0]
        made = Counter(
            (e.op, e.axis, e.ranks, e.size_bytes, e.dtype, e.phase) for e in entries if e.step == 3
        )
        assert made == counted(pp.calls(setup, rank))
        assert all(0 <= e.start_us < e.end_us for e in entries)
        # What each message waited for, and then took, lies inside the step.
        step = next(s for s in spans if s.step == 3 and s.name == "step")
        parts = [s for s in spans if s.step == 3 and s.name in ("wait", "transfer")]
        assert len(parts) == sum(e.op == "recv" for e in entries if e.step == 3)
        assert all(0 <= s.start_us <= s.end_us <= step.end_us for s in parts)
