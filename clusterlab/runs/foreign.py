"""Files of other tools' measurements, opened, told apart by content and read line by line."""

from __future__ import annotations

import codecs
import hashlib
import io
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from clusterlab.core.errors import UsageError
from clusterlab.core.findings import most_severe_first
from clusterlab.formats import nccl_inspector, nccl_tests_json
from clusterlab.formats.measured.contradicted import contradicted
from clusterlab.formats.measured.file import Given, MeasuredFile, with_given
from clusterlab.formats.measured.json_files import read_inspector, read_nccl_tests_json
from clusterlab.formats.measured.log import read_log

_HEAD = 8192
_MAX_JSON = 256 << 20
_MAX_LINE = 1 << 20
_EXPECTED = "a log or a JSON file of measurements"


@dataclass(frozen=True, slots=True)
class Foreign:
    """``files`` read; ``refused``: why others could not be. ``repeats``: names of files that hold what an
    earlier one does, and that one's; they are read once.
    """

    files: tuple[MeasuredFile, ...]
    refused: tuple[UsageError, ...]
    repeats: tuple[tuple[str, str], ...]


def read_measured(
    paths: Sequence[Path], given: Given | None = None, *, stdin: bytes | None = None
) -> Foreign:
    """What each file holds, with what the user says beside it; ``-`` is standard input, or ``stdin`` where
    somebody has read that already.

    One that cannot be read, or holds nothing that was measured, keeps nobody from the others.
    """
    files: list[MeasuredFile] = []
    refused: list[UsageError] = []
    repeats: list[tuple[str, str]] = []
    seen: dict[str, str] = {}
    for path in paths:
        name = "standard input" if str(path) == "-" else str(path)
        place = "-" if str(path) == "-" else os.path.realpath(path)
        try:
            if place in seen:  # a pipe cannot be read again
                repeats.append((name, seen[place]))
                continue
            file, content = _read(path, name, stdin)
            if content in seen:
                repeats.append((name, seen[content]))
                continue
            files.append(_with_given(file, given or Given()))
            seen[place] = seen[content] = name
        except UsageError as error:
            refused.append(error)
    return Foreign(tuple(files), tuple(refused), tuple(repeats))


def _with_given(file: MeasuredFile, given: Given) -> MeasuredFile:
    """``file`` with what the user says; what it says otherwise is a finding."""
    filled = with_given(file, given)
    findings = most_severe_first([*filled.findings, *contradicted(file, given)])
    return replace(filled, findings=tuple(findings))


def _read(path: Path, name: str, stdin: bytes | None) -> tuple[MeasuredFile, str]:
    """A file, and the digest of its content."""
    if str(path) == "-":
        return _read_stream(sys.stdin.buffer if stdin is None else io.BytesIO(stdin), name)
    if path.exists() and not path.is_file() and not path.is_fifo():
        raise UsageError("not a regular file", where=name, expected=_EXPECTED)
    try:
        with path.open("rb") as stream:
            return _read_stream(stream, name)
    except OSError as error:
        raise UsageError(
            f"cannot be read: {error.strerror}", where=name, expected=_EXPECTED
        ) from None


def _read_stream(stream: BinaryIO, name: str) -> tuple[MeasuredFile, str]:
    joined = _Joined(stream.read(_HEAD), stream)
    file = _read_joined(joined, name)
    return file, joined.digest.hexdigest()


def _read_joined(joined: _Joined, name: str) -> MeasuredFile:
    """Read a stream by what its beginning is."""
    head = joined.head
    if not head.strip():
        raise UsageError("empty", where=name, expected=_EXPECTED)
    encoding = "utf-8-sig"
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):  # what PowerShell's > writes
        encoding = "utf-16"
    elif b"\0" in head:
        raise UsageError("not text", where=name, expected=_EXPECTED)
    beginning = head.decode(encoding, errors="replace")
    lines = _lines(joined, encoding)
    if nccl_tests_json.recognise(beginning):
        return read_nccl_tests_json(_whole(lines, name), file=name)
    if nccl_inspector.recognise(beginning):
        return read_inspector(lines, file=name)
    return read_log(lines, file=name)


def _lines(joined: _Joined, encoding: str) -> Iterator[str]:
    """The lines of a stream, without their ends; what is no text becomes U+FFFD. A line longer
    than 1 MiB counts as several.
    """
    whole = io.BufferedReader(joined, 1 << 20)  # type: ignore[type-var]
    text = io.TextIOWrapper(whole, encoding=encoding, errors="replace")
    while line := text.readline(_MAX_LINE):
        yield line.rstrip("\n")
    text.detach()


class _Joined(io.RawIOBase):
    """Bytes already read, then the rest of a stream; ``digest`` is of all that was read."""

    def __init__(self, head: bytes, stream: BinaryIO) -> None:
        self.head = head
        self.digest = hashlib.sha256(head)
        self._left = head
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        data, self._left = self._left[: len(buffer)], self._left[len(buffer) :]
        if not data:
            data = self._stream.read(len(buffer))
            self.digest.update(data)
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
