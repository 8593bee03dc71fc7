"""Line files of a run beside records.jsonl: one kind of small record each, one writer, append-only."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from clusterlab.core.errors import UsageError
from clusterlab.core.overlap import FIGURES, Figure, Overlap
from clusterlab.core.soaking import SoakPass
from clusterlab.core.stepping import ExpertLoad, StepLine
from clusterlab.records.amounts import check_amounts
from clusterlab.records.files import OwnedDescriptor, check_schema, storage_error
from clusterlab.records.reading import NOT_JSON, read_regular, too_many_digits
from clusterlab.records.store import write_all
from clusterlab.records.strict import check_value, checked

OVERLAP = "overlap.jsonl"
SOAK = "soak.jsonl"
STEPS = "steps.jsonl"
EXPERTS = "experts.jsonl"

LINES_SCHEMA = 1
"""Of all these files."""

_BEGIN = b'{"schema_version":'
"""Of every line that was ever begun here."""

Line = Overlap | SoakPass | StepLine | ExpertLoad
_Kind = TypeVar("_Kind", Overlap, SoakPass, StepLine, ExpertLoad)


class LineWriter(OwnedDescriptor):
    """Appends records to ``path``; each is on the disk when ``append`` returns (see RecordWriter)."""

    def __init__(self, path: Path) -> None:
        """Open ``path`` for appending. Half a line that a crash left is ended first."""
        self.path = path
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            size = os.fstat(self._fd).st_size
            self._torn = size > 0 and os.pread(self._fd, 1, size - 1) != b"\n"
        except OSError as error:
            raise storage_error(path, error) from error

    def append(self, record: Line) -> None:
        """Write ``record``. Raises StorageError when it cannot be stored."""
        self.append_all([record])

    def append_all(self, records: Sequence[Line]) -> None:
        """Write ``records`` with one write and one fsync."""
        lines = b"".join(
            json.dumps(
                {"schema_version": LINES_SCHEMA, **r.to_json()}, separators=(",", ":")
            ).encode()
            + b"\n"
            for r in records
        )
        torn, self._torn = self._torn, True
        try:
            write_all(self._fd, b"\n" + lines if torn else lines)
            os.fsync(self._fd)
        except OSError as error:
            raise storage_error(self.path, error) from error
        self._torn = False


@dataclass(frozen=True, slots=True)
class Lines:
    """The records of these files of a run, and a warning for every line that could not be read."""

    overlaps: tuple[Overlap, ...]
    passes: tuple[SoakPass, ...]
    warnings: tuple[str, ...]
    steps: tuple[StepLine, ...] = ()
    experts: tuple[ExpertLoad, ...] = ()


def read_lines(folder: Path) -> Lines:
    """What the run in ``folder`` holds beside its rows. Raises UsageError for a complete line of another
    schema and for one that is no line of ours; of overlaps and steps measured again the latest counts.
    """
    warnings: list[str] = []
    overlaps = _read(folder / OVERLAP, Overlap, warnings)
    passes = _read(folder / SOAK, SoakPass, warnings)
    latest = {overlap.key: overlap for overlap in overlaps}
    steps = {line.step: line for line in _read(folder / STEPS, StepLine, warnings)}
    loads = {load.step: load for load in _read(folder / EXPERTS, ExpertLoad, warnings)}
    return Lines(
        overlaps=tuple(latest.values()),
        passes=tuple(passes),
        warnings=tuple(warnings),
        steps=tuple(steps[number] for number in sorted(steps)),
        experts=tuple(loads[number] for number in sorted(loads)),
    )


def _read(file: Path, kind: type[_Kind], warnings: list[str]) -> list[_Kind]:
    try:
        content = read_regular(file)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UsageError(f"cannot read: {error.strerror}", where=str(file)) from None
    found = []
    lines = content.split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip(b"\0 \r\t"):
            continue
        where = f"{file}:{number}"
        try:
            data: Any = json.loads(line)
        except NOT_JSON:
            # Only what nothing ended, or what a later attempt ended before it went on, can be half a line.
            if number < len(lines) and not _begun_here(line):
                raise UsageError(
                    f"not a line of this file: {line!r:.60}", where=where, expected="a JSON object",
                    fix="restore the file, or remove the line: only a crash's half-written line is skipped",
                ) from None  # fmt: skip
            warnings.append(f"{where}: half-written line skipped (a crash or a full disk)")
            continue
        except ValueError:
            raise too_many_digits(where) from None
        found.append(line_from_data(data, kind, where=where))
    return found


def line_from_data(data: Any, kind: type[_Kind], *, where: str) -> _Kind:
    """The record in the parsed line ``data``. Raises UsageError naming ``where`` and the field."""
    if not isinstance(data, Mapping):
        raise UsageError("not a mapping", where=where)
    check_schema(data.get("schema_version"), LINES_SCHEMA, where=where)
    fields = checked(data, kind, where=where)
    if kind is Overlap:
        fields |= {name: _figure(fields[name], f"{where}: {name}") for name in FIGURES}
    if kind in (StepLine, ExpertLoad):
        check_amounts(fields, where=where)
    if kind is StepLine:
        for name, us in fields["exposed_us"].items():
            check_value(f"exposed_us: {name}", us, (float,), where=where)
    if kind is ExpertLoad:
        fields["tokens"] = _counts(fields["tokens"], f"{where}: tokens")
        name = f"{where}: rows_bytes"
        fields["rows_bytes"] = tuple(_counts(row, name) for row in fields["rows_bytes"])
    return kind(**fields)


def _begun_here(line: bytes) -> bool:
    """Whether ``line`` is the first part of one that ``LineWriter`` writes; a lost write may end in zeros."""
    line = line.rstrip(b"\0")
    whole = line.isascii() and line.decode("ascii", "replace").isprintable()
    return whole and (line.startswith(_BEGIN) or _BEGIN.startswith(line)) and line[-1:] != b"}"


def _counts(data: Any, where: str) -> tuple[int, ...]:
    check_value("counts", data, (list,), where=where)
    return tuple(check_value("count", one, (int,), where=where) for one in data)


def _figure(data: Any, where: str) -> Figure:
    return Figure(**checked(data, Figure, where=where))
