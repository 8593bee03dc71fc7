"""Several torch calls as one group of NCCL's, nccl-tests' ``-m``: ncclGroupStart, the calls, ncclGroupEnd."""

from __future__ import annotations

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


def coalesced_transfers(
    seat: Seat, buffers: Buffers, group: ProcessGroup | None, many: int
) -> Call:
    """``many`` sends and receives of one point in one group."""
    batches = transfer_batches(seat.point, buffers, seat.rank, group, many)
    return lambda: exchange(batches)


def coalesced(
    call: Call, collective: str, group: ProcessGroup | None, device: torch.device, many: int
) -> Call:
    """``many`` of ``call``, which is a ``collective``'s, in one group."""
    # torch has no public name for it; FSDP and batch_isend_irecv rest on this one
    from torch.distributed.distributed_c10d import _coalescing_manager

    target = None if collective in _FAST else device

    def grouped() -> None:
        with _coalescing_manager(group, target):
            for _ in range(many):
                call()

    return grouped
