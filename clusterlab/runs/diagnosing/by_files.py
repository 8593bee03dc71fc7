"""Ranks that find no way to each other leave their records in a folder that all of them see.

The rank that reports is rank 0, or the lowest that came when rank 0 has not. It takes the records away and
leaves an answer with the processes it is for, so that a later call is not misled by an earlier one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clusterlab.core.errors import DeadlineError, StorageError
from clusterlab.launch.claims import Environ
from clusterlab.launch.desk import Record
from clusterlab.launch.gather import Report
from clusterlab.launch.identity import RankIdentity

_POLL_S = 0.1
_GRACE_S = 10.0
_ANSWER = "answer.json"


def gather_by_files(
    folder: Path, identity: RankIdentity, record: Record, report: Report, *, end: float
) -> int:
    """Leave ``record`` in ``folder``; one rank reports on all that came by ``end``; its exit code.

    Raises StorageError when the folder cannot be written, DeadlineError when nobody reports.
    """
    started = time.time() - _GRACE_S
    mine = folder / _name(identity.rank)
    _write(mine, record)
    here = _wait_for_ranks(folder, mine, identity.world_size, started, end)
    if here and identity.rank == here[0]:
        return _report_on(folder, here, identity.world_size, report)
    until = time.monotonic() + _GRACE_S
    while time.monotonic() < until:
        answer = _read(folder / _ANSWER)
        if answer is not None and record["pid"] in answer.get("pids", ()):
            return int(answer["code"])
        time.sleep(_POLL_S)
    raise DeadlineError("the rank that was to report left no answer", where=str(folder))


def _report_on(folder: Path, here: Sequence[int], everyone: int, report: Report) -> int:
    """Report on the ranks ``here``, answer them and take their records away."""
    read = [_read(folder / _name(rank)) for rank in here]
    records = [r for r in read if r is not None]
    code = report(records, [rank for rank in range(everyone) if rank not in here])
    _write(folder / _ANSWER, {"code": code, "pids": [r.get("pid") for r in records]})
    for rank in here:
        (folder / _name(rank)).unlink(missing_ok=True)
    return code


def job_folder(root: Path, environ: Environ) -> Path:
    """A folder below ``root`` for this job and step."""
    names = ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT")
    name = ".".join(environ.get(n) or "0" for n in names)
    return root / f"doctor-{name}"


def _wait_for_ranks(
    folder: Path, mine: Path, everyone: int, started: float, end: float
) -> Sequence[int]:
    """The ranks whose files are there: all of them, or those by ``end``; [] once ``mine`` was taken."""
    while True:
        here = [r for r in range(everyone) if _fresh(folder / _name(r), started)]
        if not mine.exists():
            return []
        if len(here) == everyone or time.monotonic() > end:
            return here
        time.sleep(_POLL_S)


def _name(rank: int) -> str:
    return f"rank_{rank}.json"


def _fresh(file: Path, started: float) -> bool:
    """Whether the file is of this call, not of an earlier one."""
    try:
        return file.stat().st_mtime >= started
    except OSError:
        return False


def _write(file: Path, data: Record) -> None:
    """Whole or not at all."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(".part")
        part.write_text(json.dumps(data))
        part.replace(file)
    except OSError as error:
        raise StorageError(f"not written: {error.strerror}", where=str(file)) from None


def _read(file: Path) -> dict[str, Any] | None:
    try:
        data = json.loads(file.read_text())
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None
