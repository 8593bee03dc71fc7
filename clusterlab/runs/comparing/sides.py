"""Sides of a comparison from what the user names: run directories, records.jsonl, CSV, other tools' files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from clusterlab.core.errors import UsageError
from clusterlab.records.run_dir import runs_root
from clusterlab.runs.comparing.sides_of_files import side_of_csv, side_of_foreign
from clusterlab.runs.comparing.sides_of_runs import side_of_records, side_of_run
from clusterlab.verdict.against.side import Side

_HEAD = 65536


def read_sides(names: Sequence[str]) -> list[Side]:
    """A side for each of ``names``. Raises UsageError for what cannot be read.

    ``FILE#TABLE`` is one table of a CSV with several.
    """
    return [read_side(name) for name in names]


def read_side(name: str) -> Side:
    """A run directory (or its name under $CLUSTERLAB_RUNS), a records.jsonl, a CSV file with an optional
    ``#TABLE``, text or ``-J`` JSON of nccl-tests. Files are told apart by their content.
    """
    path = Path(name)
    if path.is_dir() or (not path.exists() and (runs_root() / path).is_dir()):
        return side_of_run(path)
    if path.name == "records.jsonl" and (path.parent / "run.json").is_file():
        return side_of_run(path.parent)
    path, table = _with_table(name)
    head = _head(path)
    first = next((line for line in head.splitlines() if line.strip()), "")
    if first.lstrip().startswith("{") and '"schema_version"' in first and '"world_size"' in first:
        return side_of_records(path)
    if "size_bytes" in first and "collective" in first and "," in first:
        return side_of_csv(path, table)
    if table is not None:
        raise UsageError(f"no CSV, so it has no table {table!r}", where=str(path))
    return side_of_foreign(path)


def _with_table(name: str) -> tuple[Path, str | None]:
    """``rows.csv#run-1`` as the file and the table; a file that is called so is itself."""
    path = Path(name)
    before, mark, table = name.rpartition("#")
    if mark and not path.exists() and Path(before).is_file():
        return Path(before), table
    return path, None


def _head(path: Path) -> str:
    if not path.is_file():
        raise UsageError(
            "not a file" if path.exists() else "no such file or run",
            where=str(path),
            expected="a run directory, records.jsonl, CSV, or nccl-tests' text or -J file",
        )
    try:
        with path.open("rb") as stream:
            return stream.read(_HEAD).decode("utf-8-sig", errors="replace")
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(path)) from None
