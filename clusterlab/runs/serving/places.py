"""Which run directory a name in an address means: one directly in the runs folder, wholly inside it."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from urllib.parse import unquote

from clusterlab.records.run_dir import RUN
from clusterlab.runs.serving.wire import RefusedError

NOTHING = "There is no such page."

# Renamed by their very keeping: a page does not depend on them.
_CHANGING = ("alive.json", "report.html", "summary.md", "trace.json")


def segments(path: str) -> list[str]:
    """The parts of an address's path, decoded once. Raises RefusedError for what no address of ours has."""
    parts = path.split("/")
    decoded = [unquote(part, errors="replace") if part.isascii() else "\0" for part in parts]
    for part in decoded:
        if part in (".", "..") or any(c in part for c in "/\\\0") or not part.isprintable():
            raise RefusedError(HTTPStatus.NOT_FOUND, NOTHING)
    return decoded


def run_in(root: Path, name: str) -> Path:
    """The run directory ``name`` of the runs folder ``root`` (resolved). Raises RefusedError where there is
    none, and where it or a part of it is elsewhere, by a link, or is no file.
    """
    if not name or name.startswith(".") or any(c in name for c in "/\\\0") or len(name) > 255:
        raise RefusedError(HTTPStatus.NOT_FOUND, NOTHING)
    folder = root / name
    try:
        inside = stat.S_ISDIR(folder.lstat().st_mode) and (folder / RUN).is_file()
        inside = inside and all(_inside(entry) for entry in _parts(folder))
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):  # says nothing of the run
            raise
        inside = False
    if not inside:
        raise RefusedError(HTTPStatus.NOT_FOUND, NOTHING)
    return folder


def _parts(folder: Path) -> Iterator[Path]:
    """All that a page may be made of: files of the run, and of the folders in it."""
    for entry in folder.iterdir():
        yield entry
        if not entry.is_symlink() and entry.is_dir() and entry.name not in ("logs", "checkpoints"):
            for below in entry.iterdir():
                yield below
                if not below.is_symlink() and below.is_dir():
                    yield from below.iterdir()


def _inside(entry: Path) -> bool:
    """A file or a folder, not a link to one, nor a pipe, which would be waited for."""
    try:
        mode = entry.lstat().st_mode
    except FileNotFoundError:  # replaced or removed meanwhile
        return True
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def stamp(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """What tells whether a page of the run in ``folder`` is of now: names, times of change and sizes."""
    found = []
    for entry in sorted(folder.iterdir()):
        if entry.name in _CHANGING or entry.name.startswith("."):
            continue
        try:
            now = entry.lstat()
        except OSError:
            continue
        size = now.st_size if stat.S_ISREG(now.st_mode) else 0
        found.append((entry.name, now.st_mtime_ns, size))
    return tuple(found)


def run_names(root: Path) -> list[str]:
    """All run directories of ``root``, the newest first: their names begin with when they were made."""
    with os.scandir(root) as entries:  # knows what is a folder without asking for each
        names = [
            entry.name
            for entry in entries
            if entry.name.isprintable()  # else no address has it: see ``segments``
            and not entry.name.startswith(".")
            and entry.is_dir(follow_symlinks=False)
        ]
    return sorted(names, reverse=True)
