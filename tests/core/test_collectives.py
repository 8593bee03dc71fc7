from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.collectives import (
    COLLECTIVES,
    REDUCE_OPS,
    SWEPT,
    algbw_GBps,
    buffer_shape,
    busbw_factor,
    collective,
    collectives,
    reduce_op,
    reduce_ops,
)
from clusterlab.core.dtypes import DTYPES, dtype, dtypes
from clusterlab.core.errors import UsageError

names = st.sampled_from(list(SWEPT))
types = st.sampled_from(list(DTYPES.values()))
ranks = st.integers(1, 4096)


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("allreduce", "all_reduce"),
        ("AllReduce", "all_reduce"),
        ("all-reduce", "all_reduce"),
        ("all_reduce_perf", "all_reduce"),
        ("ncclAllReduce", "all_reduce"),
        ("alltoall", "all_to_all"),
        ("all_to_all_single", "all_to_all"),
        ("all_gather_into_tensor", "all_gather"),
        ("reduce_scatter_tensor", "reduce_scatter"),
        ("sendrecv", "send_recv"),
        ("bcast", "broadcast"),
        ("alltoallv", "all_to_all_v"),
        ("AllToAllV", "all_to_all_v"),
        ("alltoallv_perf", "all_to_all_v"),
        ("ncclGather", "gather"),
        ("scatter_perf", "scatter"),
    ],
)
def test_common_spellings_are_one_collective(spelling: str, name: str) -> None:
    assert collective(spelling).name == name


def test_an_unknown_collective_gets_a_suggestion() -> None:
    with pytest.raises(UsageError, match="did you mean 'all_reduce'"):
        collective("all_redcue")


def test_all_means_the_seven() -> None:
    assert [c.name for c in collectives("all")] == list(COLLECTIVES)
    assert [c.name for c in collectives("allreduce, bcast")] == ["all_reduce", "broadcast"]


def test_the_others_are_measured_when_they_are_named():
    assert [c.name for c in collectives("gather,alltoallv")] == ["gather", "all_to_all_v"]
    both = [c.name for c in collectives("scatter,all,all_reduce")]
    assert both == ["scatter", *COLLECTIVES]
    with pytest.raises(UsageError):
        collectives("ping_pong")


@pytest.mark.parametrize(
    ("spelling", "name"),
    [("float", "float32"), ("half", "float16"), ("bf16", "bfloat16"), ("torch.int8", "int8"),
     ("f8e4m3", "float8_e4m3fn"), ("DOUBLE", "float64")],
)  # fmt: skip
def test_common_dtype_spellings_are_understood(spelling: str, name: str) -> None:
    assert dtype(spelling).name == name


def test_unknown_dtypes_and_operators_get_suggestions() -> None:
    with pytest.raises(UsageError, match="did you mean 'float32'"):
        dtype("flaot32")
    with pytest.raises(UsageError, match="did you mean 'prod'"):
        reduce_op("prd")
    assert [d.name for d in dtypes("all")] == list(DTYPES)
    assert tuple(reduce_ops("all")) == REDUCE_OPS
    assert reduce_ops("sum,mean") == ["sum", "avg"]


@pytest.mark.parametrize(
    ("name", "n", "factor"),
    [("all_reduce", 8, 1.75), ("reduce_scatter", 8, 0.875), ("all_gather", 8, 0.875),
     ("all_to_all", 4, 0.75), ("all_to_all_v", 4, 0.75), ("gather", 4, 0.75), ("scatter", 4, 0.75),
      ("broadcast", 8, 1.0), ("reduce", 8, 1.0), ("send_recv", 8, 1.0),
     ("all_reduce", 1, 0.0)],
)  # fmt: skip
def test_busbw_factors_are_nccl_tests(name: str, n: int, factor: float) -> None:
    assert busbw_factor(name, n) == factor


@given(names, ranks)
def test_factors_lie_between_nothing_and_two(name: str, n: int) -> None:
    assert 0 <= busbw_factor(name, n) < 2


def test_algbw_is_size_over_time() -> None:
    assert algbw_GBps(1_000_000_000, 1e6) == 1.0


@given(names, st.integers(1, 1 << 40), types, ranks)
def test_padding_only_adds_less_than_one_element_per_rank(
    name: str, requested: int, element, n: int
) -> None:
    shape = buffer_shape(name, requested, element, n)
    parts = n if collective(name).per_rank else 1
    assert 0 <= shape.size_bytes - requested < element.bytes * parts
    assert shape.padded == (shape.size_bytes != requested)
    assert shape.count * parts * element.bytes == shape.size_bytes


@given(names, st.integers(1, 1 << 40), types, ranks)
def test_the_larger_buffer_is_the_size(name: str, requested: int, element, n: int) -> None:
    shape = buffer_shape(name, requested, element, n)
    larger = max(shape.send_elements, shape.recv_elements)
    assert larger * element.bytes == shape.size_bytes
    smaller = min(shape.send_elements, shape.recv_elements)
    assert smaller == (larger // n if name in ONE_PART else larger)


ONE_PART = ("all_gather", "gather", "reduce_scatter", "scatter")


def test_no_bytes_and_no_ranks_are_refused() -> None:
    with pytest.raises(UsageError, match="at least 1 byte"):
        buffer_shape("all_reduce", 0, dtype("float32"), 2)
    with pytest.raises(UsageError, match="at least 1"):
        busbw_factor("all_reduce", 0)
