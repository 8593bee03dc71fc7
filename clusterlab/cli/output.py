"""Writing the file that ``-o`` names."""

from __future__ import annotations

from pathlib import Path

import typer


def write_output(path: Path, text: str) -> None:
    """Replace ``path`` by ``text`` at once, and say so on stderr.

    Raises UsageError for a path that cannot be a file, StorageError for a disk that cannot take it.
    """
    from clusterlab.core.errors import UsageError
    from clusterlab.records.files import write_atomic

    folder = path.absolute().parent
    if not folder.is_dir():
        raise UsageError(f"no folder {folder}", where=str(path), expected="an existing folder")
    if path.is_dir():
        raise UsageError("a folder", where=str(path), expected="the name of a file")
    write_atomic(path, text.encode())
    typer.echo(f"clusterlab: {path}", err=True)
