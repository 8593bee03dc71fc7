"""Tagging a stream of bytes line by line, whatever its bytes are. Pure."""

from __future__ import annotations

import re

MOST_BYTES = 1 << 20
"""A longer line is cut here, so that output without a newline costs no memory."""

_LINE_START = re.compile(rb"(\n|\r(?!\n))(?=.)", re.DOTALL)


def tag_lines(tag: bytes, pending: bytes, chunk: bytes) -> tuple[bytes, bytes]:
    """(what to write now, what to keep): ``pending`` and ``chunk`` up to the last line end, tagged.

    A lone carriage return ends a line too (progress bars); it is kept, and so is every other byte.
    """
    data = pending + chunk
    cut = max(data.rfind(b"\n"), data.rfind(b"\r", 0, len(data) - 1)) + 1
    ready, rest = data[:cut], data[cut:]
    out = b""
    if ready and b"\r" in ready:
        out = tag + _LINE_START.sub(lambda end: end[1] + tag, ready)
    elif ready:
        out = tag + ready[:-1].replace(b"\n", b"\n" + tag) + ready[-1:]
    if len(rest) >= MOST_BYTES:
        out, rest = out + end_line(tag, rest), b""
    return out, rest


def end_line(tag: bytes, pending: bytes) -> bytes:
    """What was kept, as a line: the next writer to the same place begins at its own line's start."""
    if not pending:
        return b""
    return tag + pending + (b"" if pending.endswith(b"\r") else b"\n")


def pieces(data: bytes, most_bytes: int) -> list[bytes]:
    """``data`` cut after line ends into pieces of at most ``most_bytes``; a longer line is one piece."""
    found, start = [], 0
    while start < len(data):
        end = data.rfind(b"\n", start, start + most_bytes) + 1
        if not end:
            end = data.find(b"\n", start) + 1 or len(data)
        if len(data) - start <= most_bytes:
            end = len(data)
        found.append(data[start:end])
        start = end
    return found
