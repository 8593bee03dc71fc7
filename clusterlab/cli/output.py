"""Writing the file that ``-o`` names."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import typer


def write_output(path: Path, text: str, *, sources: Iterable[Path] = ()) -> None:
    """Replace ``path`` by ``text`` at once, and say so on stderr. Links are followed; what is no regular
    file (``/dev/stdout``, a pipe) is written to, not replaced.

    Raises UsageError for a path that cannot be a file or is one of ``sources``, which the text was made
    from; StorageError for a disk that cannot take it.
    """
    from clusterlab.core.errors import UsageError
    from clusterlab.records.files import storage_error, write_atomic

    target = path.resolve()
    if not target.parent.is_dir():
        raise UsageError(
            f"no folder {target.parent}", where=str(path), expected="an existing folder"
        )
    if target.is_dir():
        raise UsageError("a folder", where=str(path), expected="the name of a file")
    if any(source.resolve() == target for source in sources):
        raise UsageError(
            "the file that this is made from", where=str(path), expected="another file"
        )
    if target.exists() and not target.is_file():
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise storage_error(path, error) from None
        return
    write_atomic(target, text.encode())
    typer.echo(f"clusterlab: {path}", err=True)
