"""Tensor and sequence parallelism over NCCL, explicitly and by DTensor, against one unsharded process on CPU.

With one GPU its ranks share it: NCCL takes them for as many hosts (NCCL_HOSTID), slow and for the data only.
"""

from __future__ import annotations

import os
import pickle
from dataclasses import replace
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
        )
        (folder / f"said-{identity.rank}.pickle").write_bytes(pickle.dumps(said))
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()
        return 0

    outcome = run_local_ranks(RANKS, rank_main, log_dir=folder)
    logs = [path.read_text() for path in folder.glob("rank-*.log")]
    assert outcome.exit_code == 0, "\n".join([str(outcome.message), *logs])
    return [pickle.loads((folder / f"said-{rank}.pickle").read_bytes()) for rank in range(RANKS)]


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
    from clusterlab.trainers.reference import train_reference
    from clusterlab.trainers.weights import weights_of, whole_of

    setup = setup_of(sequence, "float64", library=library)
    said = train(setup, tmp_path, one_gpu=gpus < RANKS)
    expected = train_reference(setup)
    for losses, *_ in said:
        assert losses == pytest.approx(expected.losses, abs=1e-10)
    for weight in weights_of(setup.model, setup.mesh):
        for at, wanted in ((1, expected.parameters), (2, expected.gradients)):
            parts = [one[at][weight.name] for one in said]
            copies = [whole_of(weight, parts)] if weight.axis else parts
            for got in copies:
                worst = (got - wanted[weight.name]).abs().max().item()
                assert worst < 1e-10, f"{weight.name}: {worst}"


@pytest.mark.parametrize("sequence", [None, "tp", "ulysses"])
def test_the_ledger_is_the_plan_and_times_every_call(tmp_path: Path, gpus: int, sequence) -> None:
    from collections import Counter

    from clusterlab.trainers.plans import sp, tp
    from clusterlab.trainers.plans.plan import counted

    setup = setup_of(sequence, "bfloat16", library=False)
    for rank, (losses, _, _, entries) in enumerate(train(setup, tmp_path, one_gpu=gpus < RANKS)):
        assert losses[-1] < losses[0]
        made = Counter(
            (e.op, e.axis, e.ranks, e.size_bytes, e.dtype, e.phase) for e in entries if e.step == 3
        )
        assert made == counted([*tp.calls(setup, rank), *sp.calls(setup, rank)])
        assert all(0 < e.start_us < e.end_us for e in entries)


def test_bf16_by_dtensor_learns_as_the_explicit_form_does(tmp_path: Path, gpus: int) -> None:
    explicit = setup_of("tp", "bfloat16", library=False)
    library = replace(explicit, train=replace(explicit.train, library=True))
    one, other = (
        train(setup, tmp_path, one_gpu=gpus < RANKS)[0][0] for setup in (explicit, library)
    )
    assert other == pytest.approx(one, rel=0.02)
