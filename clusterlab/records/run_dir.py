"""The run directory: created before ranks start, appended to by every attempt, readable years later.

``create_run`` makes it, ``open_run`` reads it, ``start_attempt`` is what the process that is about to
measure calls (once at first, again after a requeue). One writer per file: rank 0 writes run.json and
records.jsonl, each rank its own samples and log.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from clusterlab.core.environment import allowed_environment
from clusterlab.core.errors import UsageError
from clusterlab.records.environment import versions
from clusterlab.records.files import write_json
from clusterlab.records.lease import claim, release
from clusterlab.records.reading import is_there, read_json
from clusterlab.records.run_info import (
    Attempt,
    Context,
    RunInfo,
    info_from_json,
    info_to_json,
    plain_json,
)
from clusterlab.records.samples import SamplesWriter
from clusterlab.records.store import RECORDS, RecordsRead, RecordWriter, read_records

RUN = "run.json"
SAMPLES = "samples"
LOGS = "logs"
REPORT = "report.html"

_NAME_LENGTH = 60


@dataclass(frozen=True, slots=True)
class RunDir:
    """A run directory on disk, as it was when it was opened."""

    path: Path
    info: RunInfo

    @property
    def attempt(self) -> int:
        """The number of the latest attempt; 0 before the first."""
        return len(self.info.attempts)

    @property
    def records_path(self) -> Path:
        """records.jsonl."""
        return self.path / RECORDS

    @property
    def samples_path(self) -> Path:
        """The folder of the ranks' raw times."""
        return self.path / SAMPLES

    @property
    def logs_path(self) -> Path:
        """The folder of the ranks' output."""
        return self.path / LOGS

    @property
    def report_path(self) -> Path:
        """report.html."""
        return self.path / REPORT

    def writer(self) -> RecordWriter:
        """The one writer of records.jsonl (rank 0's)."""
        return RecordWriter(self.records_path)

    def samples_writer(self, rank: int) -> SamplesWriter:
        """The writer of ``rank``'s raw times."""
        return SamplesWriter(self.samples_path, rank, self.attempt)

    def records(self) -> RecordsRead:
        """All rows measured so far."""
        return read_records(self.path)


def runs_root(environ: Mapping[str, str] | None = None) -> Path:
    """Where runs are kept: ``$CLUSTERLAB_RUNS``, or ``runs`` under the current directory."""
    return Path((os.environ if environ is None else environ).get("CLUSTERLAB_RUNS") or "runs")


def create_run(
    name: str,
    *,
    configuration: Mapping[str, Any] | None = None,
    command: Sequence[str] | None = None,
    planned_points: int | None = None,
    root: Path | None = None,
    now: datetime | None = None,
) -> RunDir:
    """Make ``<root>/<UTC>-<name>-<short id>/`` with run.json and empty folders for samples and logs.

    ``configuration`` is the resolved configuration (plain data); ``command`` what to type to get it
    (default: this process's command line). No attempt is started. Raises UsageError when the
    directory cannot be made, StorageError when the disk refuses.
    """
    created = now or datetime.now(UTC)
    root = runs_root() if root is None else root
    slug = re.sub(r"[^A-Za-z0-9_.]+", "-", name).strip("-.")[:_NAME_LENGTH] or "run"
    run_id = f"{created:%Y%m%dT%H%M%SZ}-{slug}-{secrets.token_hex(3)}"
    path = root / run_id
    try:
        (path / SAMPLES).mkdir(parents=True)
        (path / LOGS).mkdir()
    except OSError as error:
        raise UsageError(
            f"cannot create a run directory: {error.strerror}",
            where=str(path),
            fix="set $CLUSTERLAB_RUNS to a directory that every rank can write",
        ) from None
    info = RunInfo(
        run_id=run_id,
        name=name,
        created_utc=utc_text(created),
        configuration=plain_json(configuration or {}),
        planned_points=planned_points,
        created_by=_this_process(command),
        attempts=(),
    )
    run = RunDir(path.resolve(), info)
    _write_info(run)
    return run


def open_run(path: Path | str) -> RunDir:
    """The run in ``path``: a directory, or the name of one under ``$CLUSTERLAB_RUNS``. Only reads.

    Raises UsageError when it is not a run directory, is damaged, or comes from a newer clusterlab.
    """
    folder = Path(path)
    if not folder.exists() and (runs_root() / folder).is_dir():
        folder = runs_root() / folder
    if not folder.is_dir():
        what = "not a directory" if folder.exists() else "no such run directory"
        raise UsageError(
            what, where=str(folder), expected=f"a directory with {RUN}, as clusterlab bench makes"
        )
    file = folder / RUN
    if not is_there(file):
        raise UsageError(f"not a run directory: holds no {RUN}", where=str(folder))
    return RunDir(folder.resolve(), info_from_json(read_json(file), where=str(file)))


def start_attempt(
    run: RunDir,
    *,
    configuration: Mapping[str, Any] | None = None,
    planned_points: int | None = None,
    command: Sequence[str] | None = None,
    now: datetime | None = None,
) -> RunDir:
    """Append an attempt to run.json (read afresh, replaced atomically) and return the run with it.

    A batch script makes the directory before anyone knows what will be measured: ``configuration`` and
    ``planned_points`` fill that gap. Raises UsageError when the run already holds another
    configuration: rows of two sweeps do not belong in one run. An earlier attempt that did not end
    stays as it is: that is what a killed job looks like. One whose process still lives is another's: raises
    UsageError.
    """
    run = open_run(run.path)
    info = run.info
    if configuration is not None:
        check_configuration(run, configuration)
        info = replace(info, configuration=plain_json(configuration))
    if planned_points is not None:
        info = replace(info, planned_points=planned_points)
    attempt = Attempt(
        number=run.attempt + 1,
        started_utc=utc_text(now or datetime.now(UTC)),
        ended_utc=None,
        exit_code=None,
        context=_this_process(command),
    )
    claim(run.path)
    return _with_attempts(RunDir(run.path, info), (*info.attempts, attempt))


def check_configuration(run: RunDir, configuration: Mapping[str, Any]) -> None:
    """Raise UsageError, with what differs, where ``run`` holds another ``configuration`` already."""
    wanted = plain_json(configuration)
    if run.info.configuration and run.info.configuration != wanted:
        raise _other_configuration(run, wanted)


def _other_configuration(run: RunDir, wanted: Mapping[str, Any]) -> UsageError:
    held = run.info.configuration
    kind, new_kind = _kind(held), _kind(wanted)
    if kind != new_kind:
        said = f"holds a {kind}, and this is a {new_kind}"
    else:
        said = f"holds another {kind} ({', '.join(_differences(held, wanted))})"
    return UsageError(
        said,
        where=str(run.path),
        expected="the same options when a run is continued",
        fix="start a new run",
    )


_KINDS = {"training": "training run", "overlap": "run of overlaps"}


def _kind(configuration: Mapping[str, Any]) -> str:
    measures = str(configuration.get("measures", configuration.get("command", "sweep")))
    return _KINDS.get(measures, measures)


def _differences(held: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """``name: value there, value now`` of the innermost names; with the outer ones where two are alike."""
    there, now = _flat(held), _flat(wanted)
    paths = sorted({*there, *now})
    last = [path[-1] for path in paths]
    return [
        f"{path[-1] if last.count(path[-1]) == 1 else '.'.join(path)}: "
        f"{there.get(path)!r} there, {now.get(path)!r} now"
        for path in paths
        if there.get(path) != now.get(path)
    ]


def _flat(data: Mapping[str, Any], outer: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    found: dict[tuple[str, ...], Any] = {}
    for name, value in data.items():
        path = (*outer, name)
        found |= _flat(value, path) if isinstance(value, Mapping) and value else {path: value}
    return found


def end_attempt(run: RunDir, exit_code: int, *, now: datetime | None = None) -> RunDir:
    """Note in run.json that ``run``'s attempt ended with ``exit_code``."""
    ended = utc_text(now or datetime.now(UTC))
    release(run.path)
    return _change_attempt(run, lambda a: replace(a, ended_utc=ended, exit_code=exit_code))


def note_versions(run: RunDir, found: Mapping[str, str | None]) -> RunDir:
    """Add to ``run``'s attempt the versions only a rank can know (the NCCL really loaded, the driver)."""

    def with_versions(attempt: Attempt) -> Attempt:
        context = attempt.context
        return replace(attempt, context=replace(context, versions={**context.versions, **found}))

    return _change_attempt(run, with_versions)


def _change_attempt(run: RunDir, change: Callable[[Attempt], Attempt]) -> RunDir:
    """run.json, read afresh, with ``change`` applied to the attempt ``run`` was opened with."""
    current = open_run(run.path)
    attempts = (change(a) if a.number == run.attempt else a for a in current.info.attempts)
    return _with_attempts(current, tuple(attempts))


def utc_text(moment: datetime) -> str:
    """``moment`` as ISO 8601 in UTC, to the second: ``2026-11-29T21:54:00Z``."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _with_attempts(run: RunDir, attempts: tuple[Attempt, ...]) -> RunDir:
    changed = RunDir(run.path, replace(run.info, attempts=attempts))
    _write_info(changed)
    return changed


def _this_process(command: Sequence[str] | None) -> Context:
    return Context(
        command=_typed(sys.argv) if command is None else tuple(command),
        host=socket.gethostname(),
        versions=versions(),
        environment=allowed_environment(os.environ),
    )


def _typed(argv: Sequence[str]) -> tuple[str, ...]:
    """``argv`` as one types it: not where this environment keeps clusterlab, nor ``python -m``'s file."""
    program = Path(argv[0])
    ours = program.name == "clusterlab" or program.parts[-2:] == ("clusterlab", "__main__.py")
    return ("clusterlab", *argv[1:]) if ours else tuple(argv)


def _write_info(run: RunDir) -> None:
    write_json(run.path / RUN, info_to_json(run.info))
