"""Where a submitted job stands, asked of slurmctld: accounting (sacct) is not needed."""

from __future__ import annotations

import os
import shutil
import subprocess

from clusterlab.core.errors import DeadlineError
from clusterlab.formats.scontrol import SQUEUE_FORMAT, JobRecord, parse_jobs, parse_squeue

_ANSWER_S = 30.0
_FORGOTTEN = "Invalid job id"


class SilentError(DeadlineError):
    """slurmctld gave no answer; the job may well be running."""


def ask_job(job_id: str) -> JobRecord | None:
    """The job as slurmctld has it; None when it has forgotten it (MinJobAge after its end, 300 s).

    By scontrol, or by squeue where users have no scontrol. Raises SilentError when neither answers.
    """
    if shutil.which("scontrol"):
        found = parse_jobs(_answer("scontrol", "show", "job", "--oneliner", job_id))
    else:
        options = ("--noheader", "--states=all", f"--format={SQUEUE_FORMAT}", f"--jobs={job_id}")
        found = parse_squeue(_answer("squeue", *options))
    return next((job for job in found if job.job_id == job_id), None)


def _answer(*command: str) -> str:
    """What the command prints; empty when Slurm does not know the job."""
    try:
        done = subprocess.run(
            command,
            env=os.environ | {"LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ANSWER_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SilentError(f"no answer: {error}", where=command[0]) from None
    if done.returncode == 0 or _FORGOTTEN in done.stderr:
        return done.stdout
    said = done.stderr.strip().splitlines()
    raise SilentError(said[-1] if said else f"exit code {done.returncode}", where=command[0])
