"""Foreign files to one fabric: read each, tell what it is, assemble, merge."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from clusterlab.core.errors import UsageError
from clusterlab.core.findings import most_severe_first
from clusterlab.topology.checks.all_checks import check
from clusterlab.topology.importing.gpu_models import check_model
from clusterlab.topology.importing.gpus import with_gpus
from clusterlab.topology.importing.imported import Imported
from clusterlab.topology.importing.merge import merge
from clusterlab.topology.importing.registry import read_any

MAX_FILE_BYTES = 64 << 20
"""An ibnetdiscover listing of 100,000 NICs has 30 MB."""


def read_files(paths: Sequence[Path], *, system: bool = False, gpu: str | None = None) -> Imported:
    """The fabric that the files describe together; ``-`` is standard input.

    ``system``: of logs with measurements take NCCL's system section instead of refusing them. ``gpu``: the
    model of GPUs that no file names.

    Raises UsageError for what cannot be read, NotAFabricError for a file that holds something else.
    """
    asked = None if gpu is None else check_model(gpu)
    parts = [read_any(_text(path), file=_shown(path), system=system) for path in paths]
    return with_gpus(parts[0] if len(parts) == 1 else merge(parts), asked)


def with_checks(imported: Imported) -> Imported:
    """The same import with what ``checks`` find in its fabric added to what its file showed, worst first.

    A file tells more of a fault than the fabric made of it: where both speak, the file is heard.
    """
    said = {finding.code for finding in imported.findings}
    more = [finding for finding in check(imported.fabric) if finding.code not in said]
    return replace(imported, findings=tuple(most_severe_first([*imported.findings, *more])))


def _shown(path: Path) -> str:
    return "standard input" if str(path) == "-" else str(path)


def _text(path: Path) -> str:
    """The file's text: UTF-16 where its mark says so, else UTF-8, in which bytes that are none (a terminal's
    noise) become U+FFFD.
    """
    try:
        if str(path) == "-":
            data = sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
        elif path.exists() and not path.is_file():
            raise UsageError(
                "not a regular file", where=str(path), expected="a file with a topology"
            )
        else:
            with path.open("rb") as file:
                data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise UsageError(
            f"cannot be read: {error.strerror}", where=str(path), expected="a file with a topology"
        ) from None
    if len(data) > MAX_FILE_BYTES:
        raise UsageError(
            f"more than {MAX_FILE_BYTES} bytes",
            where=_shown(path),
            expected="a listing of one host or one network",
        )
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):  # what PowerShell's > writes
        return data.decode("utf-16", errors="replace")
    if b"\0" in data[:4096]:
        raise UsageError("not text", where=_shown(path), expected="a text file")
    return data.decode("utf-8", errors="replace").removeprefix("\ufeff")
