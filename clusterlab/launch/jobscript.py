"""The sbatch files people submit, from one pure function.

A job file serves three starts: ``sbatch FILE`` (one rank per GPU through srun and PMIx), ``bash FILE``
inside an allocation (the same), and ``bash FILE`` on any machine (local ranks over gloo). It ends with
the real exit code (slurm/step.sh), since a batch script that ends with an echo is COMPLETED whatever
happened.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from clusterlab.launch.site import Site


@dataclass(frozen=True, slots=True)
class JobTemplate:
    """One job file: ``jobs/<name>.sbatch`` runs ``clusterlab <command>``.

    ``torchrun``: one torchrun per node starts the ranks, for sites whose srun has no PMIx.
    ``measures``: the ranks write a run directory, with which a requeued job goes on; the others look
    and leave nothing, and under bash they look at this machine alone, else on ``local_ranks`` of it.
    """

    name: str
    command: tuple[str, ...]
    summary: str
    example: str
    time_limit: str = "00:30:00"
    torchrun: bool = False
    measures: bool = True
    local_ranks: int = 4

    @property
    def trains(self) -> bool:
        """Whether its ranks train."""
        return self.command[0] == "train"


def _training(strategy: str, summary: str, *, local_ranks: int = 4) -> JobTemplate:
    return JobTemplate(
        f"train_{strategy}",
        ("train", strategy),
        f"Train a tiny transformer: {summary}.",
        "--steps 5",
        local_ranks=local_ranks,
    )


def _sweep(name: str, collective: str, summary: str) -> JobTemplate:
    return JobTemplate(name, ("bench", collective), summary, "-b 1K -e 1M -f 4")


JOBS: tuple[JobTemplate, ...] = (
    _sweep(
        "allreduce_sweep", "all_reduce", "all_reduce: every rank gets the sum of all ranks' data."
    ),
    _sweep(
        "reduce_scatter_sweep",
        "reduce_scatter",
        "reduce_scatter: every rank gets its part of the sum of all ranks' data.",
    ),
    _sweep("all_gather_sweep", "all_gather", "all_gather: every rank gets the data of all ranks."),
    _sweep(
        "all_to_all_sweep",
        "all_to_all",
        "all_to_all: every rank sends a part of its data to every other rank.",
    ),
    _sweep("broadcast_sweep", "broadcast", "broadcast: every rank gets the root's data."),
    _sweep("send_recv_sweep", "send_recv", "send_recv: every rank sends to the next, all at once."),
    JobTemplate(
        "allreduce_sweep_torchrun",
        ("bench", "all_reduce"),
        "all_reduce, the ranks started by one torchrun per node: for a Slurm without PMIx.",
        "-b 1K -e 1M -f 4",
        torchrun=True,
    ),
    JobTemplate(
        "pairs",
        ("bench", "pairs"),
        "pairs: latency and bandwidth between every two ranks, which names the slow link.",
        "-b 64K -e 1M -f 4",
    ),
    JobTemplate(
        "hunt",
        ("hunt",),
        "hunt: measures what tells most, round after round, until what is slow has a name.",
        "--budget 5m",
    ),
    _training("dp", "data parallel, every rank the whole model and its own samples"),
    _training("tp", "tensor parallel, every rank a part of each matrix"),
    _training(
        "sp", "sequence parallel beside tensor parallel, every rank some positions between them"
    ),
    _training("pp", "a pipeline, every rank some layers"),
    _training("ep", "expert parallel, every rank some experts"),
    _training("3d", "tensor, pipeline and data parallel at once", local_ranks=8),
    JobTemplate(
        "doctor",
        ("doctor",),
        "What every rank really got: GPU, NUMA node, cores, NICs; and what is wrong with it.",
        "--environment",
        time_limit="00:05:00",
        measures=False,
    ),
)


def render_job(job: JobTemplate, site: Site, version: str) -> str:
    """The text of ``jobs/<name>.sbatch`` for ``site``."""
    path = f"jobs/{job.name}.sbatch"
    directives = "\n".join(f"#SBATCH {d}" for d in _directives(job, site))
    local = f' --ranks "${{RANKS:-{job.local_ranks}}}" --name {job.name}' if job.measures else ""
    return f"""\
#!/usr/bin/env bash
{directives}
#
{_usage(job, path)}
# Rendered by clusterlab {version}; `clusterlab jobs render --site site.toml` makes your cluster's own.
set -uo pipefail

here=$(cd "$(dirname "${{BASH_SOURCE[0]}}")/.." && pwd)
PATH=$here/.venv/bin:${{SLURM_SUBMIT_DIR:-$PWD}}/.venv/bin:$PATH
CLUSTERLAB=${{CLUSTERLAB:-$(command -v clusterlab)}}
if [ -z "$CLUSTERLAB" ]; then
  echo "$0: no clusterlab found; run 'make setup', put it on PATH or set CLUSTERLAB" >&2
  exit 2
fi

if [ -z "${{SLURM_NNODES:-}}" ]; then
  exec "$CLUSTERLAB" {shlex.join(job.command)}{local} "$@"
fi

{_slurm_part(job, site)}"""


def _usage(job: JobTemplate, path: str) -> str:
    command = " ".join(job.command)
    if not job.measures:
        return f"""\
# {job.summary}
#
#   sbatch {path}                            a cluster: one rank per GPU
#   sbatch -N4 --gpus-per-node=4 {path} --json
#   bash {path} {job.example}          this machine, one process
#
# Arguments after the file name are those of clusterlab {command} --help. Environment:
#   RANKS_PER_NODE (default: the GPUs)"""
    if job.trains:
        return _training_usage(job, path)
    if job.command == ("hunt",):
        return _hunt_usage(job, path)
    return f"""\
# {job.summary}
# Every size is predicted before it is measured; both are kept in one run directory.
#
#   sbatch {path}                            a cluster: one rank per GPU
#   sbatch -N4 --gpus-per-node=4 {path} -b 8 -e 1G
#   bash {path} {job.example}          this machine: local ranks over gloo
#
# Arguments after the file name are nccl-tests' (clusterlab {command} --help). Environment:
#   RANKS (under bash, default 4)  RANKS_PER_NODE (default: the GPUs)  CLUSTERLAB_RUNS (default runs/)"""


def _training_usage(job: JobTemplate, path: str) -> str:
    ranks = f"RANKS (under bash, default {job.local_ranks})"
    return f"""\
# {job.summary}
# Every step is kept in one run directory. A checkpoint every 10 steps, on SIGTERM and on SIGUSR1 (scancel
# --signal=USR1): a requeued job goes on from the last.
#
#   sbatch {path}                            a cluster: one rank per GPU
#   sbatch -N4 --gpus-per-node=4 {path} --steps 100
#   bash {path} {job.example}          this machine: local ranks over gloo
#
# Arguments after the file name are those of clusterlab {" ".join(job.command)} --help. Environment:
#   {ranks}  RANKS_PER_NODE (default: the GPUs)  CLUSTERLAB_RUNS (default runs/)"""


def _hunt_usage(job: JobTemplate, path: str) -> str:
    return f"""\
# {job.summary}
# What was measured, why, and what is at fault is kept in one run directory.
#
#   sbatch {path}                            a cluster: one rank per GPU
#   sbatch -N4 --gpus-per-node=4 {path} --fabric mine.yaml --routing pinned
#   bash {path} {job.example}          this machine: its GPUs
#
# Arguments after the file name are those of clusterlab {" ".join(job.command)} --help. Environment:
#   RANKS (under bash, default 4)  RANKS_PER_NODE (default: the GPUs)  CLUSTERLAB_RUNS (default runs/)"""


def _directives(job: JobTemplate, site: Site) -> list[str]:
    options = {
        "exclusive": None,
        "job-name": job.name,
        "nodes": str(site.nodes),
        "open-mode": "append",  # a requeued job goes on in the same file
        "output": "%x-%j.out",
        "requeue" if job.measures else "no-requeue": None,
        "time": job.time_limit,
        "partition": site.partition or False,
        "account": site.account or False,
        "qos": site.qos or False,
    }
    if site.gpus_per_node:
        gres = site.gres_style == "gres"
        options["gres" if gres else "gpus-per-node"] = ("gpu:" if gres else "") + str(
            site.gpus_per_node
        )
    return [
        f"--{name}" if value is None else f"--{name}={shlex.quote(str(value))}"
        for name, value in sorted(options.items())
        if value is not False
    ]


def _slurm_part(job: JobTemplate, site: Site) -> str:
    modules = "".join(f"module load {shlex.quote(m)}\n" for m in site.modules)
    srun = _torchrun_step(job, site) if job.torchrun else _pmix_step(job, site)
    tasks = "tasks=${RANKS_PER_NODE:-${SLURM_GPUS_ON_NODE:-1}}"
    if not job.measures:
        return f"""\
{modules}{tasks}
source "$("$CLUSTERLAB" path slurm)/step.sh"
{srun}
step_code $? # a rank that never came is ended by --wait
exit $?
"""
    return f"""\
{modules}{tasks}
CLUSTERLAB_RUN_DIR=$("$CLUSTERLAB" runs create --name {job.name} --job "$SLURM_JOB_ID") || exit
export CLUSTERLAB_RUN_DIR
source "$("$CLUSTERLAB" path slurm)/step.sh" # run_step: signals, exit codes, requeue after a lost node
{srun}
exit $?
"""


_CONTINUED = " \\\n  "


def _pmix_step(job: JobTemplate, site: Site) -> str:
    """One task per rank; PMIx tells each who it is."""
    run_step = "run_step " if job.measures else ""
    return _CONTINUED.join(
        [
            f'{run_step}srun --mpi={site.mpi} --nodes="$SLURM_NNODES" --ntasks="$((SLURM_NNODES * tasks))"',
            # --wait, not --kill-on-bad-exit: ranks that lose a peer say so and end with a code that
            # means something; what still runs half a minute later is killed.
            '--ntasks-per-node="$tasks" --wait=30',
            *_container_options(site),
            *_wrappers(site),
            f'{_program(site)} {shlex.join(job.command)} "$@"',
        ]
    )


def _torchrun_step(job: JobTemplate, site: Site) -> str:
    """One task per node, a torchrun, which starts that node's ranks and tells each who it is."""
    torchrun = "torchrun" if site.container_runtime != "none" else '"${CLUSTERLAB%/*}/torchrun"'
    meet = '"$head:$((20000 + SLURM_JOB_ID % 10000))"'
    # The batch script runs on the job's first node, whose own name every node resolves.
    return "head=$(hostname)\n" + _CONTINUED.join(
        [
            'run_step srun --mpi=none --nodes="$SLURM_NNODES" --ntasks="$SLURM_NNODES"',
            "--ntasks-per-node=1 --wait=30",
            *_container_options(site),
            *([_wrappers(site)[1]] if len(_wrappers(site)) > 1 else []),
            f'{torchrun} --nnodes="$SLURM_NNODES" --nproc-per-node="$tasks"',
            f'--rdzv-backend=c10d --rdzv-id="$SLURM_JOB_ID" --rdzv-endpoint={meet}',
            f'-m clusterlab {shlex.join(job.command)} "$@"',
        ]
    )


def _container_options(site: Site) -> list[str]:
    """What srun is told when pyxis starts the ranks in a container."""
    if site.container_runtime != "pyxis":
        return []
    mounts = ",".join(site.container_mounts)
    image = f"--container-image={shlex.quote(site.container_image)}"
    return [image, *([f"--container-mounts={shlex.quote(mounts)}"] if mounts else [])]


def _wrappers(site: Site) -> list[str]:
    """Commands between srun and clusterlab: the shipped launcher, then the site's container."""
    if site.container_runtime == "pyxis":
        return []  # the launcher lies outside the image
    # stdout is rank 0's report, for people and programs to read as it is
    launcher = '"$("$CLUSTERLAB" path slurm)/launch.sh" --tag=stderr'
    if site.container_runtime == "none":
        return [launcher]
    binds = "".join(f"--bind {shlex.quote(m)} " for m in site.container_mounts)
    return [launcher, f"apptainer exec --nv {binds}{shlex.quote(site.container_image)}"]


def _program(site: Site) -> str:
    return (
        '"$CLUSTERLAB"' if site.container_runtime == "none" else shlex.quote(site.container_program)
    )
