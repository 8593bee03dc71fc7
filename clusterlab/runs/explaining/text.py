"""The tables of a CSV file, or of what nccl-tests and NCCL print."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from clusterlab.core.errors import UsageError
from clusterlab.cost.scoring.asked import Asked
from clusterlab.cost.scoring.measured import (
    MAX_FILE_BYTES,
    MeasuredPoint,
    measured_points,
    table_name,
)
from clusterlab.formats.measured.csv_table import name_tables, scorable, to_csv
from clusterlab.formats.measured.plausible import named
from clusterlab.formats.measured_csv import REQUIRED, CsvRow, parse_measured
from clusterlab.runs.comparing.sides_of_files import left_out
from clusterlab.runs.explaining.table import Table, by_kind, part_name
from clusterlab.runs.foreign import read_measured
from clusterlab.topology.fabric import Fabric


def tables_of_file(
    path: Path, fabric: Fabric | None, asked: Asked
) -> tuple[list[Table], list[str]]:
    """The tables in ``path`` (- is standard input), and notes. Raises UsageError where there are none."""
    name = "standard input" if str(path) == "-" else str(path)
    data = _content(path, name)
    text = _csv_text(path, name, data)
    if text is not None:
        return tables_of_rows(parse_measured(text, file=name), name, fabric, asked)
    return _foreign(path, fabric, asked, data)


def tables_of_rows(
    rows: Sequence[CsvRow],
    name: str,
    fabric: Fabric | None,
    asked: Asked,
    wrong: dict[str, int] | None = None,
) -> tuple[list[Table], list[str]]:
    """All rows, whatever anybody said of their health."""
    if not rows:
        raise UsageError("no rows", where=name, expected="rows below the header")
    measured = measured_points(
        [row if row.health is None else replace(row, health=None) for row in rows], file=name
    )
    points: dict[str, list[MeasuredPoint]] = {}
    counts: dict[str, int] = {}
    for row in rows:
        name_of_row = table_name(row)
        points.setdefault(name_of_row, [])
        counts[name_of_row] = counts.get(name_of_row, 0) + 1
    by_line = {row.line: table_name(row) for row in rows}
    left_out: dict[str, int] = {}
    for line, _ in measured.unusable:
        left_out[by_line[line]] = left_out.get(by_line[line], 0) + 1
    for point in measured.points:
        points.setdefault(point.table, []).append(point)
    tables = []
    for key, own in points.items():
        if not own:
            empty = f"none of {counts[key]} rows has a time or a bandwidth that a measurement gives"
            tables.append(Table(key, (), empty=empty, wrong=(wrong or {}).get(key, 0)))
        lost = left_out.get(key, 0)
        kinds = by_kind(own)
        tables += [
            Table(
                part_name(key, kind, list(kinds)),
                tuple(part),
                within=key,
                fabric=fabric,
                asked=asked,
                wrong=(wrong or {}).get(key, 0),
                missing=f"{lost} of {counts[key]} rows hold no measurement" if lost else "",
            )
            for kind, part in kinds.items()
        ]
    notes = []
    if measured.no_time:
        notes.append(f"{measured.no_time} rows without a time, or of size 0, left out")
    if measured.unusable:
        notes.append(
            f"{len(measured.unusable)} rows with figures that nothing measures left out: "
            f"{named(measured.unusable)}"
        )
    return tables, notes


def _content(path: Path, name: str) -> bytes:
    """All of it, once: standard input cannot be read again."""
    try:
        if str(path) == "-":
            data = sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
        elif path.exists() and not path.is_file() and not path.is_fifo():
            raise UsageError("not a regular file", where=name, expected="a file or a run directory")
        else:
            with path.open("rb") as stream:
                data = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise UsageError(
            f"cannot be read: {error.strerror}", where=name, expected="a CSV file, a log or a run"
        ) from None
    if len(data) > MAX_FILE_BYTES:
        raise UsageError("too large", where=name, expected=f"at most {MAX_FILE_BYTES} B")
    return data


def _csv_text(path: Path, name: str, data: bytes) -> str | None:
    """The text of a CSV file of measurements; None for anything else."""
    head = data[:4096].decode("utf-8", errors="replace").removeprefix("\ufeff").lstrip()
    first = head.splitlines()[0] if head else ""
    is_csv = "," in first and bool({c.strip() for c in first.split(",")} & set(REQUIRED))
    if not is_csv and path.suffix != ".csv":
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError(
            "not UTF-8 text", where=name, expected="a CSV file", fix="save it as UTF-8"
        ) from None


def _foreign(
    path: Path, fabric: Fabric | None, asked: Asked, data: bytes
) -> tuple[list[Table], list[str]]:
    """What ``clusterlab import`` reads, as it would write it."""
    found = read_measured([path], stdin=data)
    if found.refused:
        raise found.refused[0]
    rows = [row for file in found.files for row in file.rows]
    kept = [row for row in rows if scorable(row)]
    if not kept:
        raise UsageError(
            f"none of {len(rows)} rows says collective, ranks, size and time",
            where=str(path),
            expected="rows that can be compared",
            fix="clusterlab import FILE --collective … --ranks … -o FILE.csv, then why FILE.csv",
        )
    nameless = next((row for row in kept if not row.system and not row.gpu), None)
    if nameless is not None:  # before hundreds of thousands of rows are looked at
        raise UsageError(
            f"table {nameless.table}: neither system nor gpu is said",
            where=f"{path}:{nameless.line}",
            expected="a list of devices before each table",
            fix="clusterlab import FILE --gpu NAME -o FILE.csv, then why FILE.csv",
        )
    names = name_tables(kept, prefix=None)
    wrong: dict[str, int] = {}
    for row in kept:
        key = names[row.source, row.table]
        wrong[key] = wrong.get(key, 0) + (row.wrong or 0)
    text = to_csv(kept, table_ids=names)
    tables, notes = tables_of_rows(
        parse_measured(text, file=str(path)), str(path), fabric, asked, wrong
    )
    return tables, [*notes, *(note for file in found.files for note in left_out(file.findings))]
