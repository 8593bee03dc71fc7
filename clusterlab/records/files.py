"""Files that survive a crash: atomic replacement.

Run directories lie on NFS and Lustre: no locks, only appends by one writer and atomic renames.
"""

from __future__ import annotations

import errno
import json
import os
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from clusterlab.core.errors import StorageError, UsageError

FREE_SPACE = "free some space or choose another $CLUSTERLAB_RUNS; what was written stays readable"


def storage_error(path: Path, error: OSError) -> StorageError:
    """The StorageError for an ``error`` met while writing ``path``."""
    return StorageError(f"cannot write: {error.strerror or error}", where=str(path), fix=FREE_SPACE)


def write_atomic(path: Path, data: bytes, *, mode: int | None = None) -> None:
    """Replace ``path`` by ``data``: a reader sees the old content or the new, never a mixture. ``mode``: its
    permissions, where the umask is not to decide.

    Raises StorageError; the old content is then untouched.
    """
    # Not in $TMPDIR: a rename is atomic only within one file system. A name near the limit of 255 bytes
    # leaves no room for more.
    name = (
        path.name if len(os.fsencode(path.name)) < 200 else f"{zlib.crc32(os.fsencode(path.name))}"
    )
    scratch = path.with_name(f".{name}.{os.getpid()}.tmp")
    try:
        if path.exists() and not path.is_file():
            # Renamed over it, a file would take the place of a device for all who use it.
            raise FileExistsError(errno.EEXIST, "no regular file is there")
        with scratch.open("wb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(path)
        _sync_directory(path.parent)
    except OSError as error:
        with suppress(OSError):
            scratch.unlink()
        raise storage_error(path, error) from error


def _sync_directory(folder: Path) -> None:
    """Make a rename in ``folder`` survive a power cut."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_json(path: Path, data: Any) -> None:
    """Write ``data`` as an indented JSON document, atomically."""
    write_atomic(path, (json.dumps(data, indent=2) + "\n").encode())


def check_schema(version: Any, newest: int, *, where: str) -> None:
    """Refuse a ``version`` this clusterlab cannot read. Raises UsageError."""
    if type(version) is not int or version < 1:
        raise UsageError(
            f"schema_version {version!r}", where=where, expected=f"a number from 1 to {newest}"
        )
    if version > newest:
        raise UsageError(
            f"written by a newer clusterlab (schema {version}; this one reads up to {newest})",
            where=where,
            fix="upgrade clusterlab",
        )


class OwnedDescriptor:
    """A file descriptor that is closed once, by ``close`` or at the end of a ``with`` block."""

    _fd: int

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()
