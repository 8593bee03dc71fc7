"""Sends and receives between ranks as torch.distributed calls: a ring shift, one way, there and back.

They are batched. Under NCCL, unbatched isend and irecv would make a communicator of every pair.

torch makes batched ones on a stream of its own. In a CUDA graph the way there and back costs each call: two
H200 took 11.3 µs for 8 B where the same ncclSend and ncclRecv on the graph's own stream took 6.0
(docs/measured/two-h200-modes.md). So graphs shift by ``ring_shift``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from clusterlab.bench.buffers import Buffers
from clusterlab.bench.groups import ranks_of
from clusterlab.core.rows import Point

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

Batches = list[list[Any]]
"""Batches of P2POp; one begins when the one before it is done."""


def transfer_batches(
    point: Point, buffers: Buffers, rank: int, group: ProcessGroup | None
) -> Batches:
    """What ``rank`` of the point's ranks sends and receives in one call.

    ``send_recv`` is nccl-tests' sendrecv: to the next rank while receiving from the one before; between
    two ranks that is both ways at once.
    """
    import torch.distributed as dist

    ranks, n = ranks_of(point), point.world_size
    # peers are ranks of the run, in any group
    out = dist.P2POp(dist.isend, buffers.send, ranks[(rank + 1) % n], group)
    back = dist.P2POp(dist.irecv, buffers.recv, ranks[(rank - 1) % n], group)
    match point.collective:
        case "send":
            return [[out]] if rank == 0 else [[back]]
        case "ping_pong":
            return [[out], [back]] if rank == 0 else [[back], [out]]
        case _:
            return [[out, back]]


def ring_shift(
    point: Point, buffers: Buffers, rank: int, group: ProcessGroup | None
) -> Callable[[], Any]:
    """``send_recv`` as an all_to_all_v whose parts are empty but for one each way: NCCL is asked for the same
    send and receive, on the current stream. All ranks of ``group`` must be the point's.
    """
    import torch.distributed as dist

    n, count = point.world_size, buffers.send.numel()
    out, into = [0] * n, [0] * n
    out[(rank + 1) % n] = into[(rank - 1) % n] = count
    return lambda: dist.all_to_all_single(buffers.recv, buffers.send, into, out, group)


def exchange(batches: Batches) -> None:
    """Run ``batches`` one after the other."""
    import torch.distributed as dist

    for batch in batches:
        for work in dist.batch_isend_irecv(batch):
            work.wait()
