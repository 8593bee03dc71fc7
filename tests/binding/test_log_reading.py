"""Logs of any kind as numbered lines, and what the classifier makes of them."""

from __future__ import annotations

import io
import os
import sys
import threading
from pathlib import Path

import pytest

from clusterlab.binding import log_reading
from clusterlab.binding.log_errors import classify_lines, classify_log, ranks_of
from clusterlab.binding.log_reading import MAX_LINE_BYTES, numbered_lines, without_escapes
from clusterlab.core.errors import UsageError

BUSY = b"RuntimeError: The server socket: EADDRINUSE, address already in use"


def read(path: Path, data: bytes) -> tuple[list[tuple[int, bytes]], list[int]]:
    path.write_bytes(data)
    long_lines: list[int] = []
    return list(numbered_lines(path, long_lines)), long_lines


def test_carriage_returns_part_lines_but_do_not_count(tmp_path: Path) -> None:
    lines, _ = read(tmp_path / "log", b"a\r\n10%\r20%\rend\nlast")
    assert lines == [(1, b"a"), (2, b"10%"), (2, b"20%"), (2, b"end"), (3, b"last")]


@pytest.mark.parametrize("block", [1, 7, 1 << 18])
def test_the_block_size_does_not_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(log_reading, "_BLOCK_BYTES", block)
    lines, _ = read(tmp_path / "log", b"one\ntwo\n\nthree")
    assert lines == [(1, b"one"), (2, b"two"), (3, b""), (4, b"three")]


@pytest.mark.parametrize("end", [b"", b"\nafter"])
def test_an_endless_line_is_cut_and_told(tmp_path: Path, end: bytes) -> None:
    lines, long_lines = read(tmp_path / "log", b"first\n" + b"x" * (20 * MAX_LINE_BYTES) + end)
    assert [len(text) for _, text in lines[:2]] == [5, MAX_LINE_BYTES]
    assert long_lines == [2]
    assert len(lines) == 2 + bool(end)


def test_a_log_with_a_hole_at_its_end_is_read(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"x" * 5000 + b"\n" + BUSY + b"\n")
    os.truncate(log, 50 << 20)
    long_lines: list[int] = []
    assert [f.code for f in classify_log(log, long_lines)] == ["MASTER_PORT_COLLISION"]
    assert long_lines == [3]


def test_more_than_the_limit_is_refused_also_where_no_size_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_reading, "MAX_LOG_BYTES", 1000)
    with pytest.raises(UsageError, match="too much"):
        read(tmp_path / "log", b"x\n" * 501)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"x\n" * 501)))
    with pytest.raises(UsageError, match="too much"):
        list(numbered_lines(Path("-"), []))


def test_a_pipe_is_read_from_its_first_byte(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(BUSY,))
    writer.start()
    found = classify_log(pipe)
    writer.join(timeout=10)
    assert [f.code for f in found] == ["MASTER_PORT_COLLISION"]


def test_zeros_without_end_are_no_log() -> None:
    with pytest.raises(UsageError, match="not a text file"):
        classify_log(Path("/dev/zero"))


def test_stdin_is_read_and_a_closed_one_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(BUSY)))
    assert [f.code for f in classify_log(Path("-"))] == ["MASTER_PORT_COLLISION"]
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UsageError, match="stdin is closed"):
        classify_log(Path("-"))


def test_colours_do_not_hide_a_text_nor_its_rank_and_are_not_printed() -> None:
    line = "\x1b[36m[rank3]:\x1b[0m \x1b]0;title\x07address \x1b[1;31malready\x1b[0m in use"
    assert without_escapes(line.encode()) == b"[rank3]: address already in use"
    (found,) = classify_lines([line])
    assert found.ranks == (3,)
    assert found.evidence == ("line 1: [rank3]: address already in use",)


@pytest.mark.parametrize(
    "clock",
    [
        "2026-03-01T10:00:00.123Z ",
        "[2026-03-01 10:00:00,5] ",
        "10:00:00: ",
        "2026-03-01 10:00:00+0100 ",
    ],
)
def test_a_rank_behind_a_date_or_time_is_found(clock: str) -> None:
    assert ranks_of(f"{clock}[rank7]: address already in use") == {7}
    assert ranks_of(f"{clock}7: address already in use") == {7}


def test_a_text_far_along_a_line_is_found_and_shown() -> None:
    for at in (1990, 3990, 39_990, 60_000):
        (found,) = classify_lines([f"r5: {'x ' * (at // 2)}address already in use, sorry"])
        assert found.code == "MASTER_PORT_COLLISION"
        assert found.ranks == (5,)
        assert "address already in use, sorry" in found.evidence[0]
        assert len(found.evidence[0]) < 330
