"""Files on the edge: written whole or not at all, removed only where nothing is mounted."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from clusterlab.core.errors import ClusterlabError, UsageError


def write(path: Path, text: str, *, mode: int = 0o644) -> None:
    """Replace ``path`` by ``text`` at once: a reader sees the old or the new text."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(text, encoding="utf-8")
    draft.chmod(mode)
    draft.replace(path)


def make_directory(path: Path, *, mode: int = 0o755) -> None:
    """A directory with exactly ``mode``, whatever the umask."""
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(mode)


def mounts_below(folder: Path) -> list[str]:
    """Mount points at or below ``folder`` in this mount namespace."""
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    # proc(5): the fifth field, with space, tab and backslash as octal escapes.
    points = (
        re.sub(r"\\(\d{3})", lambda m: chr(int(m[1], 8)), line.split(" ")[4]) for line in lines
    )
    return [point for point in points if Path(point) == folder or folder in Path(point).parents]


def remove_tree(folder: Path) -> None:
    """Remove ``folder`` and all in it. Raises ClusterlabError where something is mounted below.

    A leaked bind mount would lead into the user's own files.
    """
    if mounts := mounts_below(folder):
        raise ClusterlabError(
            f"something is still mounted at {mounts[0]}",
            where=str(folder),
            fix=f"umount {' '.join(mounts)}, then repeat",
        )
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(folder)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of ``folder``, made if missing: one `up` or `down` of a lab at a time."""
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"cannot be made: {error.strerror}",
                where=str(folder),
                fix="set CLUSTERLAB_LABS to a folder of your own",
            ) from error
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # Whoever held the lock before may have removed the folder.
            if folder.is_dir() and os.path.samestat(os.fstat(descriptor), folder.stat()):
                yield
                return
        finally:
            os.close(descriptor)
