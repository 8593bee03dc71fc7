"""A log's bytes to numbered lines, whatever it is: a file, a pipe, progress bars, holes, endless lines."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import IO

from clusterlab.core.errors import UsageError

MAX_LOG_BYTES = 1 << 30
MAX_LINE_BYTES = 1 << 16
_BLOCK_BYTES = 1 << 18
_HEAD_BYTES = 4096

# ECMA-48: CSI … final byte (colours, cursor), OSC … BEL (titles, links), two-character escapes.
_ESCAPES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


def numbered_lines(path: Path, long_lines: list[int]) -> Iterator[tuple[int, bytes]]:
    """(line number from 1, text) of the log at ``path``, or of stdin for ``-``, read once, front to end.

    A carriage return parts a line in two of one number. Of a line longer than MAX_LINE_BYTES its start is
    given, and its number is added to ``long_lines``. Raises UsageError where it is no text, or too long;
    OSError.
    """
    if str(path) != "-" and path.is_file() and path.stat().st_size > MAX_LOG_BYTES:
        raise _too_long(path)
    if str(path) == "-" and sys.stdin is None:
        raise UsageError("stdin is closed", where="--log -", expected="an error log on stdin")
    source = nullcontext(sys.stdin.buffer) if str(path) == "-" else path.open("rb")
    with source as stream:
        yield from _lines(stream, path, long_lines)


def _lines(stream: IO[bytes], path: Path, long_lines: list[int]) -> Iterator[tuple[int, bytes]]:
    number, total, rest = 1, 0, b""
    while block := stream.read(_BLOCK_BYTES):
        if total < _HEAD_BYTES and b"\0" in block[: _HEAD_BYTES - total]:
            raise UsageError("not a text file", where=str(path), expected="an error log")
        total += len(block)
        if total > MAX_LOG_BYTES:
            raise _too_long(path)
        pieces = (rest + block).splitlines(keepends=True)
        rest = b"" if pieces[-1].endswith(b"\n") else pieces.pop()
        for piece in pieces:
            yield number, _bounded(piece, number, long_lines)
            number += piece.endswith(b"\n")
        if len(rest) > MAX_LINE_BYTES:
            rest = rest[: MAX_LINE_BYTES + 1]  # one too many, so that it counts as long
    if rest:
        yield number, _bounded(rest, number, long_lines)


def _bounded(piece: bytes, number: int, long_lines: list[int]) -> bytes:
    text = piece.rstrip(b"\r\n")
    if len(text) > MAX_LINE_BYTES:
        long_lines.append(number)
        return text[:MAX_LINE_BYTES]
    return text


def without_escapes(text: bytes) -> bytes:
    """``text`` without terminals' colours and other escape sequences."""
    return _ESCAPES.sub(b"", text) if b"\x1b" in text else text


def _too_long(path: Path) -> UsageError:
    return UsageError(
        "too much to read",
        where=str(path),
        expected=f"at most {MAX_LOG_BYTES} bytes",
        fix=f"tail -n 100000 {path} | clusterlab doctor --log -",
    )
