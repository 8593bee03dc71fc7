"""How a submitted job ended, in exit codes and one sentence: pure, from what Slurm and srun say."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass

from clusterlab.core.errors import ExitCode
from clusterlab.formats.scontrol import JobRecord
from clusterlab.formats.srun import TasksEnded, parse_lost_nodes, parse_task_ends
from clusterlab.launch.local_outcome import signal_name
from clusterlab.launch.roll_call import rank_words

_OURS = (ExitCode.FINDING, ExitCode.USAGE, ExitCode.NO_VERDICT, ExitCode.DEADLINE)
# slurmd could not even open the job's output (slurmd/slurmstepd: ESLURMD_… as "0:53")
_NO_OUTPUT_SIGNAL = 53

_ENDED_BY_SLURM = {
    "BOOT_FAIL": "its nodes did not boot",
    "CANCELLED": "it was cancelled",
    "DEADLINE": "its deadline passed",
    "NODE_FAIL": "a node failed",
    "OUT_OF_MEMORY": "it ran out of memory",
    "PREEMPTED": "another job preempted it",
    "REVOKED": "it was revoked",
    "TIMEOUT": "it reached its time limit",
}


@dataclass(frozen=True, slots=True)
class JobEnd:
    """``exit_code`` as in core.errors. ``reason``: None when all is well. The log that says more is that
    of ``rank``, whose own exit code ended the job, or with ``see_batch_log`` the batch script's.
    """

    exit_code: int
    reason: str | None
    rank: int | None = None
    see_batch_log: bool = False


def judge_job(
    job_id: str,
    job: JobRecord | None,
    batch_log: str,
    sweep_exit_code: int | None,
) -> JobEnd:
    """What the end of the job means.

    ``job``: as Slurm has it, None when it has forgotten the job. ``batch_log``: what srun said.
    ``sweep_exit_code``: how rank 0 says the sweep ended, where it could.
    """
    if job is None:
        if sweep_exit_code is not None:
            return JobEnd(sweep_exit_code, _failure(job_id, sweep_exit_code))
        return JobEnd(
            ExitCode.DEADLINE, f"Slurm no longer knows job {job_id}, and its sweep has no end"
        )
    if job.state == "COMPLETED":
        if sweep_exit_code == ExitCode.OK:
            return JobEnd(ExitCode.OK, None)
        # srun returns 0 when a step was aborted before its tasks ran (Slurm 22.05)
        reason = f"job {job_id} is completed for Slurm, but its sweep did not end"
        return JobEnd(ExitCode.DEADLINE, reason, see_batch_log=True)
    if job.state in _ENDED_BY_SLURM:
        reason = _ENDED_BY_SLURM[job.state] + _more(job, batch_log)
        return JobEnd(ExitCode.DEADLINE, f"job {job_id}: {reason}")
    return _failed(job, parse_task_ends(batch_log), sweep_exit_code)


def _more(job: JobRecord, batch_log: str) -> str:
    known = None
    if job.state == "TIMEOUT":
        known = job.fields.get("TimeLimit")
    elif job.state == "NODE_FAIL":
        known = ", ".join(parse_lost_nodes(batch_log)) or (job.nodes and f"one of {job.nodes}")
    return f" ({known})" if known else ""


def _failure(job_id: str, code: int) -> str | None:
    return f"job {job_id} ended with exit code {code}" if code else None


def _failed(job: JobRecord, task_ends: Sequence[TasksEnded], sweep_exit_code: int | None) -> JobEnd:
    """The rank that ended the job, or else what the batch script's end tells."""
    culprit = _culprit(task_ends)
    if culprit is not None:
        code = int(culprit.exit_code if culprit.exit_code in _OURS else ExitCode.DEADLINE)
        rank = culprit.ranks[0] if culprit.exit_code and culprit.ranks else None
        return JobEnd(code, f"job {job.job_id}: {sentence(culprit)}", rank)
    if job.exit_signal == _NO_OUTPUT_SIGNAL:
        reason = (
            "its nodes could not write to the run directory: it must lie on a file system that all "
            "nodes share, under the same path (set $CLUSTERLAB_RUNS)"
        )
        return JobEnd(ExitCode.DEADLINE, f"job {job.job_id}: {reason}")
    if job.exit_signal:
        ended = f"its script was ended by signal {job.exit_signal} ({signal_name(job.exit_signal)})"
        return JobEnd(ExitCode.DEADLINE, f"job {job.job_id}: {ended}")
    status = job.exit_status if job.exit_status is not None else sweep_exit_code
    code = int(status) if status in _OURS else ExitCode.DEADLINE
    shown = "" if status is None else f" with exit code {status}"
    return JobEnd(code, f"job {job.job_id} failed{shown}", see_batch_log=True)


def _culprit(task_ends: Sequence[TasksEnded]) -> TasksEnded | None:
    """Whose end ended the job: a rank that a signal ended comes first, the errors of the others follow
    from it, and so may an exit code 4. SIGTERM is what srun then sends to the rest, which heeds it.
    """
    by_signal = [e for e in task_ends if e.signal not in (None, signal.SIGTERM)]
    by_code = [e for e in task_ends if e.exit_code not in (None, 0, 128 + signal.SIGTERM)]
    own = [e for e in by_code if e.exit_code != ExitCode.DEADLINE]
    return next(iter([*by_signal, *own, *by_code, *task_ends]), None)


def sentence(ended: TasksEnded) -> str:
    """``rank 3 on n1 was ended by signal 9 (SIGKILL)``."""
    who = f"{rank_words(ended.ranks)} on {ended.host}" if ended.ranks else f"a rank on {ended.host}"
    were = "were" if len(ended.ranks) > 1 else "was"
    if ended.signal is not None:
        return f"{who} {were} ended by signal {ended.signal} ({signal_name(ended.signal)})"
    return (
        f"{who} ended with exit code {ended.exit_code}"
        if ended.exit_code
        else f"{who}: {ended.text}"
    )
