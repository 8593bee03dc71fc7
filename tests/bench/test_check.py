"""What every collective must leave behind, and that anything else is counted as wrong."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.bench.buffers import Arena, Buffers
from clusterlab.bench.check import (
    check_rank,
    checkable,
    compare,
    corrupt_element,
    expected_segments,
    fill,
    reset,
)
from clusterlab.bench.data import PERIOD, Expected, reduced, sent
from clusterlab.core.collectives import SWEPT
from clusterlab.core.dtypes import DTYPES
from clusterlab.core.rows import Point, make_point
from clusterlab.core.uneven import parts_of

CPU = torch.device("cpu")
names = st.sampled_from(list(SWEPT))
shapes = st.sampled_from(
    ["linear", "hot:0.5", "hot:1", "random:5", "matrix:" + "/".join(6 * ["1 0 7 2 0 3"])]
)
dtypes = st.sampled_from(["int8", "uint8", "int32", "int64", "float16", "float32", "bfloat16"])


def deliver(point: Point, ranks: list[Buffers]) -> None:
    """The collective in one process, written from its definition; min, so that it is exact."""
    n, count = point.world_size, point.count
    sends = [b.send.clone() for b in ranks]
    everything = torch.stack(sends).amin(dim=0) if SWEPT[point.collective].reduces else None
    for rank, buffers in enumerate(ranks):
        match point.collective:
            case "all_reduce":
                buffers.recv.copy_(everything)
            case "reduce":
                if rank == point.root:
                    buffers.recv.copy_(everything)
            case "reduce_scatter":
                buffers.recv.copy_(everything[rank * count : (rank + 1) * count])
            case "all_gather":
                buffers.recv.copy_(torch.cat(sends))
            case "gather":
                if rank == point.root:
                    buffers.recv.copy_(torch.cat(sends))
            case "scatter":
                buffers.recv.copy_(sends[point.root][rank * count : (rank + 1) * count])
            case "all_to_all_v":
                matrix = parts_of(point.uneven, n, n * count)
                parts = [
                    s.split([*row, len(s) - sum(row)])[rank]
                    for s, row in zip(sends, matrix, strict=True)
                ]
                received = torch.cat(parts)
                buffers.recv[: len(received)].copy_(received)
            case "all_to_all":
                parts = [s[rank * count : (rank + 1) * count] for s in sends]
                buffers.recv.copy_(torch.cat(parts))
            case "broadcast":
                buffers.recv.copy_(sends[point.root])
            case "send_recv":
                buffers.recv.copy_(sends[(rank - 1) % n])


def prepared(point: Point) -> list[Buffers]:
    ranks = [Arena([point], CPU).buffers(point, r) for r in range(point.world_size)]
    for rank, buffers in enumerate(ranks):
        reset(point, buffers, rank)
    return ranks


@settings(max_examples=80, deadline=None)
@given(names, st.integers(1, 300_000), dtypes, st.integers(1, 6), st.booleans(), st.data())
def test_a_correct_collective_has_no_wrong_element(name, size, dtype, n, in_place, draw):
    root = draw.draw(st.integers(0, n - 1))
    point = make_point(name, size, DTYPES[dtype], n, op="min", root=root, in_place=in_place)
    ranks = prepared(point)
    deliver(point, ranks)
    for rank, buffers in enumerate(ranks):
        assert check_rank(point, buffers.recv, rank).wrong == 0


@settings(max_examples=80, deadline=None)
@given(shapes, st.integers(1, 300_000), dtypes, st.integers(1, 6))
def test_so_it_is_where_parts_differ_and_nothing_else_is_looked_at(uneven, size, dtype, n):
    point = make_point("all_to_all_v", size, DTYPES[dtype], n, uneven=uneven)
    ranks = prepared(point)
    before = [check_rank(point, b.recv, r).wrong for r, b in enumerate(ranks)]
    matrix = parts_of(uneven, n, n * point.count)
    assert before == [sum(row[r] for row in matrix) for r in range(n)]  # all of it, and no more
    deliver(point, ranks)
    for rank, buffers in enumerate(ranks):
        assert check_rank(point, buffers.recv, rank).wrong == 0


@settings(max_examples=80, deadline=None)
@given(names, st.integers(1, 300_000), dtypes, st.integers(2, 6), st.data())
def test_one_corrupted_element_is_counted_and_named(name, size, dtype, n, draw):
    point = make_point(name, size, DTYPES[dtype], n, op="min")
    ranks = prepared(point)
    deliver(point, ranks)
    rank = 0  # the root, which receives in every collective
    index = draw.draw(st.integers(0, ranks[rank].recv.numel() - 1))
    right = float(ranks[rank].recv[index])
    corrupt_element(ranks[rank].recv, index)
    found = check_rank(point, ranks[rank].recv, rank)
    assert (found.wrong, found.index, found.expected) == (1, index, right)
    assert found.got == float(ranks[rank].recv[index]) != right


@pytest.mark.parametrize(
    ("name", "in_place"),
    [
        (name, in_place)
        for name in SWEPT
        for in_place in (False, True)
        if checkable(make_point(name, 8, DTYPES["int8"], 2, in_place=in_place))
    ],
)
def test_a_collective_that_does_nothing_leaves_everything_it_should_have_moved_wrong(
    name, in_place
):
    point = make_point(name, 4096, DTYPES["float32"], 4, op="sum", in_place=in_place)
    ranks = prepared(point)
    wrong = [check_rank(point, b.recv, rank).wrong for rank, b in enumerate(ranks)]
    elements = 1024
    untouched = {
        "reduce": [elements, 0, 0, 0],  # only the root receives
        "gather": [elements * 3 / 4 if in_place else elements, 0, 0, 0],
        "scatter": [0 if in_place else elements / 4, *[elements / 4] * 3],
        "reduce_scatter": [elements / 4] * 4,
        "all_gather": [elements * 3 / 4 if in_place else elements] * 4,  # its own part lies there
        "broadcast": [0 if in_place else elements, *[elements] * 3],  # the root has it already
    }
    assert wrong == untouched.get(name, [elements] * 4)


@pytest.mark.parametrize("name", ["all_gather", "all_to_all"])
def test_parts_in_the_wrong_order_are_wrong(name):
    point = make_point(name, 64 << 10, DTYPES["int32"], 4)
    ranks = prepared(point)
    deliver(point, ranks)
    swapped = ranks[1].recv.roll(point.count)
    assert check_rank(point, swapped, 1).wrong > 0.99 * swapped.numel()


@given(names, st.integers(1, 10_000), st.integers(1, 9), st.data())
def test_segments_cover_the_receive_buffer_once(name, size, n, draw):
    point = make_point(name, size, DTYPES["float32"], n)
    rank = draw.draw(st.integers(0, n - 1))
    segments = expected_segments(point, rank)
    if name in ("reduce", "gather") and rank != 0:
        assert segments == []
        return
    at = 0
    for segment in segments:
        assert segment.offset == at
        assert segment.length == point.count
        at += segment.length
    recv = Arena([point], CPU).buffers(point, rank).recv
    assert at == recv.numel()


@pytest.mark.parametrize("length", [1, PERIOD - 1, PERIOD, PERIOD + 1, 3 * PERIOD + 5, 3_000_000])
@pytest.mark.parametrize("start", [0, 1, PERIOD - 1, 2 * PERIOD + 7])
def test_compare_follows_the_period_from_any_start(length, start):
    period = sent(2, 4, "int32", None)
    got = period[(torch.arange(length) + start) % PERIOD]
    expected = Expected(period)
    assert compare(got, expected, start) == (0, None)
    got[-1] += 1
    assert compare(got, expected, start) == (1, (length - 1, float(got[-1] - 1), float(got[-1])))


@pytest.mark.parametrize("length", [0, 1, PERIOD, 2 * PERIOD + 3])
def test_fill_repeats_the_period(length):
    period = sent(0, 2, "float32", None)
    buffer = torch.empty(length)
    fill(buffer, period)
    assert torch.equal(buffer, period[torch.arange(length) % PERIOD])


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("op", ["sum", "prod", "avg", "min"])
def test_nan_and_infinity_are_wrong(bad, op):
    expected = reduced(3, "float32", op)
    got = expected.values.float().clone()
    got[5] = bad
    wrong, first = compare(got, expected, 0)
    assert wrong == 1
    assert first is not None
    assert first[0] == 5


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_fp8_is_filled_poisoned_and_checked(dtype):
    point = make_point("all_gather", 5000, DTYPES[dtype], 2)
    ranks = prepared(point)
    assert check_rank(point, ranks[0].recv, 0).wrong == ranks[0].recv.numel()
    both = torch.cat([b.send.view(torch.uint8) for b in ranks])
    ranks[0].recv.view(torch.uint8).copy_(both)
    assert check_rank(point, ranks[0].recv, 0).wrong == 0


def test_only_exchanges_and_send_recv_have_no_defined_result_in_place():
    undefined = {
        name
        for name in SWEPT
        if not checkable(make_point(name, 8, DTYPES["float32"], 2, in_place=True))
    }
    assert undefined == {"all_to_all", "all_to_all_v", "send_recv"}
    assert all(checkable(make_point(name, 8, DTYPES["float32"], 2)) for name in SWEPT)
