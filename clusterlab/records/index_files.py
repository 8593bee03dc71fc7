"""The files of an index over many runs: one list of runs, replaced by renames, and tables of rows.

``runs.json`` says of every run what it holds, how its files looked when they were read, and where its rows
are: in which ``rows-<random>.npz``, from which row on, how many. Tables of rows never change; new runs bring
new ones, and many small ones are joined. All of it can be made again from the run directories, so whatever
is torn, of another format, or lost to a writer on another host is simply read again from there.
"""

from __future__ import annotations

import json
import re
import secrets
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clusterlab.core.errors import UsageError
from clusterlab.core.rows import SCHEMA_VERSION
from clusterlab.records.files import storage_error, write_atomic
from clusterlab.records.reading import read_regular

LIST = "runs.json"
FORMAT = 1
"""Goes up when the meaning of anything in these files changes; an index of another format is made again."""

KEPT_S = 3600.0
"""So long a table that is no longer needed stays: somebody may just be reading it."""
LOST_S = 86400.0
"""A table that no list names after so long is of a writer that died or was overtaken."""

Stamp = tuple[int, ...]
_TABLE = re.compile(r"rows-[0-9a-f]{16}\.npz")


@dataclass(frozen=True, slots=True)
class Entry:
    """One run. ``stamp``: how its files looked; ``settled``: they had not just been written, so that the same
    stamp means the same content. ``said`` are the plain values of the run; its ``rows`` rows begin at
    ``start`` of the table ``table`` (None: it has none).
    """

    stamp: Stamp
    settled: bool
    said: Mapping[str, Any]
    table: str | None = None
    start: int = 0
    rows: int = 0


@dataclass(slots=True)
class RunList:
    """The runs of an index. ``sizes``: the rows of each table, those of runs that changed or are gone
    included. ``retired``: tables that are not needed any more, and since when (s).
    """

    entries: dict[str, Entry] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    retired: dict[str, float] = field(default_factory=dict)

    def tables(self) -> dict[str, list[str]]:
        """The names of the runs in each table, in the order of their rows."""
        found: dict[str, list[str]] = {}
        for name, entry in self.entries.items():
            if entry.table is not None and entry.rows:
                found.setdefault(entry.table, []).append(name)
        for names in found.values():
            names.sort(key=lambda name: self.entries[name].start)
        return found


def new_table_name() -> str:
    """Of a table of rows; nobody else makes the same."""
    return f"rows-{secrets.token_hex(8)}.npz"


def write_list(folder: Path, runs: RunList, kinds: Mapping[str, str]) -> None:
    """Replace the list; ``kinds`` are the tables' columns. Raises StorageError."""
    body = json.dumps(_to_json(runs), separators=(",", ":")).encode()
    head = json.dumps({**_head(kinds), "crc32": zlib.crc32(body)}).encode()
    # A name of its own: processes of two hosts may have the same number, which write_atomic goes by.
    scratch = folder / f".{secrets.token_hex(8)}.tmp"
    write_atomic(scratch, head + b"\n" + body + b"\n")
    try:
        scratch.replace(folder / LIST)
    except OSError as error:
        scratch.unlink(missing_ok=True)
        raise storage_error(folder / LIST, error) from error


def _head(kinds: Mapping[str, str]) -> dict[str, Any]:
    return {"clusterlab_index": FORMAT, "schema": SCHEMA_VERSION, "columns": dict(kinds)}


def read_list(folder: Path, kinds: Mapping[str, str]) -> tuple[RunList | None, str | None]:
    """The list, or None and why it cannot be used: nothing there is no reason, anything else is."""
    try:
        content = read_regular(folder / LIST)
    except FileNotFoundError:
        return None, None
    except (OSError, UsageError) as error:
        why = error.strerror if isinstance(error, OSError) else error.message
        return None, f"cannot be read ({why})"
    head, _, rest = content.partition(b"\n")
    try:
        said = json.loads(head)
        body = rest.removesuffix(b"\n")
        if said.pop("crc32") != zlib.crc32(body):
            return None, "is damaged"
        if said != _head(kinds):
            return None, "is of another version of clusterlab"
        return _from_json(json.loads(body)), None
    except (ValueError, KeyError, TypeError, IndexError, RecursionError, AttributeError):
        return None, "is damaged"


def _to_json(runs: RunList) -> dict[str, Any]:
    """By column: the same values come again and again."""
    names = list(runs.entries)
    entries = list(runs.entries.values())
    keys = list(dict.fromkeys(key for entry in entries for key in entry.said))
    return {
        "names": names,
        "stamps": [list(entry.stamp) for entry in entries],
        "settled": [entry.settled for entry in entries],
        "tables": _coded([entry.table for entry in entries]),
        "starts": [entry.start for entry in entries],
        "rows": [entry.rows for entry in entries],
        "said": {key: _coded([entry.said.get(key) for entry in entries]) for key in keys},
        "sizes": runs.sizes,
        "retired": runs.retired,
    }


def _coded(values: list[Any]) -> dict[str, list[Any]]:
    known: dict[str, int] = {}
    codes = [known.setdefault(json.dumps(value), len(known)) for value in values]
    return {"values": [json.loads(text) for text in known], "codes": codes}


def _decoded(data: Mapping[str, Any]) -> list[Any]:
    values = data["values"]
    return [values[code] for code in data["codes"]]


def _from_json(data: Mapping[str, Any]) -> RunList:
    """Raises what damaged data makes: ValueError, KeyError, TypeError, IndexError, AttributeError."""
    if not all(_TABLE.fullmatch(name) for name in data["sizes"]):
        raise ValueError("no name of a table")  # it becomes a path
    keys = list(data["said"])
    columns = zip(*(_decoded(data["said"][key]) for key in keys), strict=True)
    entries = zip(
        data["names"],
        data["stamps"],
        data["settled"],
        _decoded(data["tables"]),
        data["starts"],
        data["rows"],
        columns if keys else ((),) * len(data["names"]),
        strict=True,
    )
    runs = RunList(
        {
            name: Entry(
                tuple(stamp), settled, dict(zip(keys, said, strict=True)), table, start, rows
            )
            for name, stamp, settled, table, start, rows, said in entries
        },
        dict(data["sizes"]),
        dict(data["retired"]),
    )
    for entry in runs.entries.values():
        if entry.table is not None and not 0 <= entry.start <= runs.sizes[entry.table] - entry.rows:
            raise ValueError("rows that the table does not have")
    return runs


def remove_old(folder: Path, runs: RunList) -> None:
    """Remove tables that nobody can need. What cannot be removed stays."""
    needed = runs.tables()
    now = time.time()
    for name in [name for name, since in runs.retired.items() if now - since > KEPT_S]:
        del runs.retired[name]
        if name not in needed and _TABLE.fullmatch(name):
            with suppress(OSError):
                (folder / name).unlink(missing_ok=True)
    for file in _tables_of(folder):
        with suppress(OSError):
            known = file.name in needed or file.name in runs.retired
            if not known and now - file.stat().st_mtime > LOST_S:
                file.unlink(missing_ok=True)


def _tables_of(folder: Path) -> Iterator[Path]:
    yield from folder.glob("rows-*.npz")
    yield from folder.glob(".*.tmp")
