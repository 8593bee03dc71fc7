"""Files that are sequences of gzip members: ``zcat`` reads them whole, a crash costs at most the last."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from pathlib import Path

from clusterlab.records.files import OwnedDescriptor, storage_error
from clusterlab.records.reading import open_regular
from clusterlab.records.store import write_all

_CHUNK_BYTES = 1 << 16


class MemberWriter(OwnedDescriptor):
    """Appends members to ``path``. The data reaches the kernel at once (it survives a killed process), the
    disk when the kernel sees fit: what every rank keeps is worth less than the fsync of every rank.
    """

    def __init__(self, path: Path) -> None:
        """Open ``path``, whose folder is made; half a member left by a crash is cut off."""
        self.path = path
        try:
            path.parent.mkdir(exist_ok=True)
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            self._end = max((end for _, end in members_of(path)), default=0)
            os.ftruncate(self._fd, self._end)
        except OSError as error:
            raise storage_error(path, error) from error

    def append_member(self, content: bytes) -> None:
        """Write ``content``, compressed. Raises StorageError."""
        member = gzip.compress(content, compresslevel=6, mtime=0)
        try:
            write_all(self._fd, member)
        except OSError as error:
            # Half a member would hide every later one.
            os.ftruncate(self._fd, self._end)
            raise storage_error(self.path, error) from error
        self._end += len(member)


def members_of(path: Path, start: int = 0) -> Iterator[tuple[bytes, int]]:
    """Every complete gzip member of ``path`` from the offset ``start`` on, where one begins, with the offset
    of its end; stops at the first torn one. Raises OSError, and UsageError for what is no regular file.
    """
    with open_regular(path) as file:
        file.seek(start)
        waiting = b""
        end = start
        while True:
            gz = zlib.decompressobj(wbits=31)  # 31: one gzip member
            content = b""
            fed = 0
            while not gz.eof:
                chunk = waiting or file.read(_CHUNK_BYTES)
                waiting = b""
                if not chunk:
                    return
                fed += len(chunk)
                try:
                    content += gz.decompress(chunk)
                except zlib.error:
                    return
            waiting = gz.unused_data
            end += fed - len(waiting)
            yield content, end
