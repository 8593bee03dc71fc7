"""Every operation as torch.distributed calls on given buffers.

torch's all_reduce, broadcast and reduce know only one buffer. Their out-of-place points run on the
receive buffer, which ``stage`` fills from the send buffer outside the timing: so the time is the
collective's, as in nccl-tests, and not that of a local copy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clusterlab.bench.buffers import Buffers
from clusterlab.bench.transfers import exchange, transfer_batches
from clusterlab.core.rows import Point
from clusterlab.core.uneven import parts_of

if TYPE_CHECKING:
    import torch
    from torch.distributed import ProcessGroup

Call = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Operation:
    """``call`` runs the collective once and, on CPU, returns when it is done.

    ``stage`` must run before a call whose result is to be checked.
    """

    call: Call
    stage: Call


def bind(point: Point, buffers: Buffers, rank: int, group: ProcessGroup | None = None) -> Operation:
    """The operation of ``point`` on ``buffers``, as ``rank`` of its ranks, which are ``group``'s.

    ``group`` None: the default group, where all ranks take part or two send and receive.
    """
    call = _BINDERS[point.collective](point, buffers, rank, group)
    one_buffer = point.collective in ("all_reduce", "broadcast", "reduce")
    sends = point.collective != "broadcast" or rank == point.root
    if one_buffer and sends and not point.in_place:
        return Operation(call, lambda: buffers.recv.copy_(buffers.send))
    return Operation(call, lambda: None)


def _torch_op(point: Point) -> Any:
    import torch.distributed as dist

    return {
        "sum": dist.ReduceOp.SUM,
        "prod": dist.ReduceOp.PRODUCT,
        "min": dist.ReduceOp.MIN,
        "max": dist.ReduceOp.MAX,
        "avg": dist.ReduceOp.AVG,
    }[point.op or "sum"]


def _all_reduce(point: Point, buffers: Buffers, _rank: int, group: ProcessGroup | None) -> Call:
    import torch.distributed as dist

    op = _torch_op(point)
    return lambda: dist.all_reduce(buffers.recv, op, group)


def _reduce_scatter(point: Point, buffers: Buffers, _rank: int, group: ProcessGroup | None) -> Call:
    import torch.distributed as dist

    op = _torch_op(point)
    # torch 2.13 renamed reduce_scatter_tensor and all_gather_into_tensor and warns about the old names
    function = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
    return lambda: function(buffers.recv, buffers.send, op, group)


def _all_gather(_point: Point, buffers: Buffers, _rank: int, group: ProcessGroup | None) -> Call:
    import torch.distributed as dist

    function = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    return lambda: function(buffers.recv, buffers.send, group)


def _all_to_all(_point: Point, buffers: Buffers, _rank: int, group: ProcessGroup | None) -> Call:
    import torch.distributed as dist

    return lambda: dist.all_to_all_single(buffers.recv, buffers.send, group=group)


def _all_to_all_v(point: Point, buffers: Buffers, rank: int, group: ProcessGroup | None) -> Call:
    """Parts one behind the other in both buffers, which have room for the busiest rank's."""
    import torch.distributed as dist

    matrix = parts_of(point.uneven, point.world_size, point.count * point.world_size)
    out, into = list(matrix[rank]), [row[rank] for row in matrix]
    send, recv = buffers.send[: sum(out)], buffers.recv[: sum(into)]
    return lambda: dist.all_to_all_single(recv, send, into, out, group)


def _parts(buffer: torch.Tensor, point: Point) -> list[torch.Tensor]:
    """One part for every rank."""
    return [buffer[i * point.count : (i + 1) * point.count] for i in range(point.world_size)]


def _gather(point: Point, buffers: Buffers, rank: int, group: ProcessGroup | None) -> Call:
    import torch.distributed as dist

    root = point.root or 0
    parts = _parts(buffers.recv, point) if rank == root else None
    return lambda: dist.gather(buffers.send, parts, group=group, group_dst=root)


def _scatter(point: Point, buffers: Buffers, rank: int, group: ProcessGroup | None) -> Call:
    import torch.distributed as dist

    root = point.root or 0
    parts = _parts(buffers.send, point) if rank == root else None
    return lambda: dist.scatter(buffers.recv, parts, group=group, group_src=root)


def _broadcast(point: Point, buffers: Buffers, _rank: int, group: ProcessGroup | None) -> Call:
    import torch.distributed as dist

    root = point.root or 0
    return lambda: dist.broadcast(buffers.recv, group=group, group_src=root)


def _reduce(point: Point, buffers: Buffers, _rank: int, group: ProcessGroup | None) -> Call:
    import torch.distributed as dist

    op, root = _torch_op(point), point.root or 0
    return lambda: dist.reduce(buffers.recv, op=op, group=group, group_dst=root)


def _transfer(point: Point, buffers: Buffers, rank: int, group: ProcessGroup | None) -> Call:
    batches = transfer_batches(point, buffers, rank, group)
    return lambda: exchange(batches)


_BINDERS: dict[str, Callable[[Point, Buffers, int, Any], Call]] = {
    "all_reduce": _all_reduce,
    "reduce_scatter": _reduce_scatter,
    "all_gather": _all_gather,
    "all_to_all": _all_to_all,
    "all_to_all_v": _all_to_all_v,
    "gather": _gather,
    "scatter": _scatter,
    "broadcast": _broadcast,
    "reduce": _reduce,
    "send_recv": _transfer,
    "send": _transfer,
    "ping_pong": _transfer,
}
