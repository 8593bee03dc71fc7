"""The true end of an overlapped call over NCCL: an event beside the computation, not where the rank waits."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import pytest

from clusterlab.launch.identity import RankIdentity
from clusterlab.trainers.breakdown import exposed_us
from clusterlab.trainers.ledger import Entry, Ledger
from tests.gpu.training import RANKS, on_ranks

pytestmark = pytest.mark.gpu

STEPS = 12
COUNT = 16 << 20
"""Elements in bfloat16: 32 MiB."""


def entries(folder: Path, op: str, *, beside: bool) -> list[list[Entry]]:
    """Each rank's, a call a step; ``beside`` some 20 ms of matrix products, then waited for."""

    def work(identity: RankIdentity, device: Any) -> list[Entry]:
        import torch

        from clusterlab.trainers.axis import open_axes
        from clusterlab.trainers.config import MeshConfig

        ledger = Ledger(on_gpu=True)
        axis = open_axes(MeshConfig(dp=RANKS), identity.rank, ledger)["dp"]
        whole = torch.ones(COUNT, device=device, dtype=torch.bfloat16)
        part = whole.new_empty(COUNT // RANKS)
        x = torch.randn(4096, 4096, device=device).bfloat16()
        start = {
            "all_reduce": lambda: axis.start_all_reduce(whole),
            "all_gather": lambda: axis.start_all_gather(whole, part),
            "reduce_scatter": lambda: axis.start_reduce_scatter(part, whole),
        }[op]
        for step in range(STEPS):
            # Together, or the faster GPU's call takes as long as the other's products are behind.
            torch.distributed.barrier()
            torch.cuda.synchronize()
            with ledger.step(step), ledger.during("backward"):
                pending = start()
                for _ in range(100 if beside else 0):
                    x @ x
                pending.wait()
            torch.cuda.synchronize()
        return ledger.entries

    return on_ranks(work, folder, one_gpu=False)


@pytest.mark.parametrize("op", ["all_reduce", "all_gather", "reduce_scatter"])
def test_a_late_wait_does_not_make_a_call_longer(
    tmp_path: Path,
    gpus: int,
    op: str,
) -> None:
    if gpus < RANKS:
        pytest.skip(f"{RANKS} GPUs are wanted, {gpus} are here")
    alone, hidden = (entries(tmp_path, op, beside=beside) for beside in (False, True))

    def median_us(found: list[Entry]) -> float:
        return statistics.median(e.end_us - e.start_us for e in found[2:])

    for one, other in zip(alone, hidden, strict=True):
        # Products take NCCL's multiprocessors and memory, too; waiting for them would be 20 ms.
        assert median_us(other) < 3 * median_us(one) + 1e3
        for entry in other[2:]:
            assert not entry.at_most
            assert entry.waited_us is not None and entry.waited_us > entry.end_us
            assert exposed_us(entry, []) == 0.0
