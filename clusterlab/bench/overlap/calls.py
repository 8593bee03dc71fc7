"""Collectives that are started and waited for apart, each over a process group of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from clusterlab.bench.buffers import Buffers
from clusterlab.core.rows import Point

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


class Waitable(Protocol):
    """torch's Work: under gloo ``wait`` blocks the caller, under NCCL it makes the current stream wait."""

    def wait(self) -> Any:
        """Wait."""


Start = Callable[[], Sequence[Waitable]]
"""Starts one call; what is returned is to be waited for."""


def starter(point: Point, buffers: Buffers, rank: int, group: ProcessGroup) -> Start:
    """What starts ``point``'s collective on ``buffers`` over ``group``, whose ranks are all ranks."""
    import torch.distributed as dist

    send, recv, root = buffers.send, buffers.recv, point.root or 0
    if point.collective == "send_recv":
        ring = [
            dist.P2POp(dist.isend, send, (rank + 1) % point.world_size, group),
            dist.P2POp(dist.irecv, recv, (rank - 1) % point.world_size, group),
        ]
        return lambda: dist.batch_isend_irecv(ring)
    # torch 2.13 renamed two of them and warns about the old names
    scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
    gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    op = _torch_op(point.op)
    kwargs: dict[str, Any] = {"group": group, "async_op": True}
    calls: dict[str, Callable[[], Any]] = {
        "all_reduce": lambda: dist.all_reduce(recv, op, **kwargs),
        "reduce_scatter": lambda: scatter(recv, send, op, **kwargs),
        "all_gather": lambda: gather(recv, send, **kwargs),
        "all_to_all": lambda: dist.all_to_all_single(recv, send, **kwargs),
        "broadcast": lambda: dist.broadcast(recv, root, **kwargs),
        "reduce": lambda: dist.reduce(recv, root, op, **kwargs),
    }
    call = calls[point.collective]
    return lambda: [call()]


def finish(works: Sequence[Waitable]) -> None:
    """Wait for all of ``works``."""
    for work in works:
        work.wait()


def _torch_op(op: str | None) -> Any:
    import torch.distributed as dist

    names = {"sum": "SUM", "prod": "PRODUCT", "min": "MIN", "max": "MAX", "avg": "AVG"}
    return getattr(dist.ReduceOp, names[op or "sum"])
