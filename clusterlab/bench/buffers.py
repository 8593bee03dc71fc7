"""One rank's send and receive buffers, laid out as nccl-tests lays them out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterlab.bench.nccl_memory import nccl_bytes
from clusterlab.core.collectives import BufferShape, buffer_shape
from clusterlab.core.dtypes import DTYPES
from clusterlab.core.rows import Point

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Buffers:
    """Flat tensors of the point's dtype. Out of place they do not overlap.

    In place (nccl-tests' ``sendInplaceOffset`` and ``recvInplaceOffset``): all_gather and gather send the
    rank's own slice of the receive buffer, reduce_scatter and scatter receive into the rank's own slice of
    the send buffer, every other collective has one buffer for both. Of a rooted one all ranks have both.
    """

    send: torch.Tensor
    recv: torch.Tensor


def shape_of(point: Point) -> BufferShape:
    """Elements of the point's buffers."""
    return buffer_shape(
        point.collective, point.requested_bytes, DTYPES[point.dtype], point.world_size
    )


def block_bytes(point: Point) -> tuple[int, int]:
    """Bytes of the one or two memory blocks that one rank needs for ``point`` (second 0 in place)."""
    shape = shape_of(point)
    width = DTYPES[point.dtype].bytes
    if point.in_place:
        return max(shape.send_elements, shape.recv_elements) * width, 0
    return shape.send_elements * width, shape.recv_elements * width


_COLD_BYTES = 128 << 20
"""More than twice the last cache of any GPU so far (H200 50 MB)."""

_MOST_PLACES = 64
"""Calls are made for every place beforehand; more places make small sizes no colder than they matter."""

_ALIGNED_BYTES = 16
"""NCCL's widest load: a place that begins between two of them would be read more slowly."""


class Arena:
    """Memory for the largest of many points, allocated once and used by all of them in turn.

    As in nccl-tests: no allocation and no page fault falls between two sizes of a sweep. ``memory`` says
    whose it is: ``nccl`` or ``torch``; None on a CPU.
    """

    def __init__(
        self, points: Iterable[Point], device: torch.device, *, memory: str = "torch"
    ) -> None:
        """Allocate on ``device``. The points' size must have been checked against its memory.

        ``memory`` ``nccl``: by NCCL's allocator on a GPU, where it has one; all of it, or none.
        """
        blocks = [block_bytes(point) for point in points]
        sizes = [max((block[i] for block in blocks), default=0) for i in (0, 1)]
        (self._first, self._second), self.memory = _allocated(sizes, device, memory)

    def places(self, point: Point) -> int:
        """How many places ``buffers`` has for ``point``: on a GPU enough that calls on one after the other
        find nothing in its cache, as far as the memory goes. 1 on a CPU.

        nccl-tests moves on through its buffers so (src/common.cu startColl); measured on one place only,
        8 MiB look 5 % faster than they are where the cache is 50 MB.
        """
        if self._first.device.type != "cuda":
            return 1
        first, second = (_aligned(block) for block in block_bytes(point))
        wanted = min(-(-_COLD_BYTES // max(first + second, 1)), _MOST_PLACES)
        room = [self._first.numel() // first] if first else []
        room += [self._second.numel() // second] if second else []
        return max(1, min([wanted, *room]))

    def buffers(self, point: Point, rank: int, place: int = 0) -> Buffers:
        """The buffers of ``rank`` for ``point``; their contents are whatever was there before."""
        import torch

        shape = shape_of(point)
        first_bytes, second_bytes = block_bytes(point)
        kind: torch.dtype = getattr(torch, point.dtype)
        first = _at(self._first, place, first_bytes).view(kind)
        if not point.in_place:
            return Buffers(first, _at(self._second, place, second_bytes).view(kind))
        own = slice(rank * shape.count, (rank + 1) * shape.count)
        if point.collective in ("all_gather", "gather"):
            return Buffers(first[own], first)
        if point.collective in ("reduce_scatter", "scatter"):
            return Buffers(first, first[own])
        return Buffers(first, first)


def _allocated(
    sizes: Sequence[int], device: torch.device, memory: str
) -> tuple[list[torch.Tensor], str | None]:
    """Bytes of ``sizes`` on ``device``, and whose they are: all NCCL's, or all torch's."""
    import torch

    if device.type == "cuda" and memory == "nccl":
        of_nccl = [nccl_bytes(size, device) for size in sizes if size]
        given = [tensor for tensor in of_nccl if tensor is not None]
        if given and len(given) == len(of_nccl):
            nothing = torch.empty(0, dtype=torch.uint8, device=device)
            return [given.pop(0) if size else nothing for size in sizes], "nccl"
    tensors = [torch.empty(size, dtype=torch.uint8, device=device) for size in sizes]
    return tensors, "torch" if device.type == "cuda" else None


def _aligned(size_bytes: int) -> int:
    return -(-size_bytes // _ALIGNED_BYTES) * _ALIGNED_BYTES


def _at(memory: torch.Tensor, place: int, size_bytes: int) -> torch.Tensor:
    start = place * _aligned(size_bytes)
    return memory[start : start + size_bytes]
