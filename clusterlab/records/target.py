"""The file that an option names to be written: what may stand there, and how it is written."""

from __future__ import annotations

import os
import re
import stat
import sys
from pathlib import Path

from clusterlab.core.errors import UsageError
from clusterlab.records.files import storage_error, write_atomic

_STREAMS = re.compile(r"/dev/(?:(stdout)|(stderr)|(null)|fd/(\d+))|/proc/self/fd/(\d+)")
"""Written through: the user's own streams, a shell's ``>(command)``, and nowhere."""


def check_target(path: Path, *, where: str | None = None) -> None:
    """Raise UsageError, before anything is measured, where ``path`` cannot become a file: a device, a pipe, a
    socket, a folder, a name that no file can have, a folder that is not there. ``where``: the option.
    """
    named = f"{where} {path}" if where else str(path)
    if is_stream(path):
        return
    status = _status(path, named)
    if status is not None and stat.S_ISDIR(status.st_mode):
        raise UsageError("a folder", where=named, expected="the name of a file")
    if status is not None and not stat.S_ISREG(status.st_mode):
        raise UsageError(
            "no regular file: a device, a pipe or a socket", where=named,
            expected="a new file, or one to replace", fix="/dev/stdout and /dev/null may be given",
        )  # fmt: skip
    parent = Path(os.path.realpath(path)).parent
    if not parent.is_dir():
        raise UsageError(f"no folder {parent}", where=named, expected="an existing folder")


def check_name(path: Path, *, where: str | None = None) -> None:
    """Raise UsageError where nothing on a disk can have the name ``path``."""
    _status(path, f"{where} {path}" if where else str(path))


def check_target_folder(path: Path, *, where: str | None = None) -> None:
    """Raise UsageError where ``path`` is no folder and cannot be made one."""
    named = f"{where} {path}" if where else str(path)
    if not os.fspath(path) or is_stream(path):
        raise UsageError("no folder", where=named, expected="the name of a folder")
    for above in (path, *path.parents):
        status = _status(above, named)
        if status is not None:
            if not stat.S_ISDIR(status.st_mode):
                raise UsageError(f"{above} is no folder", where=named, expected="a folder")
            return


def is_stream(path: Path) -> bool:
    """Whether ``path`` is one of the process's own streams, or nowhere: written to, never replaced."""
    return _STREAMS.fullmatch(os.path.normpath(path)) is not None


def write_target(path: Path, data: bytes, *, mode: int | None = None) -> None:
    """Replace ``path`` by ``data`` at once; of a link the file behind it. A stream is written to.

    Raises UsageError as ``check_target``, StorageError for a disk that cannot take it.
    """
    check_target(path)
    stream = _STREAMS.fullmatch(os.path.normpath(path))
    if stream is None:
        write_atomic(Path(os.path.realpath(path)), data, mode=mode)
        return
    stdout, stderr, null, *numbers = stream.groups()
    if null:
        return
    number = 1 if stdout else 2 if stderr else int(next(filter(None, numbers)))
    if stdout and sys.stdout is not None:
        sys.stdout.flush()
    try:
        # Opened by its name, a stream that is a file would be written from its beginning.
        with os.fdopen(os.dup(number), "wb") as file:
            file.write(data)
    except OSError as error:
        raise storage_error(path, error) from None


def _status(path: Path, named: str) -> os.stat_result | None:
    """What ``path`` is, links followed; None where nothing is. Raises UsageError for what no file can be."""
    try:
        os.fsencode(path).decode()
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError:
        raise UsageError("no UTF-8 text", where=named, expected="the name of a file") from None
    except (OSError, ValueError) as error:  # too long, a loop of links, a null character
        said = getattr(error, "strerror", None) or str(error)
        # What is too long to be a name is too long to be shown.
        shown = named if len(named) < 200 else f"{named[:200]}…"
        raise UsageError(f"cannot be written: {said}", where=shown) from None
