"""Reads run directories for an index: one after the other, or in several processes where they are many."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from clusterlab.core.errors import ClusterlabError
from clusterlab.records.columns import table_of
from clusterlab.records.index import Batch
from clusterlab.records.index_files import Entry, Stamp
from clusterlab.records.index_scan import SHORT, settled, stamp_of
from clusterlab.records.run_dir import open_run
from clusterlab.report.data import load
from clusterlab.runs.history.rows import KINDS, damaged_values, row_values, run_values, seconds

CHUNK = 32
"""Runs that are read together: their rows are in memory at once."""
MANY = 200
"""From so many on it is worth starting processes, which takes half a second each."""
MOST_PROCESSES = 8
_SAID_EVERY_S = 2.0

Told = Callable[[int, int], None]
"""Hears how many runs are read, and of how many."""


def read_runs(
    root: Path, names: Sequence[str], *, told: Told = lambda _done, _of: None
) -> Iterator[Batch]:
    """The runs ``names`` in ``root``, in batches; those that are gone are left out."""
    chunks = [names[at : at + CHUNK] for at in range(0, len(names), CHUNK)]
    done, said = 0, time.monotonic()
    for chunk, batch in zip(chunks, _batches(root, chunks, len(names)), strict=True):
        yield batch
        done += len(chunk)
        if time.monotonic() - said > _SAID_EVERY_S:
            told(done, len(names))
            said = time.monotonic()


def _batches(root: Path, chunks: Sequence[Sequence[str]], runs: int) -> Iterator[Batch]:
    processes = min(MOST_PROCESSES, len(os.sched_getaffinity(0)))
    if runs < MANY or processes < 2:
        yield from map(partial(read_chunk, str(root)), chunks)
        return
    # Not forked: whoever calls this may have threads.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        try:
            yield from pool.map(partial(read_chunk, str(root)), chunks)
        finally:
            pool.shutdown(cancel_futures=True)


def read_chunk(root: str, names: Sequence[str]) -> Batch:
    """Some runs of ``root``."""
    entries: list[tuple[str, Entry]] = []
    values: dict[str, list[Any]] = {name: [] for name in KINDS}
    for name in names:
        found = _read(root, name)
        if found is None:
            continue
        entry, rows = found
        entries.append((name, entry))
        for column, own in rows.items():
            values[column] += own
    return Batch(entries, table_of(KINDS, values))


def _read(root: str, name: str) -> tuple[Entry, dict[str, list[Any]]] | None:
    """A run's entry and its rows; None where it is gone. What cannot be read is an entry that says why."""
    folder = f"{root}/{name}"
    stamp = stamp_of(folder, short=False)
    if stamp is None:
        return None
    rows: dict[str, list[Any]] = {}
    try:
        data = load(open_run(Path(folder)))
        said = run_values(data)
        rows = row_values(data.rows, data.placement, seconds(said["created_utc"]))
    except Exception as error:  # whatever a damaged run makes, the others are still to be read
        if stamp_of(folder, short=True) is None:
            return None
        said = damaged_values(name, _said(error, folder))
        rows = {}
    kept: Stamp = stamp if said["error"] is None and said["ended_utc"] is None else stamp[:SHORT]
    return Entry(kept, settled(stamp), said, rows=len(rows.get("collective", ()))), rows


def _said(error: Exception, folder: str) -> str:
    """Without the folder's own path, which stands beside it."""
    said = str(error).replace(f"{Path(folder).resolve()}/", "").replace(f"{folder}/", "")
    return said if isinstance(error, (ClusterlabError, OSError)) else _unforeseen(error, said)


def _unforeseen(error: Exception, said: str) -> str:
    """What no reader has refused: such an error's own text says little without its kind."""
    return f"a value that does not fit ({type(error).__name__}: {said:.120})"
