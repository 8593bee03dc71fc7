"""Submit a Python call as a Slurm job through submitit, one task per rank, or print the sbatch script.

submitit pickles the call, writes the script, calls sbatch, and starts ``submitit.core._submit`` on every
task. What it needs from us: srun's options, the launcher that binds ranks, an exit code that tells how the
ranks ended, and a folder that the nodes share with this host.
"""

from __future__ import annotations

import io
import os
import shlex
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clusterlab.core.errors import UsageError
from clusterlab.core.shipped import shipped
from clusterlab.launch.site import Site

Task = Callable[[], object]
"""What every task of the job calls: importable on the nodes, with arguments that can be pickled."""

_NEEDED = ("sbatch", "srun")
_STUB = "#!/bin/sh\necho 'Submitted batch job 0'\n"

# Variables of the job or launcher this process runs in would make ranks of a new job doubt who they are.
_OF_A_JOB = ("SLURM_", "SLURMD_", "SRUN_", "PMIX_", "PMI_")
_OF_A_RANK = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
# These make sbatch do something else than submit this one script and return.
_OF_SBATCH = ("SBATCH_WAIT", "SBATCH_ARRAY_INX", "SBATCH_TIMELIMIT", "SBATCH_OPEN_MODE")

START_MARK = "clusterlab: job starts"
"""Begins a line of the batch log at every start of the job: a requeued job starts again."""


@dataclass(frozen=True, slots=True)
class Submission:
    """One job. ``folder`` takes script, pickles and logs, and is where the tasks run: absolute, seen by
    all nodes. ``gpus_per_node`` 0: no GPUs are asked for. ``exports`` are set in the script.
    """

    name: str
    folder: Path
    site: Site
    nodes: int
    ranks_per_node: int
    gpus_per_node: int
    time_limit: str
    requeue: bool = True
    exports: Mapping[str, str] = field(default_factory=dict)

    @property
    def world_size(self) -> int:
        """Ranks in all."""
        return self.nodes * self.ranks_per_node


@dataclass(frozen=True, slots=True)
class SubmittedJob:
    """A job that sbatch took. ``folder`` is its Submission's."""

    job_id: str
    folder: Path

    @property
    def script(self) -> Path:
        """What was handed to sbatch."""
        return self.folder / f"{self.job_id}_submission.sh"

    @property
    def batch_log(self) -> Path:
        """What the script and srun said, every start of the job below the one before."""
        return self.folder / f"{self.job_id}_batch.log"

    def stdout(self, rank: int) -> Path:
        """What ``rank`` printed."""
        return self.folder / f"{self.job_id}_{rank}_log.out"

    def stderr(self, rank: int) -> Path:
        """What ``rank`` printed on stderr."""
        return self.folder / f"{self.job_id}_{rank}_log.err"


def require_slurm() -> None:
    """Raise UsageError naming what is missing when this host cannot submit and follow jobs."""
    missing = [name for name in _NEEDED if shutil.which(name) is None]
    if not shutil.which("scontrol") and not shutil.which("squeue"):
        missing.append("scontrol (or squeue)")
    if missing:
        raise UsageError(
            f"no {', no '.join(missing)} on PATH: this host cannot submit jobs to Slurm",
            where="submit",
            fix="run it on a login host of the cluster, or `clusterlab lab up` and then"
            " `clusterlab lab exec -- clusterlab submit …`; --dry-run prints the script anywhere",
        )


def submit(submission: Submission, task: Task) -> SubmittedJob:
    """Hand the job to sbatch. Raises UsageError with what sbatch said when it refuses."""
    require_slurm()
    with _environment(submission):
        return _submit(submission, task)


def render(submission: Submission, task: Task) -> str:
    """The sbatch script that ``submit`` would hand over; nothing is submitted, no Slurm is needed.

    submitit itself writes it, into ``submission.folder``, with an sbatch on PATH that does nothing.
    """
    with tempfile.TemporaryDirectory(prefix="clusterlab-submit-") as folder:
        for name in _NEEDED:
            stub = Path(folder, name)
            stub.write_text(_STUB)
            stub.chmod(0o755)
        with _environment(submission, path=f"{folder}{os.pathsep}{os.environ.get('PATH', '')}"):
            return _submit(submission, task).script.read_text(encoding="utf-8")


def _submit(submission: Submission, task: Task) -> SubmittedJob:
    import submitit
    from submitit.core.utils import FailedJobError, FailedSubmissionError

    executor = submitit.SlurmExecutor(submission.folder, python=_python())
    executor.update_parameters(**parameters(submission))
    try:
        with redirect_stderr(io.StringIO()):  # submitit prints there what it raises
            job = executor.submit(task)
    except (FailedJobError, FailedSubmissionError, OSError) as error:
        raise UsageError(_said(error), where="sbatch") from None
    return SubmittedJob(job.job_id, submission.folder)


def _said(error: Exception) -> str:
    lines = [line.removeprefix("sbatch: error: ") for line in str(error).splitlines() if line]
    return "; ".join(lines) or type(error).__name__


def _python() -> str:
    """What srun starts: this Python, behind the launcher that binds the rank as it does in jobs/."""
    return shlex.join([str(shipped("slurm") / "launch.sh"), "--tag=stderr", sys.executable])


def parameters(submission: Submission) -> dict[str, Any]:
    """The job in submitit's words (``SlurmExecutor.update_parameters``)."""
    site, log = submission.site, str(submission.folder / "%j_batch.log")
    return {
        "job_name": submission.name,
        "nodes": submission.nodes,
        "ntasks_per_node": submission.ranks_per_node,
        "partition": site.partition or None,
        "account": site.account or None,
        "qos": site.qos or None,
        **_gpus(submission),
        "exclusive": True,
        "wckey": None,  # submitit's own would be refused where wckeys are checked
        "setup": _setup(submission),
        "srun_args": [
            f"--mpi={site.mpi}",
            f"--nodes={submission.nodes}",
            f"--ntasks={submission.world_size}",
            f"--ntasks-per-node={submission.ranks_per_node}",
            # not --kill-on-bad-exit: ranks that lose a peer say so, and rank 0 ends the run
            "--wait=30",
            "--export=ALL",  # also where sbatch was told --export=NONE
        ],
        "additional_parameters": {
            # submitit would mix the script's output with rank 0's
            "output": log,
            "error": log,
            "time": submission.time_limit,
            "chdir": str(submission.folder),
            # submitit always asks for a warning before the time limit. Its USR2 would end ranks that
            # have no handler yet; a CONT does nothing to a process that runs.
            "signal": "CONT@60",
            "requeue" if submission.requeue else "no-requeue": True,
        },
    }


def _gpus(submission: Submission) -> dict[str, Any]:
    count = submission.gpus_per_node
    if not count:
        return {}
    if submission.site.gres_style == "gres":
        return {"gres": f"gpu:{count}"}
    return {"gpus_per_node": count}


def _setup(submission: Submission) -> list[str]:
    exports = {"SUBMITIT_LOG_LEVEL": "ERROR", **submission.exports}
    step = shlex.quote(str(shipped("slurm") / "step.sh"))
    return [
        f'echo "{START_MARK} on $SLURM_JOB_NODELIST, restarts ${{SLURM_RESTART_COUNT:-0}}" >&2',
        *(f"module load {shlex.quote(m)}" for m in submission.site.modules),
        *(f"export {name}={shlex.quote(value)}" for name, value in sorted(exports.items())),
        *_python_path(),
        f"source {step} # run_step: signals, exit codes, requeue after a lost node, as in jobs/",
        'srun() { run_step "$(type -P srun)" "$@"; }',
    ]


def _python_path() -> list[str]:
    """Where the nodes find clusterlab when it runs from a checkout: the tasks start elsewhere."""
    parent = Path(__file__).resolve().parents[2]
    if str(parent) in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        return []
    return [f'export PYTHONPATH={shlex.quote(str(parent))}"${{PYTHONPATH:+:$PYTHONPATH}}"']


@contextmanager
def _environment(submission: Submission, *, path: str | None = None) -> Iterator[None]:
    """This process's environment as sbatch should see it, and hand it on; restored in the end.

    SBATCH_X would overrule the script's own --x (sbatch(1), INPUT ENVIRONMENT VARIABLES).
    """
    before = dict(os.environ)
    asked = parameters(submission)
    options = [k for k, v in (asked | asked["additional_parameters"]).items() if v is not None]
    ours = {f"SBATCH_{o.upper().replace('-', '_')}" for o in options} | set(_OF_SBATCH)
    inside = "SLURM_JOB_ID" in before
    for name in before:
        of_a_job = inside and name.startswith(_OF_A_JOB) and name != "SLURM_CONF"
        if of_a_job or name in _OF_A_RANK or name in ours or name.startswith("SUBMITIT_"):
            del os.environ[name]
    os.environ["SUBMITIT_LOG_LEVEL"] = "ERROR"  # read when submitit is imported
    if path is not None:
        os.environ["PATH"] = path
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
