"""Two ranks on GPUs that train a setup: what the tests of trainers over NCCL have in common.

With one GPU its ranks share it: NCCL takes them for as many hosts (NCCL_HOSTID), slow and for the data only.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clusterlab.launch.identity import RankIdentity
from clusterlab.launch.local import run_local_ranks
from clusterlab.launch.local_rank import OpenStore
from clusterlab.trainers.config import Setup
from clusterlab.trainers.ledger import Entry, Ledger, Span

if TYPE_CHECKING:
    import torch

RANKS = 2


@dataclass(frozen=True)
class Said:
    """One rank's: all losses, what it holds after the last step, its ledger."""

    losses: list[float]
    parameters: dict[str, torch.Tensor]
    gradients: dict[str, torch.Tensor]
    entries: list[Entry]
    spans: list[Span]


def on_ranks(work: Callable[[RankIdentity, Any], Any], folder: Path, *, one_gpu: bool) -> list[Any]:
    """What ``work(identity, device)`` returned on each of RANKS ranks that have joined over NCCL."""

    def rank_main(identity: RankIdentity, open_store: OpenStore) -> int:
        import torch

        from clusterlab.launch.rendezvous import init_process_group

        if one_gpu:
            os.environ |= {"NCCL_HOSTID": f"host{identity.rank}", "NCCL_NET": "Socket"}
        device = torch.device("cuda", 0 if one_gpu else identity.local_rank)
        torch.cuda.set_device(device)
        init_process_group(identity, open_store(60), "nccl", timeout_s=120)
        said = work(identity, device)
        (folder / f"said-{identity.rank}.pickle").write_bytes(pickle.dumps(said))
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()
        return 0

    outcome = run_local_ranks(RANKS, rank_main, log_dir=folder)
    logs = [path.read_text() for path in folder.glob("rank-*.log")]
    assert outcome.exit_code == 0, "\n".join([str(outcome.message), *logs])
    return [pickle.loads((folder / f"said-{rank}.pickle").read_bytes()) for rank in range(RANKS)]


def reference(setup: Setup, folder: Path) -> Any:
    """What one unsharded process on CPU learns: a process of its own, as autograd asks CUDA for its devices,
    and a process that has done so cannot fork ranks that use them.
    """

    def work(_identity: RankIdentity, _open_store: OpenStore) -> int:
        from clusterlab.trainers.reference import train_reference

        (folder / "reference.pickle").write_bytes(pickle.dumps(train_reference(setup)))
        return 0

    outcome = run_local_ranks(1, work, log_dir=folder)
    assert outcome.exit_code == 0, outcome.message
    return pickle.loads((folder / "reference.pickle").read_bytes())


def train(setup: Setup, folder: Path, *, one_gpu: bool) -> list[Said]:
    """All steps of ``setup``, rank by rank."""

    def work(identity: RankIdentity, device: Any) -> Said:
        from clusterlab.trainers.axis import open_axes
        from clusterlab.trainers.build import build

        ledger = Ledger(on_gpu=True)
        axes = open_axes(setup.mesh, identity.rank, ledger)
        trainer = build(setup, identity.rank, axes, ledger, device)
        losses = [trainer.step(number) for number in range(setup.train.steps)]
        held = trainer.held()
        return Said(
            losses,
            {name: value.cpu() for name, value in held.parameters.items()},
            {name: value.cpu() for name, value in held.gradients.items()},
            ledger.entries,
            ledger.spans,
        )

    return on_ranks(work, folder, one_gpu=one_gpu)
