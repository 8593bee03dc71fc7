"""The variables that sbatch and salloc leave for the steps of a job, as far as srun reads them.

Follows set_envs of Slurm 22.05's src/sbatch/opt.c, set_env_from_opts and env_array_for_batch_job of
src/common/env.c. --gres is not passed on by a variable; -c only by SLURM_CPUS_PER_TASK, which srun of
22.05 and 23.02 does not read.
"""

from __future__ import annotations

from clusterlab.binding.explain.allocation import Allocation
from clusterlab.binding.explain.options import Options


def step_environment(options: Options, allocation: Allocation) -> dict[str, str]:
    """What srun finds in the batch script of a job submitted with ``options``."""
    request = allocation.request
    tasks = request.num_tasks
    if request.ntasks_per_node and tasks:
        tasks = request.ntasks_per_node * len(allocation.shares)
    if options.ntasks_set:
        tasks = options.ntasks
    bind = options.gpu_bind
    values = {
        "SLURM_JOB_NUM_NODES": len(allocation.shares),
        "SLURM_NTASKS": tasks or None,
        "SLURM_NTASKS_PER_NODE": options.ntasks_per_node,
        "SLURM_NTASKS_PER_GPU": options.ntasks_per_gpu,
        "SLURM_CPUS_PER_TASK": options.cpus_per_task,
        "SLURM_THREADS_PER_CORE": options.threads_per_core,
        "SLURM_DISTRIBUTION": _distribution_text(options),
        "SLURM_DIST_PLANESIZE": options.distribution.plane_size,
        "SLURM_CPUS_PER_GPU": options.cpus_per_gpu or None,
        "SLURM_GPUS": options.gpus,
        "SLURM_GPU_BIND": bind.text.removeprefix("gpu:") if bind else None,
        "SLURM_GPUS_PER_NODE": options.gpus_per_node,
        "SLURM_GPUS_PER_SOCKET": options.gpus_per_socket,
        "SLURM_GPUS_PER_TASK": options.gpus_per_task,
        "SLURM_HINT": options.hint,
        "SLURM_OVERCOMMIT": "1" if options.overcommit else None,
    }
    return {name: str(value) for name, value in values.items() if value is not None}


def _distribution_text(options: Options) -> str | None:
    said = options.distribution
    if said.nodes is None:
        return None
    words = said.nodes if said.sockets is None else f"{said.nodes}:{said.sockets}"
    flag = {True: ",pack", False: ",nopack", None: ""}[said.pack]
    return words + flag
