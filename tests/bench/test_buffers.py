"""Buffers lie as nccl-tests lays them out."""

from __future__ import annotations

import itertools

import torch
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.bench.buffers import Arena, block_bytes, shape_of
from clusterlab.core.collectives import SWEPT
from clusterlab.core.dtypes import DTYPES
from clusterlab.core.rows import Point, make_point

CPU = torch.device("cpu")
names = st.sampled_from(list(SWEPT))
dtypes = st.sampled_from(list(DTYPES.values()))


def span(tensor: torch.Tensor) -> tuple[int, int]:
    begin = tensor.data_ptr()
    return begin, begin + tensor.numel() * tensor.element_size()


@given(names, st.integers(1, 5000), dtypes, st.integers(1, 9), st.data())
def test_buffers_have_the_points_shape_and_overlap_only_in_place(name, size, kind, n, draw):
    rank = draw.draw(st.integers(0, n - 1))
    for in_place in (False, True):
        point = make_point(name, size, kind, n, in_place=in_place)
        buffers = Arena([point], CPU).buffers(point, rank)
        shape = shape_of(point)
        assert buffers.send.numel() == shape.send_elements
        assert buffers.recv.numel() == shape.recv_elements
        assert buffers.send.dtype == buffers.recv.dtype == getattr(torch, kind.name)
        (s0, s1), (r0, r1) = span(buffers.send), span(buffers.recv)
        assert (max(s0, r0) < min(s1, r1)) == in_place


@given(st.integers(1, 5000), dtypes, st.integers(1, 9), st.data())
def test_in_place_slices_are_the_ranks_own(size, kind, n, draw):
    rank = draw.draw(st.integers(0, n - 1))
    for name in ("all_gather", "gather"):
        gather = make_point(name, size, kind, n, in_place=True)
        buffers = Arena([gather], CPU).buffers(gather, rank)
        own = rank * gather.count * kind.bytes
        assert buffers.send.data_ptr() - buffers.recv.data_ptr() == own
    for name in ("reduce_scatter", "scatter"):
        scatter = make_point(name, size, kind, n, in_place=True)
        buffers = Arena([scatter], CPU).buffers(scatter, rank)
        assert buffers.recv.data_ptr() - buffers.send.data_ptr() == own


@given(st.lists(st.tuples(names, st.integers(1, 5000), dtypes, st.booleans()), min_size=1))
def test_one_arena_holds_every_point_in_the_same_memory(wanted):
    points = [make_point(name, s, kind, 4, in_place=p) for name, s, kind, p in wanted]
    arena = Arena(points, CPU)
    starts = {arena.buffers(p, 0).send.untyped_storage().data_ptr() for p in points}
    assert len(starts) == 1
    largest = max(block_bytes(p)[0] for p in points)
    assert arena.buffers(points[0], 0).send.untyped_storage().nbytes() == largest


@given(names, st.integers(1, 5000), dtypes, st.integers(1, 5), st.booleans(), st.data())
def test_places_are_disjoint_and_inside_the_memory(name, size, kind, n, in_place, draw):
    """On a GPU calls move on through the memory; the arithmetic is the same on the CPU's."""
    point = make_point(name, size, kind, n, in_place=in_place)
    largest = make_point(name, draw.draw(st.integers(size, 1 << 20)), kind, n, in_place=in_place)
    arena = Arena([point, largest], CPU)
    assert arena.places(point) == 1
    count = places_in(arena, point)
    assert 1 <= count <= 64
    seen = []
    for place in range(count):
        buffers = arena.buffers(point, n - 1, place)
        assert buffers.send.numel() == shape_of(point).send_elements
        assert buffers.recv.numel() == shape_of(point).recv_elements
        seen += [span(buffers.send)] if in_place else [span(buffers.send), span(buffers.recv)]
    ends = sorted(seen)
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(ends))


def places_in(arena: Arena, point: Point) -> int:
    """What ``places`` says on a GPU that has the same memory."""

    class OnGpu:
        def __init__(self, memory):
            self._memory = memory
            self.device = torch.device("cuda")

        def numel(self):
            return self._memory.numel()

    copy = object.__new__(Arena)
    copy._first, copy._second = OnGpu(arena._first), OnGpu(arena._second)
    return copy.places(point)


def test_large_points_take_as_many_places_as_make_the_cache_cold():
    MiB = 1 << 20
    big = make_point("all_reduce", 1024 * MiB, DTYPES["float32"], 2, in_place=True)
    sizes = {8: 64, 4 * MiB: 32, 64 * MiB: 2, 256 * MiB: 1, 1024 * MiB: 1}

    class Memory:
        device = torch.device("cuda")

        def numel(self):
            return 1024 * MiB

    arena = object.__new__(Arena)
    arena._first = arena._second = Memory()
    got = {
        size: arena.places(make_point("all_reduce", size, DTYPES["float32"], 2, in_place=True))
        for size in sizes
    }
    assert got == sizes
    assert arena.places(big) == 1
