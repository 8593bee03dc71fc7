"""Tagging streams of any bytes, in chunks cut anywhere."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from clusterlab.binding.exec.tagging import MOST_BYTES, end_line, pieces, tag_lines

TAG = rb"[rank 3 n0 gpu \1] "  # a backslash is no group of a pattern


def tagged(chunks: list[bytes]) -> bytes:
    out, pending = b"", b""
    for chunk in chunks:
        text, pending = tag_lines(TAG, pending, chunk)
        out += text
    return out + end_line(TAG, pending)


def by_hand(data: bytes) -> bytes:
    """One byte after the other: the same, slowly."""
    out, at_start = b"", True
    for i, byte in enumerate(data):
        if at_start:
            out += TAG
        out += bytes([byte])
        at_start = byte == 10 or (byte == 13 and data[i + 1 : i + 2] != b"\n")
    return out if at_start else out + b"\n"


BYTES = st.lists(st.sampled_from([b"\n", b"\r", b"\r\n", b"a", b"bc", b"\0", b"\xff", b"\\"])).map(
    b"".join
)


@given(BYTES, st.lists(st.integers(0, 40)))
def test_wherever_chunks_end_every_line_is_tagged_once(data: bytes, cuts: list[int]) -> None:
    ends = sorted({0, len(data), *(c for c in cuts if c < len(data))})
    chunks = [data[a:b] for a, b in pairwise(ends)]
    assert tagged(chunks) == by_hand(data)


@given(st.binary(max_size=300))
def test_no_byte_is_lost_or_changed(data: bytes) -> None:
    out = tagged([data]).replace(TAG, b"")
    assert out in (data, data + b"\n")


def test_a_progress_bar_shows_while_it_moves() -> None:
    text, pending = tag_lines(TAG, b"", b"\r 10%|#  |\r 20%|")
    assert text == TAG + b"\r" + TAG + b" 10%|#  |\r"
    assert pending == b" 20%|"


def test_a_line_without_end_costs_bounded_memory() -> None:
    out, pending = b"", b""
    for _ in range(40):
        text, pending = tag_lines(TAG, pending, b"x" * (MOST_BYTES // 16))
        assert len(pending) < MOST_BYTES
        out += text
    assert out == (TAG + b"x" * MOST_BYTES + b"\n") * 2


@given(BYTES, st.integers(1, 20))
def test_pieces_are_whole_lines_and_small_where_they_can_be(data: bytes, most: int) -> None:
    found = pieces(data, most)
    assert b"".join(found) == data
    for piece in found[:-1]:
        assert piece.endswith(b"\n")
        assert len(piece) <= most or piece.count(b"\n") == 1
    if found:
        assert len(found[-1]) <= most or found[-1][:-1].count(b"\n") == 0
