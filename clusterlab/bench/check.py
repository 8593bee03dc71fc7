"""The data check: every received element against what it must be, counted over all ranks."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterlab.bench.buffers import Buffers
from clusterlab.bench.data import PERIOD, Expected, reduced, sent
from clusterlab.bench.ops import Operation
from clusterlab.core.dtypes import DTYPES
from clusterlab.core.rows import Point
from clusterlab.core.uneven import parts_of

if TYPE_CHECKING:
    import torch

_BLOCK_ELEMENTS = 1 << 21
"""Compared at a time: bounds the memory of the check's temporaries (float64 differences)."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of a receive buffer: ``length`` elements from ``offset`` on.

    It must hold the data of rank ``source`` from that rank's index ``start`` on; ``source`` None means
    the reduction of all ranks' data.
    """

    offset: int
    length: int
    source: int | None
    start: int


@dataclass(frozen=True, slots=True)
class Found:
    """Wrong elements that one rank received; index, expected and got of the first."""

    wrong: int = 0
    index: int = -1
    expected: float = 0.0
    got: float = 0.0


def checkable(point: Point) -> bool:
    """Whether the point's result is defined.

    In place, all_to_all, all_to_all_v and send_recv read and write the same memory at once; nccl-tests
    reports N/A for them. A ping_pong answers with what it has just received.
    """
    at_once = ("all_to_all", "all_to_all_v", "send_recv", "ping_pong")
    return not (point.in_place and point.collective in at_once)


def expected_segments(point: Point, rank: int) -> list[Segment]:
    """What ``rank`` must have received; empty for ranks that receive nothing (reduce and gather, not the
    root; the first rank of a send).
    """
    n, count = point.world_size, point.count
    if point.collective in ("reduce", "gather") and rank != point.root:
        return []
    if point.collective in ("all_gather", "gather"):
        return [Segment(source * count, count, source, 0) for source in range(n)]
    if point.collective in ("all_to_all", "all_to_all_v"):
        return _exchanged(point, rank)
    if point.collective == "send" and rank == 0:
        return []
    whole = {
        "all_reduce": Segment(0, count, None, 0),
        "reduce": Segment(0, count, None, 0),
        "reduce_scatter": Segment(0, count, None, rank * count),
        "broadcast": Segment(0, count, point.root, 0),
        "scatter": Segment(0, count, point.root, rank * count),
        **dict.fromkeys(("send_recv", "send", "ping_pong"), Segment(0, count, (rank - 1) % n, 0)),
    }
    return [whole[point.collective]]


def _exchanged(point: Point, rank: int) -> list[Segment]:
    """One part from every rank, which has those for lower ranks before it."""
    matrix = parts_of(point.uneven, point.world_size, point.count * point.world_size)
    found, offset = [], 0
    for source, row in enumerate(matrix):
        found.append(Segment(offset, row[rank], source, sum(row[:rank])))
        offset += row[rank]
    return found


def reset(point: Point, buffers: Buffers, rank: int) -> None:
    """Poison what is to be received and write the rank's data into what it sends.

    In place the data overwrites the poison where the buffers overlap. Only the root of a broadcast or
    scatter has data.
    """
    poison(buffers.recv, point.dtype)
    if point.collective not in ("broadcast", "scatter") or rank == point.root:
        fill(buffers.send, sent(rank, point.world_size, point.dtype, point.op))


def poison(buffer: torch.Tensor, dtype: str) -> None:
    """Fill ``buffer`` with NaN or the dtype's largest integer, which no expectation contains: an element
    that nobody writes is wrong.
    """
    import torch

    kind = DTYPES[dtype]
    buffer.fill_(kind.max_exact_int if kind.kind == "int" else torch.nan)


def fill(buffer: torch.Tensor, period: torch.Tensor) -> None:
    """Write ``period`` over and over into ``buffer``."""
    period = period.to(buffer.device)
    whole = buffer.numel() // PERIOD
    buffer[: whole * PERIOD].view(whole, PERIOD).copy_(period.expand(whole, PERIOD))
    rest = buffer[whole * PERIOD :]
    rest.copy_(period[: rest.numel()])


def check_call(
    point: Point,
    buffers: Buffers,
    operation: Operation,
    rank: int,
    *,
    corrupt: int | None = None,
) -> Found:
    """Call once on fresh data and check every element that ``rank`` of the point's ranks received.

    Nothing is wrong where nothing is defined (see ``checkable``). All of the point's ranks call together.
    ``corrupt``: the index of an element to overwrite before it is looked at.
    """
    if not checkable(point):
        return Found()
    reset(point, buffers, rank)
    operation.stage()
    operation.call()
    if corrupt is not None and expected_segments(point, rank):
        corrupt_element(buffers.recv, corrupt)
    return check_rank(point, buffers.recv, rank)


def corrupt_element(buffer: torch.Tensor, index: int) -> None:
    """Replace one element by a value that is never expected there."""
    import torch

    element = buffer[index : index + 1]
    if element.is_floating_point():
        value = element.to(torch.float64)  # moved by more than its own magnitude: beyond any bound
        element.copy_(2 * value + torch.copysign(torch.ones_like(value), value))
    else:
        element.add_(1)


def check_rank(point: Point, recv: torch.Tensor, rank: int) -> Found:
    """What is wrong in the receive buffer of ``rank``."""
    wrong, first = 0, None
    for segment in expected_segments(point, rank):
        part = recv[segment.offset : segment.offset + segment.length]
        count, found = compare(part, _expected(point, segment.source), segment.start)
        wrong += count
        if first is None and found is not None:
            first = Found(0, segment.offset + found[0], found[1], found[2])
    return dataclasses.replace(first or Found(), wrong=wrong)


def _expected(point: Point, source: int | None) -> Expected:
    if source is None:
        return reduced(point.world_size, point.dtype, point.op or "sum")
    return Expected(sent(source, point.world_size, point.dtype, None))


def compare(
    got: torch.Tensor, expected: Expected, start: int
) -> tuple[int, tuple[int, float, float] | None]:
    """Wrong elements of ``got`` where element i must match index (start + i) of the periodic ``expected``.

    Returns their number, and (i, expected, got) of the first. NaN is always wrong.
    """
    shift = start % PERIOD
    values = _comparable(expected.values).roll(-shift).to(got.device)
    tolerance = expected.tolerance
    if tolerance is not None:
        tolerance = tolerance.roll(-shift).to(got.device)
    wrong, first = 0, None
    step = max(1, _BLOCK_ELEMENTS // PERIOD) * PERIOD
    for begin in range(0, got.numel(), step):
        block = _comparable(got[begin : begin + step])
        bad = _differs(block, values, tolerance)
        count = int(bad.sum())
        wrong += count
        if count and first is None:
            i = int(bad.nonzero()[0])
            first = (begin + i, float(values[i % PERIOD]), float(block[i]))
    return wrong, first


def _comparable(values: torch.Tensor) -> torch.Tensor:
    """fp8 as float32 (torch does not compare fp8); everything else as it is."""
    import torch

    return (
        values.to(torch.float32)
        if values.dtype.itemsize == 1 and values.is_floating_point()
        else values
    )


def _differs(
    block: torch.Tensor, values: torch.Tensor, tolerance: torch.Tensor | None
) -> torch.Tensor:
    """True where ``block`` differs from ``values``, repeated, by more than ``tolerance``."""
    import torch

    whole = block.numel() // PERIOD * PERIOD
    parts = []
    for part in (block[:whole].view(-1, PERIOD), block[whole:]):
        width = part.shape[-1]
        if tolerance is None:
            parts.append(part != values[:width])
        else:
            error = (part.to(torch.float64) - values[:width]).abs_()
            parts.append(~(error <= tolerance[:width]))  # so that NaN differs
    return torch.cat([part.flatten() for part in parts])
