"""The history: runs and rows over many run directories, by the index that is kept beside them."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from clusterlab.core.errors import StorageError, UsageError
from clusterlab.records.columns import DamagedError, Table, joined, picked
from clusterlab.records.index import FOLDER, Index, answered, refresh
from clusterlab.records.lease import ALIVE, DEAD_S
from clusterlab.records.run_dir import open_run, runs_root
from clusterlab.report.console.watching import State
from clusterlab.runs.history.filters import Filters, like, run_fits
from clusterlab.runs.history.reading import read_runs
from clusterlab.runs.history.rows import KINDS, seconds
from clusterlab.runs.watching.pulse import Pulse

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Mask = NDArray[np.bool_]

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class Place:
    """Run directories in ``root``, the index in ``folder``. ``rebuild``: from nothing."""

    root: Path
    folder: Path
    rebuild: bool = False


def place(runs: Path | None, index: Path | None, *, rebuild: bool = False) -> Place:
    """The runs in ``runs`` ($CLUSTERLAB_RUNS), and their index: beside them, or in a folder of ``index`` of
    their own.
    """
    root = runs if runs is not None else runs_root()
    if index is None:
        return Place(root, root / FOLDER, rebuild)
    of = hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:16]
    return Place(root, index / of, rebuild)


def asked(where: Place, ask: Callable[[Index], _Answer]) -> tuple[_Answer, Index]:
    """``ask`` of the index of ``where``, which is brought up to date first. Raises UsageError where there is
    no folder of runs.
    """
    once = [where.rebuild]

    def refreshed(distrusted: frozenset[str]) -> Index:
        rebuild, once[0] = once[0], False
        return refresh(
            where.root,
            where.folder,
            KINDS,
            partial(read_runs, told=_told),
            rebuild=rebuild,
            distrusted=distrusted,
        )

    try:
        return answered(refreshed, ask)
    except DamagedError as error:
        raise StorageError(
            f"the index is damaged again and again: {error}",
            fix="remove it, or --index DIR keeps another elsewhere",
        ) from None


def _told(done: int, runs: int) -> None:
    print(f"clusterlab: {done} of {runs} new or changed runs read", file=sys.stderr, flush=True)


@dataclass(frozen=True, slots=True)
class Found:
    """Rows that fit, as columns; ``run`` is for each the place of its run in ``runs`` (names)."""

    runs: tuple[str, ...]
    run: NDArray[np.int64]
    table: Table


def found_rows(index: Index, filters: Filters, columns: Sequence[str]) -> Found:
    """The rows that fit ``filters``, in no order. Raises DamagedError."""
    import numpy as np

    wanted = _runs_that_fit(index, filters, by_date=False)
    names = tuple(wanted)
    places = {name: i for i, name in enumerate(names)}
    tables, of = [], []
    for table, own in index.runs.tables().items():
        if not any(name in places for name in own):
            continue
        run = index.run_of_rows(table, own)
        part = index.columns(table, sorted({*columns, *_asked_columns(filters)}))
        place_of = np.array([places.get(name, -1) for name in own] + [-1], dtype=np.int64)
        global_run = place_of[run]
        mask = (global_run >= 0) & _rows_that_fit(part, filters, global_run, wanted)
        if not mask.any():
            continue
        part = Table(part.rows, {n: part.arrays[n] for n in columns}, part.texts)
        tables.append(part if mask.all() else picked(part, mask))
        of.append(global_run[mask])
    kinds = {name: KINDS[name] for name in columns}
    return Found(
        names,
        np.concatenate(of) if of else np.zeros(0, dtype=np.int64),
        joined(kinds, tables),
    )


def _asked_columns(filters: Filters) -> Iterator[str]:
    for column, words in _of_words(filters):
        if words:
            yield column
    if filters.sizes:
        yield "size_bytes"
    if filters.since_s is not None or filters.until_s is not None:
        yield "time_s"
    if filters.hosts or filters.link:
        yield from ("hosts", "ranks", "bottleneck")
    if filters.groups:
        yield from ("group", "ranks")


def _of_words(filters: Filters) -> Iterator[tuple[str, tuple[str, ...]]]:
    yield "collective", filters.collectives
    yield "dtype", filters.dtypes
    yield "timing", filters.timings
    yield "backend", filters.backends
    yield "verdict", filters.verdicts


def _rows_that_fit(
    table: Table, filters: Filters, run: NDArray[np.int64], wanted: dict[str, dict[str, Any]]
) -> Mask:
    import numpy as np

    mask = np.ones(table.rows, dtype=bool)
    for column, words in _of_words(filters):
        if words:
            mask &= _coded(table, column, partial(like, patterns=words))
    if filters.groups:
        names = _coded(table, "group", partial(like, patterns=filters.groups))
        mask &= names | _coded(table, "ranks", filters.groups.__contains__)
    if filters.sizes:
        sizes = table.arrays["size_bytes"]
        mask &= np.any([(sizes >= low) & (sizes <= high) for low, high in filters.sizes], axis=0)
    if filters.since_s is not None:
        mask &= table.arrays["time_s"] >= filters.since_s
    if filters.until_s is not None:
        mask &= table.arrays["time_s"] <= filters.until_s
    if filters.hosts:
        # Rows of all ranks were on all hosts of their run, which has one of those asked for.
        mask &= _coded(
            table,
            "hosts",
            lambda text: text is None or any(like(h, filters.hosts) for h in host_list(text)),
        )
    if filters.link:
        mask &= _on_link(table, filters, run, wanted)
    return mask


def _on_link(
    table: Table, filters: Filters, run: NDArray[np.int64], wanted: dict[str, dict[str, Any]]
) -> Mask:
    import numpy as np

    between = filters.link_hosts
    if between is not None:
        ends = {*between}
        pairs = _coded(table, "ranks", lambda v: v is not None and len(_ranks(v)) == 2)
        return pairs & _coded(table, "hosts", lambda v: {*host_list(v)} == ends)
    link = filters.link or ""
    has = [any(link in one for one in said.get("links") or ()) for said in wanted.values()]
    found = np.array([*has, False], dtype=bool)[run]
    return found | _coded(table, "bottleneck", lambda v: v is not None and link in v)


def _ranks(text: str) -> list[str]:
    return [] if "-" in text else text.split(",")


def host_list(text: str | None) -> list[str]:
    return [] if text is None else [str(host) for host in json.loads(text)]


def _coded(table: Table, column: str, fits: Callable[[str | None], bool]) -> Mask:
    """Whether each row's text fits: asked once for every different text."""
    import numpy as np

    known = np.array([fits(value) for value in table.texts[column]] or [False], dtype=bool)
    codes = table.arrays[column]
    if not len(codes):
        return np.zeros(0, dtype=bool)
    result: Mask = known[codes.astype(np.int64)]
    return result


def _runs_that_fit(index: Index, filters: Filters, *, by_date: bool) -> dict[str, dict[str, Any]]:
    """Name to what is known of it."""
    dated = by_date and (filters.since_s is not None or filters.until_s is not None)
    return {
        name: dict(entry.said)
        for name, entry in index.runs.entries.items()
        if run_fits(
            dict(entry.said),
            filters,
            seconds(entry.said["created_utc"]) if dated else None,
        )
    }


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run in a list. ``state``: ended, exit code N, running, not ended, not started, damaged."""

    name: str
    said: dict[str, Any]
    state: str


def listed(index: Index, filters: Filters, root: Path, *, most: int) -> tuple[list[ListedRun], int]:
    """Runs that fit, the latest first, at most ``most`` (0: all), and how many there are. With filters of
    rows, those with at least one such row. Raises DamagedError.
    """
    runs = _runs_that_fit(index, filters, by_date=True)
    if filters.verdicts:
        runs = {n: said for n, said in runs.items() if said.get("verdict") in filters.verdicts}
    if filters.of_rows:
        of_rows = Filters(
            **{
                name: getattr(filters, name)
                for name in Filters.__dataclass_fields__
                if name not in {"verdicts", "since_s", "until_s"}
            }
        )
        found = found_rows(index, of_rows, ())
        with_rows = {found.runs[i] for i in set(found.run.tolist())}
        runs = {name: said for name, said in runs.items() if name in with_rows}
    ordered = sorted(runs, key=lambda name: (runs[name]["created_utc"], name), reverse=True)
    shown = ordered[:most] if most else ordered
    return [ListedRun(n, runs[n], _state(root / n, runs[n])) for n in shown], len(ordered)


def _state(folder: Path, said: dict[str, Any]) -> str:
    if said["error"] is not None:
        return "damaged"
    if said["ended_utc"] is not None:
        return f"exit code {said['exit_code']}" if said["exit_code"] else "ended"
    if not said["attempts"]:
        return "not started"
    return "running" if _lives(folder) else "not ended"


def _lives(folder: Path) -> bool:
    """As ``watch`` says: by the kernel, where it runs the process; else whether it was touched lately."""
    try:
        if time.time() - (folder / ALIVE).stat().st_mtime > DEAD_S:
            return False
        state, _ = Pulse(folder, once=True).feel(open_run(folder), 0.0)
    except (OSError, UsageError):
        return False
    return state in (State.RUNNING, State.SILENT)
