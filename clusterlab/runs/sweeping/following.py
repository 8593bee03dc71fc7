"""Waiting for a submitted job: its table as it grows, its state when it changes, its end and what it means.

What Slurm says comes from slurmctld, how far the sweep is from the run directory. Nothing here is needed
for the job to go on.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

from clusterlab.core.errors import DeadlineError
from clusterlab.formats.scontrol import JobRecord
from clusterlab.formats.srun import parse_task_ends
from clusterlab.launch.submit import START_MARK, SubmittedJob
from clusterlab.launch.submit_end import JobEnd, judge_job, sentence
from clusterlab.launch.submit_state import SilentError, ask_job
from clusterlab.records.growing import Growing
from clusterlab.records.reading import read_regular
from clusterlab.records.run_dir import RunDir, open_run
from clusterlab.runs.finish import conclude, end_run, tell, trouble_of

Ask = Callable[[str], JobRecord | None]

_LOOK_S = 0.25
_MOST_BETWEEN_ASKING_S = 5.0
_STALE_S = 15.0
SILENCE_S = 600.0
"""How long slurmctld may give no answer before we stop waiting for it."""

# squeue(1), JOB REASON CODES: time alone does not change these.
HOPELESS = (
    "BadConstraints",
    "InvalidAccount",
    "InvalidQOS",
    "PartitionNodeLimit",
    "PartitionTimeLimit",
)


def follow(run: RunDir, job: SubmittedJob) -> int:
    """Wait for the end of ``job``, show its table and its progress; the exit code.

    Ctrl-C stops the waiting, not the job: how to go on is said, and KeyboardInterrupt goes through.
    """
    try:
        record = wait_for_end(run, job)
    except KeyboardInterrupt:
        _say(f"stopped waiting; job {job.job_id} goes on; {how_to_go_on(run, job)}")
        raise
    return _end(_run_at_end(run.path, record), job, record)


def how_to_go_on(run: RunDir, job: SubmittedJob) -> str:
    """What to type to wait for the job, or to cancel it."""
    return f"wait for it: clusterlab follow {run.path}; cancel it: scancel {job.job_id}"


def wait_for_end(
    run: RunDir,
    job: SubmittedJob,
    *,
    ask: Ask = ask_job,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> JobRecord | None:
    """The job as Slurm had it at its end; None when Slurm has already forgotten it.

    Raises DeadlineError when slurmctld stays silent for SILENCE_S.
    """
    table, news = Tail(job.stdout(0)), _News(run, job)
    start = answered = clock()
    next_time = start
    while True:
        for line in table.lines():
            print(line, flush=True)
        news.look()
        now = clock()
        if now >= next_time:
            next_time = now + min(_MOST_BETWEEN_ASKING_S, 1 + (now - start) / 20)
            try:
                record = ask(job.job_id)
            except SilentError as error:
                news.silent(error)
                if now - answered > SILENCE_S:
                    raise _gave_up(run, job, error) from None
            else:
                answered = now
                if record is None or record.over:
                    for line in table.lines(all_of_it=True):
                        print(line, flush=True)
                    return record
                news.state(record)
        sleep(_LOOK_S)


def _gave_up(run: RunDir, job: SubmittedJob, error: SilentError) -> DeadlineError:
    return DeadlineError(
        f"no answer from Slurm for {SILENCE_S:.0f} s ({error}); job {job.job_id} may be running",
        fix=how_to_go_on(run, job),
    )


class Tail:
    """The lines that a growing text gains; a file that is not there yet has none."""

    def __init__(self, path: Path) -> None:
        self._file = Growing(path)

    def lines(self, *, all_of_it: bool = False) -> list[str]:
        """Complete lines that came since the last call; with ``all_of_it`` an unfinished one too."""
        return [line.decode("utf-8", "replace") for line in self._file.lines(all_of_it=all_of_it)]


class _News:
    """What is said on stderr while waiting: a line when the state changes, and at every tenth of the
    points.
    """

    def __init__(self, run: RunDir, job: SubmittedJob) -> None:
        self._run = run
        self._job_id = job.job_id
        self._records = Tail(run.records_path)
        self._batch_log = Tail(job.batch_log)
        self._done = len(self._records.lines())
        self._planned = run.info.planned_points
        self._said = ""

    def look(self) -> None:
        """See what the log and the records have gained. srun tells at once when a task ends badly, the
        job's state only when the other ranks have ended too.
        """
        for ended in parse_task_ends("\n".join(self._batch_log.lines()))[:1]:
            _say(f"job {self._job_id}: {sentence(ended)}; waiting for the other ranks to end")
        gained = len(self._records.lines())
        if not gained:
            return
        if self._planned is None:
            self._planned = open_run(self._run.path).info.planned_points
        before, self._done = self._done, self._done + gained
        if self._planned and self._done * 10 // self._planned > before * 10 // self._planned:
            _say(f"job {self._job_id}: {self._done} of {self._planned} points measured")

    def state(self, record: JobRecord) -> None:
        """Say the state when it is another than last time."""
        text = f"job {record.job_id} is {record.state.lower()}"
        if record.state == "PENDING":
            text += f" ({record.reason})" if record.reason else ""
            text += f", start {record.restarts + 1}" if record.restarts else ""
            if record.reason in HOPELESS:
                text += f"; it does not start by itself; cancel it: scancel {self._job_id}"
        elif record.nodes:
            text += f" on {record.nodes}"
        self._once(text)

    def silent(self, error: SilentError) -> None:
        """Say that Slurm does not answer."""
        self._once(f"job {self._job_id}: Slurm does not answer ({error}); still waiting")

    def _once(self, text: str) -> None:
        if text != self._said:
            self._said = text
            _say(text)


def _run_at_end(path: Path, record: JobRecord | None) -> RunDir:
    """The run as its ranks left it. Over NFS an old run.json may be seen for a while: when Slurm says
    that all went well, rank 0's word is waited for.
    """
    too_late = time.monotonic() + _STALE_S
    while True:
        path.chmod(path.stat().st_mode)  # makes an NFS client ask the server again
        run = open_run(path)
        ended = bool(run.info.attempts) and run.info.attempts[-1].ended_utc is not None
        well = record is not None and record.state == "COMPLETED"
        if ended or not well or time.monotonic() > too_late:
            return run
        time.sleep(_LOOK_S)


def _end(run: RunDir, job: SubmittedJob, record: JobRecord | None) -> int:
    """Say how the job ended and what it measured; the exit code."""
    latest = run.info.attempts[-1] if run.info.attempts else None
    end = judge_job(
        job.job_id,
        record,
        _last_start(job.batch_log),
        latest.exit_code if latest else None,
    )
    if end.reason:
        _say(end.reason)
        for line in _what_was_said(job, end):
            print(f"  {line}", file=sys.stderr)
    if latest is None:
        _say(f"nothing was measured; logs {job.folder}")
    elif latest.ended_utc is None:  # rank 0 could not say so itself
        end_run(run.path, end.exit_code, None, cause=end.reason)
    elif not run.report_path.exists():
        conclude(run, None)
    else:
        trouble = trouble_of(run)
        for line in trouble.finding.evidence if trouble else ():
            print(f"  {line}", file=sys.stderr)
        tell(run)
        _say(f"report {run.report_path}")
    return end.exit_code


def _last_start(log: Path) -> str:
    """What the batch log holds of the job's last start."""
    try:
        return read_regular(log).decode(errors="replace").rpartition(START_MARK)[2]
    except FileNotFoundError:
        return ""


def _what_was_said(job: SubmittedJob, end: JobEnd) -> list[str]:
    """The last lines of the log that tells why, for people."""
    lines: list[str] = []
    if end.rank is not None:
        # what all ranks were told alike, rank 0 alone has printed
        lines = Tail(job.stderr(end.rank)).lines() or Tail(job.stderr(0)).lines()
    elif end.see_batch_log:
        lines = _last_start(job.batch_log).splitlines()[1:]
    return [line for line in lines if line.strip()][-3:]


def _say(text: str) -> None:
    print(f"clusterlab: {text}", file=sys.stderr, flush=True)
