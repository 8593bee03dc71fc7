"""A file that others append to, read as it grows: by its size, without locks, also over NFS."""

from __future__ import annotations

from pathlib import Path

from clusterlab.records.reading import open_regular


class Growing:
    """The lines that ``path`` gains; a file that is not there yet has none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0
        self.read = 0
        """Lines so far: the last one's number."""

    def lines(self, *, all_of_it: bool = False) -> list[bytes]:
        """Complete lines that came since the last call; with ``all_of_it`` an unfinished one too.

        A file that became shorter is another one: it is read from its begin, and ``read`` counts anew.
        Raises UsageError for what is no regular file.
        """
        try:
            with open_regular(self.path) as file:  # opening makes NFS ask the server for the size
                if file.seek(0, 2) < self._offset:
                    self._offset = self.read = 0
                file.seek(self._offset)
                new = file.read()
        except OSError:  # not there yet, or a server that does not answer now: the next look tells
            return []
        if not all_of_it:
            new = new[: new.rfind(b"\n") + 1]
        self._offset += len(new)
        lines = new.split(b"\n")
        lines = lines if lines[-1] else lines[:-1]
        self.read += len(lines)
        return lines
