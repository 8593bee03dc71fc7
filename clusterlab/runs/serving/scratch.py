"""Where a server keeps its pages; what a server that was killed left there is removed by the next."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX = "clusterlab-serve-"
_HELD = "held"
"""A file that the server locks: the kernel lets go of it when the process ends, however it does. A number of
a process would not do, which another container that shares /tmp may count otherwise.
"""


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder of this server's own, gone at the end."""
    remove_abandoned(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as folder:
        # Closed at exec: no process that the server starts holds it.
        fd = os.open(Path(folder, _HELD), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            pages = Path(folder, "pages")
            pages.mkdir()
            yield pages
        finally:
            os.close(fd)


def remove_abandoned(root: Path) -> None:
    """Remove folders of servers of this user that live no more. Never raises: they only take space."""
    with suppress(OSError):
        for folder in root.glob(f"{_PREFIX}*"):
            with suppress(OSError):
                if _abandoned(folder):
                    shutil.rmtree(folder, ignore_errors=True)


def _abandoned(folder: Path) -> bool:
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        return False
    fd = os.open(folder / _HELD, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if os.fstat(fd).st_size:
            return False  # nothing that a server made
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(fd)
    return True
