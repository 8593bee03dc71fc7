"""``clusterlab doctor``: every rank looks, one rank reports on all."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clusterlab.binding.outcome import exit_code, identity_finding
from clusterlab.binding.probe import join_parts, probe_here
from clusterlab.binding.records import (
    JoinedRecord,
    read_record,
    record_to_json,
    save_bundle,
)
from clusterlab.core.errors import DeadlineError
from clusterlab.core.findings import Finding
from clusterlab.core.jsontext import json_text
from clusterlab.launch.claims import in_slurm_task
from clusterlab.launch.desk import Record
from clusterlab.launch.gather import NoWayError
from clusterlab.launch.identity import IdentityError, single_identity
from clusterlab.launch.seat import Seat, take_seat
from clusterlab.runs.diagnosing.by_files import gather_by_files, job_folder
from clusterlab.runs.diagnosing.together import report_together

_RANK_VARIABLES = ("PMIX_RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "RANK")
_VERSION_S = 5.0


@dataclass(frozen=True, slots=True)
class DoctorOptions:
    """What was typed. ``deadline_s``: how long ranks wait for each other; ``bundle``: where to save."""

    deadline_s: float = 60.0
    as_json: bool = False
    environment: bool = False
    bundle: Path | None = None


def run_doctor(options: DoctorOptions) -> int:
    """Look as one rank, or as the one process that no launcher started; the exit code."""
    end = time.monotonic() + options.deadline_s
    try:
        seat = take_seat(os.environ, timeout_s=options.deadline_s)
    except IdentityError as error:
        return _confused(error, options)
    if seat is None:
        notes = ["no launcher made this a rank"]
        return _report(probe_here(single_identity(), os.environ, notes=notes), [], options)
    identity = seat.arrival.identity
    part = probe_here(
        identity,
        os.environ,
        program=seat.program,
        notes=seat.arrival.notes,
        slurm_version=_slurm_version() if identity.local_rank == 0 else None,
    )
    return _join(seat, part, end, options)


def _join(seat: Seat, part: JoinedRecord, end: float, options: DoctorOptions) -> int:
    identity = seat.arrival.identity
    record = {
        "rank": identity.rank,
        "host": identity.host,
        "pid": os.getpid(),
        "part": record_to_json(part),
    }

    def report(records: Sequence[Record], missing: Sequence[int]) -> int:
        parts = [read_record(r["part"], file=f"rank {r['rank']}") for r in records]
        beside = [_conflict(seat, [r["rank"] for r in records])] if seat.conflict else []
        return _report(join_parts(parts, missing), beside, options)

    try:
        return report_together(seat.arrival, "doctor", record, report, end=end)
    except (NoWayError, DeadlineError):
        folder = _shared_folder(options)
        if folder is None:
            raise
        until = max(end, time.monotonic() + 3.0)
        return gather_by_files(folder, identity, record, report, end=until)


def _shared_folder(options: DoctorOptions) -> Path | None:
    """Where ranks that find no way to each other may leave files: the bundle or the run directory."""
    run_dir = os.environ.get("CLUSTERLAB_RUN_DIR")
    root = options.bundle or (Path(run_dir) if run_dir else None)
    return job_folder(root, os.environ) if root else None


def _conflict(seat: Seat, ranks: Sequence[int]) -> Finding:
    assert seat.conflict is not None
    return identity_finding(seat.conflict, seat.arrival.identity.host, ranks)


def _report(record: JoinedRecord, beside: Sequence[Finding], options: DoctorOptions) -> int:
    """Diagnose, save, print. ``beside``: found while joining; said unless the diagnosis says it itself."""
    from clusterlab.binding.diagnose import diagnose  # here: the other ranks need neither
    from clusterlab.binding.table import record_lines

    findings = diagnose(record)
    codes = {f.code for f in findings}
    findings += [f for f in beside if f.code not in codes]
    if options.bundle is not None:
        save_bundle(record, options.bundle)
    missing = record.missing_ranks
    if options.as_json:
        text = json_text(report_json(len(record.ranks) + len(missing), missing, findings))
    else:
        text = "\n".join(record_lines(record, findings, environment=options.environment))
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
    return int(exit_code(findings, missing))


def _confused(error: IdentityError, options: DoctorOptions) -> int:
    """Launchers contradict each other and none tells enough: the first process reports on itself."""
    identity = single_identity()
    finding = identity_finding(error, identity.host)
    if any(os.environ.get(name, "0") != "0" for name in _RANK_VARIABLES):
        return int(exit_code([finding], []))
    part = probe_here(identity, os.environ, notes=["this process cannot be joined"])
    return _report(part, [finding], options)


def _slurm_version() -> str | None:
    """``22.05.8``, asked of Slurm's own tool; None outside a task, or where it does not answer."""
    tool = shutil.which("scontrol")
    if tool is None or not in_slurm_task(os.environ):
        return None
    try:
        done = subprocess.run(
            [tool, "--version"], capture_output=True, text=True, timeout=_VERSION_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.split()[-1] if done.returncode == 0 and done.stdout.split() else None


def report_json(ranks: int, missing: Sequence[int], findings: Sequence[Finding]) -> dict[str, Any]:
    """What ``--json`` prints."""
    fields = ("code", "severity", "ranks", "evidence", "fix", "caused_by")
    return {
        "ranks": ranks,
        "missing_ranks": list(missing),
        "findings": [{name: f.to_json()[name] for name in fields} for f in findings],
    }
