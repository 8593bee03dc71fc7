"""Collectives: names, nccl-tests' size convention, bus-bandwidth factors.

Names are torch.distributed's; every spelling of nccl-tests and common speech is understood.
Factors and the meaning of "size" are nccl-tests' (doc/PERFORMANCE.md): the size of a row is the
larger of the send and the receive buffer of one rank, so for all_gather and reduce_scatter it is the
gathered buffer, and busbw = algbw x factor is what one link must carry.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from clusterlab.core.dtypes import Dtype
from clusterlab.core.errors import UsageError
from clusterlab.core.suggest import unknown


@dataclass(frozen=True, slots=True)
class Collective:
    """One collective operation.

    ``reduces``: it takes a reduction operator. ``rooted``: it takes a root rank. ``per_rank``: its
    buffer is cut into one equal part per rank, so the element count must divide by the ranks.
    ``nccl_tests`` is the stem of nccl-tests' program (``<stem>_perf``).
    """

    name: str
    nccl_tests: str
    reduces: bool = False
    rooted: bool = False
    per_rank: bool = False
    aliases: tuple[str, ...] = ()


_ALL = (
    Collective("all_reduce", "all_reduce", reduces=True),
    Collective("reduce_scatter", "reduce_scatter", reduces=True, per_rank=True, aliases=("rs",)),
    Collective("all_gather", "all_gather", per_rank=True, aliases=("ag",)),
    Collective("all_to_all", "alltoall", per_rank=True, aliases=("a2a",)),
    Collective("broadcast", "broadcast", rooted=True, aliases=("bcast",)),
    Collective("reduce", "reduce", reduces=True, rooted=True),
    Collective("send_recv", "sendrecv", aliases=("p2p",)),
)

COLLECTIVES: dict[str, Collective] = {c.name: c for c in _ALL}
"""The seven that ``all`` means."""

_FURTHER = (
    Collective("all_to_all_v", "alltoallv", per_rank=True, aliases=("a2av",)),
    Collective("gather", "gather", rooted=True, per_rank=True),
    Collective("scatter", "scatter", rooted=True, per_rank=True),
)

SWEPT: dict[str, Collective] = COLLECTIVES | {c.name: c for c in _FURTHER}
"""What a sweep can measure: the seven, and those that are measured only when they are named. Parts of an
all_to_all_v may differ (``core.uneven``); its size is what the busiest rank sends or receives.
"""

_BETWEEN_TWO = (Collective("send", "sendrecv"), Collective("ping_pong", "sendrecv"))

OPERATIONS: dict[str, Collective] = SWEPT | {c.name: c for c in _BETWEEN_TWO}
"""These, and what only two ranks do. ``send``: the first sends to the second. ``ping_pong``: the
first sends to the second, which answers with as much; its time is half the round trip. (``send_recv``
between two ranks is both ways at once, as the ring shift of nccl-tests is.)
"""

REDUCE_OPS: tuple[str, ...] = ("sum", "prod", "min", "max", "avg")


def _squash(name: str) -> str:
    """``All-Reduce``, ``allreduce``, ``all_reduce_perf`` and ``ncclAllReduce`` are one word."""
    word = re.sub(r"[-_ ]", "", name.lower())
    return (
        word.removeprefix("nccl").removesuffix("perf").removesuffix("base").removesuffix("tensor")
    )


_SPELLINGS = {_squash(s): c for c in SWEPT.values() for s in (c.name, c.nccl_tests, *c.aliases)} | {
    "allgatherinto": COLLECTIVES["all_gather"],
    "alltoallsingle": COLLECTIVES["all_to_all"],
}


def collective(name: str) -> Collective:
    """The collective called ``name`` in torch, NCCL, nccl-tests or common speech, or an operation
    between two ranks by its own name. Raises UsageError.
    """
    found = OPERATIONS.get(name) or _SPELLINGS.get(_squash(name))
    if found is None:
        raise unknown("collective", name, SWEPT)
    return found


def collectives(text: str) -> list[Collective]:
    """A comma-separated list of collectives; ``all`` stands for the seven, also beside others."""
    found: dict[str, Collective] = {}
    for part in text.split(","):
        word = part.strip()
        found |= COLLECTIVES if word.lower() == "all" else {(w := collective(word)).name: w}
    for name in found:
        if name not in SWEPT:
            raise unknown("collective", name, SWEPT)
    return list(found.values())


def reduce_op(name: str) -> str:
    """The reduction operator ``name``: sum, prod, min, max or avg. Raises UsageError."""
    word = {"mean": "avg", "product": "prod", "add": "sum"}.get(name.lower(), name.lower())
    if word not in REDUCE_OPS:
        raise unknown("reduction operator", name, REDUCE_OPS)
    return word


def reduce_ops(text: str) -> list[str]:
    """A comma-separated list of reduction operators, or ``all``."""
    if text.lower() == "all":
        return list(REDUCE_OPS)
    return [reduce_op(part.strip()) for part in text.split(",")]


def busbw_factor(name: str, world_size: int) -> float:
    """busbw = algbw x this, for ``world_size`` ranks (nccl-tests doc/PERFORMANCE.md).

    all_reduce 2(n-1)/n; reduce_scatter, all_gather, all_to_all, all_to_all_v, gather, scatter (n-1)/n;
    broadcast, reduce, send_recv, send, ping_pong 1. Of an all_to_all_v with uneven parts it is the same,
    of the bytes of the rank that sends or receives most (nccl-tests src/alltoallv.cu).
    """
    if world_size < 1:
        raise UsageError(f"{world_size} ranks", where="world_size", expected="at least 1")
    n = world_size
    what = collective(name)
    if what.name == "all_reduce":
        return 2 * (n - 1) / n
    return (n - 1) / n if what.per_rank else 1.0


def algbw_GBps(size_bytes: int, time_us: float) -> float:
    """Algorithm bandwidth in GB/s (1e9 B/s): size over time."""
    return size_bytes / (time_us * 1e3)


@dataclass(frozen=True, slots=True)
class BufferShape:
    """Elements of one rank's buffers for one point.

    ``count`` is nccl-tests' count column: elements per rank's part where the buffer is cut into
    parts (all_gather, reduce_scatter, all_to_all, gather, scatter), the whole buffer otherwise. Of
    all_to_all_v it is an equal part, and both buffers have room for the busiest rank. ``size_bytes`` is
    the size really moved (after padding).
    """

    send_elements: int
    recv_elements: int
    count: int
    size_bytes: int
    padded: bool


_SMALLER_BUFFER = {
    "all_gather": "send",
    "gather": "send",
    "reduce_scatter": "recv",
    "scatter": "recv",
}
"""Which of the two holds one part only."""


def buffer_shape(name: str, requested_bytes: int, dtype: Dtype, world_size: int) -> BufferShape:
    """Buffers for ``requested_bytes`` of ``dtype`` on ``world_size`` ranks.

    A size that is not a whole number of elements, or that does not divide by the ranks where it
    must, is padded *up* (nccl-tests rounds down, and prints 0 for small sizes), and ``padded`` says so.
    Raises UsageError for a size below 1 byte.
    """
    if requested_bytes < 1:
        raise UsageError(f"size {requested_bytes}", where="size", expected="at least 1 byte")
    what = collective(name)
    parts = world_size if what.per_rank else 1
    count = -(-requested_bytes // (dtype.bytes * parts))
    whole = count * parts
    small = _SMALLER_BUFFER.get(what.name)
    return BufferShape(
        send_elements=count if small == "send" else whole,
        recv_elements=count if small == "recv" else whole,
        count=count,
        size_bytes=whole * dtype.bytes,
        padded=whole * dtype.bytes != requested_bytes,
    )
