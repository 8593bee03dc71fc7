"""records.jsonl: one row a line, appended by one writer, readable after a crash at any byte."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

from clusterlab.core.errors import UsageError
from clusterlab.core.rows import SCHEMA_VERSION, Point, Row
from clusterlab.records.fast_rows import TOGETHER_BYTES, rows_of_lines
from clusterlab.records.files import OwnedDescriptor, storage_error
from clusterlab.records.reading import NOT_JSON, read_regular, too_many_digits
from clusterlab.records.schema import row_from_data, row_to_line

RECORDS = "records.jsonl"

_VERSION = re.compile(rb'\{"schema_version":(\d{1,9}),')


class RecordWriter(OwnedDescriptor):
    """Appends rows to ``path``; every row is on the disk when ``append`` returns.

    One write and one fsync a row. The fsync is what makes a finished row survive a node that loses
    power, and what makes NFS report a full disk at this row instead of at close; it costs 0.1 ms on a
    local ext4 (measured, docs/decisions/004) and a few ms on NFS, outside every timed region.
    """

    def __init__(self, path: Path) -> None:
        """Open ``path`` for appending. A torn last line is ended first, so no row is glued to it."""
        self.path = path
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            self._torn = not _ends_with_newline(self._fd)
        except OSError as error:
            raise storage_error(path, error) from error

    def append(self, row: Row) -> None:
        """Write ``row``. Raises StorageError when it cannot be stored; earlier rows stay readable."""
        line = row_to_line(row)
        if self._torn:
            line = b"\n" + line
        self._torn = True
        try:
            write_all(self._fd, line)
            os.fsync(self._fd)
        except OSError as error:
            raise storage_error(self.path, error) from error
        self._torn = False


def _ends_with_newline(fd: int) -> bool:
    size = os.fstat(fd).st_size
    return size == 0 or os.pread(fd, 1, size - 1) == b"\n"


def write_all(fd: int, data: bytes) -> None:
    """Write all of ``data``: a nearly full disk takes a part first and refuses the rest."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


@dataclass(frozen=True, slots=True)
class RecordsRead:
    """What a records file holds.

    ``truncated_tail``: the file ends in half a line (a crash, or a row being written right now).
    ``warnings`` name every line that could not be read. ``schemas``: the versions that its rows are of.
    """

    rows: tuple[Row, ...]
    truncated_tail: bool
    warnings: tuple[str, ...]
    schemas: frozenset[int] = frozenset()


def read_records(path: Path) -> RecordsRead:
    """All complete rows of ``path``: a run directory, or its records.jsonl.

    A file that is not there yet holds no rows. Half-written lines are skipped with a warning; a
    complete line that is not a row of this schema is a UsageError naming the line.
    """
    file = path / RECORDS if path.is_dir() else path
    try:
        content = read_regular(file)
    except FileNotFoundError:
        if not path.is_dir():
            raise UsageError("no such file", where=str(file)) from None
        return RecordsRead((), False, ())
    except OSError as error:
        raise UsageError(f"cannot read: {error.strerror}", where=str(file)) from None
    return parse_records(content, where=str(file))


def parse_records(content: bytes, *, where: str) -> RecordsRead:
    """The rows in ``content``; ``where`` names the file in messages."""
    found = _Found([], [], set())
    last = content.count(b"\n") + 1
    start, number = 0, 1
    while start < len(content):
        # Whole lines, as many as are parsed together, at least one; the last may be half a line.
        end = content.rfind(b"\n", start, start + TOGETHER_BYTES) + 1
        end = end or content.find(b"\n", start) + 1 or len(content)
        some = content[start:end]
        rows = rows_of_lines(some, where=where, first=number)
        if rows is None:
            _each(some.split(b"\n"), found, where=where, first=number, last=last)
        else:
            found.rows += rows
            found.schemas.add(SCHEMA_VERSION)
        start, number = end, number + some.count(b"\n")
    if found.foreign and not found.rows:
        raise UsageError(
            "holds no row that can be read", where=where, expected="one JSON object a line"
        )
    return RecordsRead(
        tuple(found.rows), found.truncated, tuple(found.warnings), frozenset(found.schemas)
    )


@dataclass(slots=True)
class _Found:
    rows: list[Row]
    warnings: list[str]
    schemas: set[int]
    truncated: bool = False
    foreign: int = 0


def _each(lines: Sequence[bytes], found: _Found, *, where: str, first: int, last: int) -> None:
    """Read ``lines`` one by one into ``found``; ``last`` is the number of the file's last line."""
    for number, line in enumerate(lines, start=first):
        if not line.strip(b"\0 \r\t"):
            continue
        try:
            data = json.loads(line)
        except NOT_JSON:  # bad JSON or bad UTF-8: half a line
            found.truncated = number == last
            found.foreign += not line.lstrip().startswith(b"{")
            place = "ends in half a line" if found.truncated else "half-written line skipped"
            found.warnings.append(f"{where}:{number}: {place} (a crash or a full disk)")
            continue
        except ValueError:
            raise too_many_digits(f"{where}:{number}") from None
        found.rows.append(row_from_data(data, where=f"{where}:{number}"))
        found.schemas.add(data["schema_version"])


def schema_problems(path: Path) -> tuple[str, ...]:
    """What is wrong where one file holds rows of several schemas: two versions of clusterlab wrote it."""
    versions: set[Any] = set()
    for line in read_regular(path).splitlines() if path.is_file() else ():
        usual = _VERSION.match(line)
        if usual is not None and line.endswith(b"}"):
            versions.add(int(usual[1]))
            continue
        try:
            data = json.loads(line)
        except (ValueError, RecursionError):  # half a line: the reader has warned of it
            continue
        if isinstance(data, dict):
            versions.add(data.get("schema_version"))
    return mixed_schemas(versions)


def mixed_schemas(versions: Collection[Any]) -> tuple[str, ...]:
    """As ``schema_problems``, of the versions that were read."""
    if len(versions) < 2:
        return ()
    listed = " and ".join(str(version) for version in sorted(versions, key=str))
    return (f"its rows are of schema versions {listed}: two versions of clusterlab wrote it",)


@dataclass(frozen=True, slots=True)
class LatestRows:
    """One row per point. ``superseded`` counts the older rows of points measured more than once."""

    rows: tuple[Row, ...]
    superseded: int


_point_key = attrgetter("backend", *Point.__dataclass_fields__)


def latest_rows(rows: Iterable[Row]) -> LatestRows:
    """The latest row of every point: highest attempt, then last written; in order of first sight."""
    latest: dict[tuple[object, ...], Row] = {}
    total = 0
    for row in rows:
        total += 1
        key = _point_key(row)
        known = latest.get(key)
        if known is None or row.attempt >= known.attempt:
            latest[key] = row
    return LatestRows(tuple(latest.values()), total - len(latest))
