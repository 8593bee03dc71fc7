"""Files that NCCL writes and that are read while it still does."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

_MOST = 64 << 20


class Source(Protocol):
    """Where lines come from."""

    def take(self) -> str:
        """What came since the last time."""


class MemoryFile:
    """A file without a file system: NCCL opens it by ``path``, in this process only.

    Each time NCCL rereads its settings it opens its log with ``w``: a file on a shared file system would be
    made anew for every point.
    """

    def __init__(self, name: str) -> None:
        self._fd = os.memfd_create(name)
        self.path = f"/proc/self/fd/{self._fd}"

    def take(self) -> str:
        size = min(os.fstat(self._fd).st_size, _MOST)
        text = os.pread(self._fd, size, 0)
        os.ftruncate(self._fd, 0)
        # Who still writes at an old offset leaves zeros before its line.
        return text.lstrip(b"\0").decode("utf-8", "replace")

    def close(self) -> None:
        os.close(self._fd)


class Tail:
    """The growing end of a file on disk; empty while the file is not there."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0

    def take(self) -> str:
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                read = file.read(_MOST)
        except FileNotFoundError:
            return ""
        # A line that is not whole yet is left for the next time.
        whole = read[: read.rfind(b"\n") + 1]
        self._at += len(whole)
        return whole.decode("utf-8", "replace")


def new_folder(run_path: Path, stem: str = "nccl") -> Path:
    """A folder of the run that no earlier attempt wrote into: ``nccl``, ``nccl-2``, … Raises OSError."""
    for number in range(1, 10_000):
        folder = run_path / (stem if number == 1 else f"{stem}-{number}")
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder.absolute()
    raise OSError(f"{run_path}: too many folders {stem}-…")
