"""Files of other tools' measurements, opened, told apart by content and read line by line."""

from __future__ import annotations

import codecs
import io
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from clusterlab.core.errors import UsageError
from clusterlab.formats import nccl_inspector, nccl_tests_json
from clusterlab.formats.measured.file import MeasuredFile
from clusterlab.formats.measured.json_files import read_inspector, read_nccl_tests_json
from clusterlab.formats.measured.log import read_log

_HEAD = 8192
_MAX_JSON = 256 << 20
_MAX_LINE = 1 << 20
_EXPECTED = "a log or a JSON file of measurements"


def read_measured(paths: Sequence[Path]) -> list[MeasuredFile]:
    """What each file holds; ``-`` is standard input. Raises UsageError for what cannot be read, or holds
    nothing that was measured.
    """
    return [_read(path) for path in paths]


def _read(path: Path) -> MeasuredFile:
    if str(path) == "-":
        return _read_stream(sys.stdin.buffer, "standard input")
    if path.exists() and not path.is_file() and not path.is_fifo():
        raise UsageError("not a regular file", where=str(path), expected=_EXPECTED)
    try:
        with path.open("rb") as stream:
            return _read_stream(stream, str(path))
    except OSError as error:
        raise UsageError(
            f"cannot be read: {error.strerror}", where=str(path), expected=_EXPECTED
        ) from None


def _read_stream(stream: BinaryIO, name: str) -> MeasuredFile:
    """Read ``stream`` by what its beginning is."""
    head = stream.read(_HEAD)
    if not head.strip():
        raise UsageError("empty", where=name, expected=_EXPECTED)
    encoding = "utf-8-sig"
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):  # what PowerShell's > writes
        encoding = "utf-16"
    elif b"\0" in head:
        raise UsageError("not text", where=name, expected=_EXPECTED)
    beginning = head.decode(encoding, errors="replace")
    lines = _lines(head, stream, encoding)
    if nccl_tests_json.recognise(beginning):
        return read_nccl_tests_json(_whole(lines, name), file=name)
    if nccl_inspector.recognise(beginning):
        return read_inspector(lines, file=name)
    return read_log(lines, file=name)


def _lines(head: bytes, stream: BinaryIO, encoding: str) -> Iterator[str]:
    """The lines of head and stream, without their ends; what is no text becomes U+FFFD. A line longer
    than 1 MiB counts as several.
    """
    whole = io.BufferedReader(_Joined(head, stream), 1 << 20)  # type: ignore[type-var]
    text = io.TextIOWrapper(whole, encoding=encoding, errors="replace")
    while line := text.readline(_MAX_LINE):
        yield line.rstrip("\n")
    text.detach()


class _Joined(io.RawIOBase):
    """Bytes already read, then the rest of a stream."""

    def __init__(self, head: bytes, stream: BinaryIO) -> None:
        self._head = head
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        data, self._head = self._head[: len(buffer)], self._head[len(buffer) :]
        data = data or self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _whole(lines: Iterator[str], name: str) -> str:
    parts, length = [], 0
    for line in lines:
        parts.append(line)
        length += len(line) + 1
        if length > _MAX_JSON:
            raise UsageError(
                f"more than {_MAX_JSON} characters", where=name, expected="one run's -J file"
            )
    return "\n".join(parts)
