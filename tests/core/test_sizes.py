from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.core.sizes import (
    MAX_SIZE_BYTES,
    MAX_SIZES,
    format_size,
    human_size,
    parse_size,
    size_series,
)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("8", 8),
        ("0", 0),
        ("4K", 4096),
        ("4k", 4096),
        ("4KB", 4096),
        ("4KiB", 4096),
        ("1.5M", 1572864),
        (".5K", 512),
        ("8G", 8 << 30),
        ("2T", 2 << 40),
        (" 32 M ", 32 << 20),
        ("7B", 7),
        ("0.3", 0),
    ],
)
def test_sizes_are_read_as_nccl_tests_reads_them(text: str, size_bytes: int) -> None:
    assert parse_size(text) == size_bytes


@pytest.mark.parametrize("text", ["", "K", "-8", "8X", "8 8", "1e9", "0x10", "８K", "8KK", "nan"])
def test_what_is_not_a_size_is_refused_with_the_option_named(text: str) -> None:
    with pytest.raises(UsageError, match=r"^-b: not a size"):
        parse_size(text, where="-b")


@pytest.mark.parametrize("text", ["4097T", "9" * 30, "9" * 400 + "G", "1." + "0" * 50])
def test_a_size_beyond_all_machines_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="too large a size"):
        parse_size(text)


@given(st.integers(0, MAX_SIZE_BYTES))
def test_every_size_survives_format_and_parse(size_bytes: int) -> None:
    assert parse_size(format_size(size_bytes)) == size_bytes


@given(st.integers(1, 1 << 50))
def test_human_sizes_are_within_rounding(size_bytes: int) -> None:
    number, unit = human_size(size_bytes).split()
    scale = {"B": 0, "KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40}[unit]
    assert float(number) * 2**scale == pytest.approx(size_bytes, rel=6e-3)


def test_the_default_series_doubles() -> None:
    assert size_series(8, 64) == [8, 16, 32, 64]


def test_a_step_adds() -> None:
    assert size_series(1024, 4096, step=1024) == [1024, 2048, 3072, 4096]


@given(
    st.integers(1, 1 << 20),
    st.integers(1, 1 << 34),
    st.floats(1.001, 64, allow_nan=False),
)
def test_a_series_by_factor_ascends_within_its_limits(begin: int, end: int, factor: float) -> None:
    begin, end = min(begin, end), max(begin, end)
    try:
        sizes = size_series(begin, end, factor=factor)
    except UsageError as error:
        assert str(MAX_SIZES) in str(error)
        return
    assert sizes[0] == begin
    assert sizes[-1] <= end
    assert all(a < b for a, b in itertools.pairwise(sizes))


@given(st.integers(0, 1 << 20), st.integers(0, 1 << 20), st.integers(1, 1 << 20))
def test_a_series_by_step_is_arithmetic(begin: int, span: int, step: int) -> None:
    try:
        sizes = size_series(begin, begin + span, step=step)
    except UsageError as error:
        assert str(MAX_SIZES) in str(error)
        return
    assert sizes == list(range(begin, begin + span + 1, step))


@pytest.mark.parametrize(
    "kwargs",
    [
        {"begin": 8, "end": 4},
        {"begin": 8, "end": 64, "factor": 1.0},
        {"begin": 8, "end": 64, "factor": 0.5},
        {"begin": 8, "end": 64, "factor": float("inf")},
        {"begin": 8, "end": 64, "factor": float("nan")},
        {"begin": 0, "end": 64, "factor": 2},
        {"begin": 8, "end": 64, "step": 0},
        {"begin": 8, "end": 64, "step": 8, "factor": 2.0},
        {"begin": 0, "end": 1 << 30, "step": 1},
    ],
)
def test_a_series_that_is_empty_or_never_ends_is_refused(kwargs: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        size_series(**kwargs)  # type: ignore[arg-type]
