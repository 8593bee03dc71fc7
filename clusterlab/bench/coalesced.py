"""Several torch calls as one group of NCCL's, nccl-tests' ``-m``: ncclGroupStart, the calls, ncclGroupEnd."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from clusterlab.bench.buffers import Buffers
from clusterlab.bench.groups import Seat
from clusterlab.bench.ops import Call
from clusterlab.bench.transfers import exchange, transfer_batches

if TYPE_CHECKING:
    import torch
    from torch.distributed import ProcessGroup

_FAST = ("all_reduce", "all_gather", "reduce_scatter")
"""torch gathers these itself and makes one call of them; for all others it begins and ends NCCL's group."""


def coalesced_transfers(seat: Seat, places: Sequence[Buffers], group: ProcessGroup | None) -> Call:
    """One point's sends and receives on all of ``places``, in one group."""
    calls = [transfer_batches(seat.point, buffers, seat.rank, group) for buffers in places]
    batches = [[op for batch in together for op in batch] for together in zip(*calls, strict=True)]
    return lambda: exchange(batches)


def coalesced(
    calls: Sequence[Call], collective: str, group: ProcessGroup | None, device: torch.device
) -> Call:
    """All of ``calls``, which are a ``collective``'s, in one group."""
    # torch has no public name for it; FSDP and batch_isend_irecv rest on this one
    from torch.distributed.distributed_c10d import _coalescing_manager

    target = None if collective in _FAST else device

    def grouped() -> None:
        with _coalescing_manager(group, target):
            for call in calls:
                call()

    return grouped
