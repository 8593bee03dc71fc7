"""An index over the run directories of one folder: only new and changed ones are read.

Writers on several hosts may do so at once. Each writes tables of its own and replaces the list of runs, into
which it takes what another has added meanwhile; what the last writer did not see is read again by the next.
Where the index cannot be written, everything is done in memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from clusterlab.core.errors import StorageError
from clusterlab.records.columns import DamagedError, Table, joined, picked, read_table, write_table
from clusterlab.records.index_files import (
    Entry,
    RunList,
    new_table_name,
    read_list,
    remove_old,
    write_list,
)
from clusterlab.records.index_scan import SHORT, run_names, stamp_of

if TYPE_CHECKING:
    from clusterlab.records.columns import Array

FOLDER = ".index"
TABLE_ROWS = 1 << 18
"""A table is written when so many rows are together: 25 MB."""
SMALL_ROWS, MOST_SMALL = 1 << 16, 16
"""Tables below this are joined when there are more than so many."""
PUBLISHED_EVERY_S = 60.0
"""Of a long reading that somebody ends, the rest is left."""
DEAD_SHARE = 0.5
"""A table is written anew when more of it than this is of runs that changed or are gone."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Some runs that were read: their entries without a place, and their rows one after the other."""

    entries: Sequence[tuple[str, Entry]]
    table: Table


class Reader(Protocol):
    """What reads runs: ``names`` of folders in ``root``; runs that are gone are left out."""

    def __call__(self, root: Path, names: Sequence[str]) -> Iterator[Batch]:
        """The runs in batches of bounded size."""
        ...


@dataclass(slots=True)
class Index:
    """The runs of a folder as they are now. ``read`` of them were read for it; ``notes`` say what is odd."""

    folder: Path
    kinds: Mapping[str, str]
    runs: RunList
    read: int = 0
    notes: list[str] = field(default_factory=list)
    memory: dict[str, Table] = field(default_factory=dict)

    def columns(self, table: str, names: Sequence[str]) -> Table:
        """Some columns of a table. Raises DamagedError."""
        held = self.memory.get(table)
        if held is not None:
            return Table(held.rows, {n: held.arrays[n] for n in names}, held.texts)
        found = read_table(self.folder / table, self.kinds, names)
        if found.rows != self.runs.sizes.get(table):
            raise DamagedError(self.folder / table, "has other rows than when it was written")
        return found

    def run_of_rows(self, table: str, names: Sequence[str]) -> Array:
        """For every row of ``table`` which of ``names`` (runs, by place in the list) it is of, else -1."""
        import numpy as np

        found = np.full(self.runs.sizes[table], -1, dtype=np.int32)
        for i, name in enumerate(names):
            entry = self.runs.entries[name]
            found[entry.start : entry.start + entry.rows] = i
        return found


def refresh(
    root: Path,
    folder: Path,
    kinds: Mapping[str, str],
    read: Reader,
    *,
    rebuild: bool = False,
    distrusted: frozenset[str] = frozenset(),
) -> Index:
    """The index of ``root`` in ``folder``, brought up to date. ``distrusted`` tables are not used again.

    Raises UsageError where ``root`` cannot be read.
    """
    known, why = read_list(folder, kinds)
    index = Index(folder, kinds, known or RunList())
    if rebuild:
        index.runs = RunList(retired=dict.fromkeys(index.runs.sizes, time.time()))
        known = None
    elif why is not None:
        index.notes.append(f"the index in {folder} {why}: it is made again")
    before = set(index.runs.entries)
    index.runs.entries = {
        name: entry for name, entry in index.runs.entries.items() if entry.table not in distrusted
    }
    stamps, stale = _stale(root, index.runs)
    index.runs.entries = {n: e for n, e in index.runs.entries.items() if n in stamps}
    changed = bool(stale) or before != set(index.runs.entries) or (known is None and bool(stamps))
    tables, published = _Tables(index), time.monotonic()
    for batch in read(root, stale):
        tables.add(batch)
        if time.monotonic() - published > PUBLISHED_EVERY_S:
            tables.flush()
            _publish(index, before, distrusted, rebuild=rebuild)
            published = time.monotonic()
    tables.flush()
    if changed:
        _publish(index, before, distrusted, rebuild=rebuild)
    return index


def _stale(root: Path, runs: RunList) -> tuple[set[str], list[str]]:
    """The runs that there are, and those of them to read: new, changed, or read too soon after a change."""
    there: set[str] = set()
    stale = []
    for name in run_names(root):
        entry = runs.entries.get(name)
        short = entry is not None and len(entry.stamp) == SHORT
        stamp = stamp_of(f"{root}/{name}", short=short)
        if stamp is None:
            continue
        there.add(name)
        if entry is None or not entry.settled or entry.stamp != stamp:
            stale.append(name)
    return there, stale


class _Tables:
    """Gathers batches, and makes a table of every TABLE_ROWS rows: in a file, or in memory without one."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._parts: list[Batch] = []
        self._rows = 0

    def add(self, batch: Batch) -> None:
        self._parts.append(batch)
        self._rows += batch.table.rows
        self._index.read += len(batch.entries)
        if self._rows >= TABLE_ROWS:
            self.flush()

    def flush(self) -> None:
        if not self._parts:
            return
        name, start = new_table_name(), 0
        table = joined(self._index.kinds, [part.table for part in self._parts])
        for run, entry in (pair for part in self._parts for pair in part.entries):
            self._index.runs.entries[run] = Entry(
                entry.stamp,
                entry.settled,
                entry.said,
                name if entry.rows else None,
                start,
                entry.rows,
            )
            start += entry.rows
        if table.rows:
            _keep(self._index, name, table)
        self._parts, self._rows = [], 0


def _keep(index: Index, name: str, table: Table) -> None:
    index.runs.sizes[name] = table.rows
    try:
        index.folder.mkdir(parents=True, exist_ok=True)
        write_table(index.folder / name, table)
    except (OSError, StorageError) as error:
        index.memory[name] = table
        _cannot(index, error)


def _cannot(index: Index, error: Exception) -> None:
    note = (
        f"no index is kept: {error}; every run is read each time (--index DIR keeps one elsewhere)"
    )
    if not any(known.startswith("no index is kept") for known in index.notes):
        index.notes.append(note)


def _publish(index: Index, before: set[str], distrusted: frozenset[str], *, rebuild: bool) -> None:
    """Write the list, with what others have added since it was read; only what stands in files."""
    theirs = None if rebuild else read_list(index.folder, index.kinds)[0]
    if theirs is not None:
        for name, entry in theirs.entries.items():
            ours = name in before or name in index.runs.entries
            if not ours and entry.table not in distrusted:
                index.runs.entries[name] = entry
        for name, rows in theirs.sizes.items():
            index.runs.sizes.setdefault(name, rows)
        index.runs.retired = {**theirs.retired, **index.runs.retired}
    if index.memory:
        return
    try:
        index.folder.mkdir(parents=True, exist_ok=True)
        _join_small(index)
        if index.memory:
            return
        needed = index.runs.tables()
        index.runs.retired = {n: t for n, t in index.runs.retired.items() if n not in needed}
        now = time.time()
        for name in [name for name in index.runs.sizes if name not in needed]:
            del index.runs.sizes[name]
            index.runs.retired.setdefault(name, now)
        remove_old(index.folder, index.runs)
        write_list(index.folder, index.runs, index.kinds)
    except (OSError, StorageError) as error:
        _cannot(index, error)


def _join_small(index: Index) -> None:
    """Join tables where there are too many small ones, or where most of one is not needed."""
    tables = index.runs.tables()
    live = {
        name: sum(index.runs.entries[run].rows for run in runs) for name, runs in tables.items()
    }
    old = {n for n, rows in live.items() if rows < (1 - DEAD_SHARE) * index.runs.sizes.get(n, rows)}
    small = {name for name, rows in live.items() if rows < SMALL_ROWS}
    if not old and len(small) <= MOST_SMALL:
        return
    chosen = old | (small if len(small) > MOST_SMALL else set())
    tables_again = _Tables(index)
    read_before = index.read
    for name in sorted(chosen):
        runs = tables[name]
        try:
            whole = index.columns(name, list(index.kinds))
        except DamagedError:  # the next query finds out, and reads its runs again
            continue
        mask = index.run_of_rows(name, runs) >= 0
        part = picked(whole, mask) if not mask.all() else whole
        tables_again.add(Batch([(run, index.runs.entries[run]) for run in runs], part))
    tables_again.flush()
    index.read = read_before


def answered(
    refreshed: Callable[[frozenset[str]], Index], ask: Callable[[Index], Any], *, tries: int = 3
) -> tuple[Any, Index]:
    """``ask`` of an index; where a table turns out damaged or gone, of one that does without it.

    Raises DamagedError where that does not help.
    """
    distrusted: frozenset[str] = frozenset()
    notes: list[str] = []
    for left in reversed(range(tries)):
        index = refreshed(distrusted)
        try:
            answer = ask(index)
        except DamagedError as error:
            if not left:
                raise
            notes.append(f"{error}: its runs are read again")
            distrusted |= {error.path.name}
        else:
            index.notes[:0] = notes
            return answer, index
    raise AssertionError("unreachable")
