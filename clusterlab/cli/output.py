"""Writing the file that ``-o`` names."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

import typer

from clusterlab.cli.shown import shown

Named = TypeVar("Named", Path, str, None)


def output_file(param: typer.CallbackParam, value: Named) -> Named:
    """The callback of every option that names a file to write: refused before work begins.

    Raises UsageError for a path that cannot become a file; ``-`` is the command's own affair.
    """
    from clusterlab.records.target import check_target

    if value is not None and str(value) != "-":
        check_target(Path(value), where=param.opts[0])
    return value


def output_folder(param: typer.CallbackParam, value: Named) -> Named:
    """As ``output_file``, of options that name a folder to write into."""
    from clusterlab.records.target import check_target_folder

    if value is not None:
        check_target_folder(Path(value), where=param.opts[0])
    return value


def write_output(path: Path, text: str, *, sources: Iterable[Path] = ()) -> None:
    """Replace ``path`` by ``text`` at once, and say so on stderr. Links are followed; ``/dev/stdout`` and its
    like are written to, not replaced.

    Raises UsageError for a path that cannot be a file or is one of ``sources``, which the text was made
    from; StorageError for a disk that cannot take it.
    """
    from clusterlab.core.errors import UsageError
    from clusterlab.records.target import is_stream, write_target

    target = os.path.realpath(path)
    if not is_stream(path) and any(os.path.realpath(source) == target for source in sources):
        raise UsageError(
            "the file that this is made from", where=str(path), expected="another file"
        )
    write_target(path, text.encode("utf-8", "replace"))
    if not is_stream(path):
        typer.echo(shown(f"clusterlab: {path}"), err=True)
