"""Which run directories there are, and whether one has changed since it was last read: by stat alone."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from clusterlab.core.errors import UsageError
from clusterlab.records.index_files import Stamp
from clusterlab.records.lines import EXPERTS, OVERLAP, SOAK, STEPS
from clusterlab.records.run_dir import RUN
from clusterlab.records.store import RECORDS

SETTLES_S = 2.0
"""A file that was written less than this before it was read may be written again within one tick of its
file system's clock, and look the same: such a run is read again next time.
"""

SHORT = 5
"""Numbers of the stamp of a run that has ended."""


def run_names(root: Path) -> list[str]:
    """The folders of ``root`` that hold a run.json, sorted; what begins with a dot is none.

    Raises UsageError where ``root`` cannot be read.
    """
    try:
        with os.scandir(root) as entries:
            names = [e.name for e in entries if not e.name.startswith(".") and _is_dir(e)]
    except OSError as error:
        raise UsageError(
            f"cannot be read: {error.strerror}",
            where=str(root),
            expected="a folder of run directories ($CLUSTERLAB_RUNS, or --runs)",
        ) from None
    return sorted(names)


def _is_dir(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def stamp_of(folder: str, *, short: bool) -> Stamp | None:
    """How the files of the run in ``folder`` look; None where there is no run (any more).

    The folder's own time stands for all documents, which are replaced by renames; run.json and records.jsonl
    stand for themselves. Of a run that did not end, the line files count too (not ``short``).
    """
    try:
        own = _stat(folder).st_mtime_ns
        info = _stat(f"{folder}/{RUN}")
    except OSError:
        return None
    stamp = [own, info.st_mtime_ns, info.st_size, *_look(f"{folder}/{RECORDS}")]
    if not short:
        for name in (OVERLAP, SOAK, STEPS, EXPERTS):
            stamp += _look(f"{folder}/{name}")
    return tuple(stamp)


def _stat(file: str) -> os.stat_result:
    return os.stat(file)  # noqa: PTH116 - making tens of thousands of Paths takes longer than the calls


def _look(file: str) -> Sequence[int]:
    try:
        found = _stat(file)
    except OSError:
        return (0, -1)
    return (found.st_mtime_ns, found.st_size)


def settled(stamp: Stamp) -> bool:
    """Whether the files had been left alone for SETTLES_S by now."""
    times = (stamp[0], stamp[1], *stamp[3::2])
    return max(times) < time.time_ns() - SETTLES_S * 1e9
