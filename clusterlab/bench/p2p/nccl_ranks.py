"""Ranks that make NCCL connect every pair of GPUs and write its log; before this process uses CUDA."""

from __future__ import annotations

import os
from pathlib import Path

from clusterlab.bench.p2p.deadline import deadline
from clusterlab.core.errors import WrongDataError
from clusterlab.launch.identity import RankIdentity
from clusterlab.launch.local import run_local_ranks
from clusterlab.launch.local_outcome import LocalOutcome
from clusterlab.launch.local_rank import OpenStore
from clusterlab.launch.rendezvous import init_process_group

_ELEMENTS = 1 << 18


def nccl_log_file(folder: Path, rank: int) -> Path:
    """Where rank ``rank``'s NCCL writes."""
    return folder / f"nccl-rank-{rank}.log"


def connect_all_pairs(world_size: int, folder: Path, deadline_s: float) -> LocalOutcome:
    """One rank per visible GPU: an all_reduce connects rings and trees, an all_to_all every pair.

    The environment's NCCL_* variables hold, but for those of the log.
    """

    def rank_main(identity: RankIdentity, open_store: OpenStore) -> int:
        os.environ |= {
            "NCCL_DEBUG": "INFO",
            "NCCL_DEBUG_SUBSYS": "INIT,ENV,P2P,SHM,NET",
            "NCCL_DEBUG_FILE": str(nccl_log_file(folder, identity.rank)),
        }
        with deadline(deadline_s, f"rank {identity.rank}: NCCL connecting all pairs"):
            import torch
            import torch.distributed as dist

            store = open_store(deadline_s)
            torch.cuda.set_device(identity.local_rank)
            init_process_group(identity, store, "nccl", timeout_s=deadline_s)
            _talk(identity)
            dist.destroy_process_group()
        return 0

    return run_local_ranks(world_size, rank_main, log_dir=folder)


def _talk(identity: RankIdentity) -> None:
    import torch
    import torch.distributed as dist

    n, rank = identity.world_size, identity.rank
    ones = torch.ones(_ELEMENTS, device="cuda")
    dist.all_reduce(ones)
    outgoing = torch.full((n, _ELEMENTS), float(rank), device="cuda")
    incoming = torch.empty_like(outgoing)
    dist.all_to_all_single(incoming, outgoing)
    torch.cuda.synchronize()
    came = incoming.cpu() == torch.arange(n, dtype=torch.float32)[:, None]
    if not bool((ones == n).all()) or not bool(came.all()):
        raise WrongDataError(f"rank {rank}: all_reduce or all_to_all delivered wrong elements")
