"""Every operation as a call of NCCL's C functions, by the names of nccl4py's ``nccl.bindings.nccl``.

Calls are bound once to plain integers (addresses, counts, enums), so that one costs as little as in C.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from clusterlab.bench.buffers import Buffers
from clusterlab.bench.groups import Seat
from clusterlab.bench.ops import Call
from clusterlab.core.dtypes import DTYPES
from clusterlab.core.errors import UsageError
from clusterlab.core.uneven import parts_of

NCCL_DTYPES = {
    "int8": 0,
    "uint8": 1,
    "int32": 2,
    "int64": 4,
    "float16": 6,
    "float32": 7,
    "float64": 8,
    "bfloat16": 9,
    "float8_e4m3fn": 10,
    "float8_e5m2": 11,
}
"""ncclDataType_t in nccl.h."""

NCCL_OPS = {"sum": 0, "prod": 1, "max": 2, "min": 3, "avg": 4}
"""ncclRedOp_t in nccl.h."""

_HAS_ALL_TO_ALL = 22800
"""ncclAlltoAll, ncclGather and ncclScatter are there since NCCL 2.28; before, nccl-tests groups sends and
receives, and so do we.
"""


@dataclass(frozen=True, slots=True)
class Arguments:
    """``ranks`` are the point's, as the communicator counts them."""

    nccl: Any
    comm: Any
    stream: int
    seat: Seat
    buffers: Buffers
    ranks: Sequence[int]

    @property
    def send(self) -> int:
        """Address of the send buffer."""
        return int(self.buffers.send.data_ptr())

    @property
    def recv(self) -> int:
        """Address of the receive buffer."""
        return int(self.buffers.recv.data_ptr())

    @property
    def dtype(self) -> int:
        """ncclDataType_t."""
        return NCCL_DTYPES[self.seat.point.dtype]

    @property
    def op(self) -> int:
        """ncclRedOp_t."""
        return NCCL_OPS[self.seat.point.op or "sum"]

    @property
    def root(self) -> int:
        """The root's rank in the communicator."""
        return self.ranks[self.seat.point.root or 0]

    @property
    def part_bytes(self) -> int:
        """Bytes of one rank's part."""
        return self.seat.point.count * DTYPES[self.seat.point.dtype].bytes

    def neighbour(self, steps: int) -> int:
        """The rank so many places after this one, among the point's."""
        return self.ranks[(self.seat.rank + steps) % len(self.ranks)]


def bound_call(a: Arguments) -> Call:
    """The call of the seat's point. Raises UsageError for a collective that has none here."""
    make = _MAKERS.get(a.seat.point.collective)
    if make is None:
        raise UsageError(
            f"no direct call of {a.seat.point.collective}",
            where="timing",
            expected="eager or graph, or " + ", ".join(_MAKERS),
        )
    return make(a)


def grouped(nccl: Any, calls: Sequence[Call]) -> Call:
    """``calls`` in one group."""
    start, end = nccl.group_start, nccl.group_end

    def group() -> None:
        start()
        for call in calls:
            call()
        end()

    return group


def sending(a: Arguments, address: int, count: int, peer: int) -> Call:
    """ncclSend of ``count`` elements."""
    return partial(a.nccl.send, address, count, a.dtype, peer, a.comm, a.stream)


def receiving(a: Arguments, address: int, count: int, peer: int) -> Call:
    """ncclRecv of ``count`` elements."""
    return partial(a.nccl.recv, address, count, a.dtype, peer, a.comm, a.stream)


def _reducing(a: Arguments, function: Callable[..., object]) -> Call:
    """all_reduce's and reduce_scatter's arguments."""
    count = a.seat.point.count
    return partial(function, a.send, a.recv, count, a.dtype, a.op, a.comm, a.stream)


def _moving(a: Arguments, function: Callable[..., object]) -> Call:
    """all_gather's and all_to_all's arguments."""
    return partial(function, a.send, a.recv, a.seat.point.count, a.dtype, a.comm, a.stream)


def _reduce(a: Arguments) -> Call:
    count = a.seat.point.count
    return partial(a.nccl.reduce, a.send, a.recv, count, a.dtype, a.op, a.root, a.comm, a.stream)


def _broadcast(a: Arguments) -> Call:
    count = a.seat.point.count
    return partial(a.nccl.broadcast, a.send, a.recv, count, a.dtype, a.root, a.comm, a.stream)


def _all_to_all(a: Arguments) -> Call:
    if a.nccl.get_version() >= _HAS_ALL_TO_ALL:
        return _moving(a, a.nccl.allto_all)
    count, step = a.seat.point.count, a.part_bytes
    calls: list[Call] = []
    for i, rank in enumerate(a.ranks):
        calls.append(sending(a, a.send + i * step, count, rank))
        calls.append(receiving(a, a.recv + i * step, count, rank))
    return grouped(a.nccl, calls)


def _all_to_all_v(a: Arguments) -> Call:
    """NCCL has none: sends and receives in a group, as in nccl-tests (src/alltoallv.cu)."""
    point, width = a.seat.point, DTYPES[a.seat.point.dtype].bytes
    matrix = parts_of(point.uneven, point.world_size, point.count * point.world_size)
    calls: list[Call] = []
    out, into = 0, 0
    for i, rank in enumerate(a.ranks):
        sends, receives = matrix[a.seat.rank][i], matrix[i][a.seat.rank]
        calls += [sending(a, a.send + out * width, sends, rank)] if sends else []
        calls += [receiving(a, a.recv + into * width, receives, rank)] if receives else []
        out, into = out + sends, into + receives
    return grouped(a.nccl, calls)


def _gather(a: Arguments) -> Call:
    count = a.seat.point.count
    if a.nccl.get_version() >= _HAS_ALL_TO_ALL:
        return partial(a.nccl.gather, a.send, a.recv, count, a.dtype, a.root, a.comm, a.stream)
    calls = [sending(a, a.send, count, a.root)]
    if a.seat.rank == (a.seat.point.root or 0):
        calls += [
            receiving(a, a.recv + i * a.part_bytes, count, rank) for i, rank in enumerate(a.ranks)
        ]
    return grouped(a.nccl, calls)


def _scatter(a: Arguments) -> Call:
    count = a.seat.point.count
    if a.nccl.get_version() >= _HAS_ALL_TO_ALL:
        return partial(a.nccl.scatter, a.send, a.recv, count, a.dtype, a.root, a.comm, a.stream)
    calls = [receiving(a, a.recv, count, a.root)]
    if a.seat.rank == (a.seat.point.root or 0):
        calls += [
            sending(a, a.send + i * a.part_bytes, count, rank) for i, rank in enumerate(a.ranks)
        ]
    return grouped(a.nccl, calls)


def _send_recv(a: Arguments) -> Call:
    count = a.seat.point.count
    return grouped(
        a.nccl,
        [
            sending(a, a.send, count, a.neighbour(1)),
            receiving(a, a.recv, count, a.neighbour(-1)),
        ],
    )


def _send(a: Arguments) -> Call:
    count = a.seat.point.count
    if a.seat.rank == 0:
        return sending(a, a.send, count, a.neighbour(1))
    return receiving(a, a.recv, count, a.neighbour(-1))


def _ping_pong(a: Arguments) -> Call:
    count = a.seat.point.count
    send = sending(a, a.send, count, a.neighbour(1))
    receive = receiving(a, a.recv, count, a.neighbour(1))
    first, second = (send, receive) if a.seat.rank == 0 else (receive, send)

    def there_and_back() -> None:
        first()
        second()

    return there_and_back


_MAKERS: dict[str, Callable[[Arguments], Call]] = {
    "all_reduce": lambda a: _reducing(a, a.nccl.all_reduce),
    "reduce_scatter": lambda a: _reducing(a, a.nccl.reduce_scatter),
    "all_gather": lambda a: _moving(a, a.nccl.all_gather),
    "all_to_all": _all_to_all,
    "all_to_all_v": _all_to_all_v,
    "gather": _gather,
    "scatter": _scatter,
    "broadcast": _broadcast,
    "reduce": _reduce,
    "send_recv": _send_recv,
    "send": _send,
    "ping_pong": _ping_pong,
}
