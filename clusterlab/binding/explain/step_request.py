"""What srun asks slurmctld for when it starts a step.

Follows _create_job_step_create_request of Slurm 22.05's src/srun/libsrun/launch.c, and the counts that
src/common/gres.c derives for a step (gres_step_state_validate, gres_step_test).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from clusterlab.binding.explain.allocation import Allocation, NodeShare
from clusterlab.binding.explain.distribution import Distribution
from clusterlab.binding.explain.gpu_request import GpuRequest
from clusterlab.binding.explain.options import Options, gpu_counts
from clusterlab.binding.explain.rejection import INVALID_GRES, RejectedError

NO_STEP = "srun: error: Unable to create step for job: "


@dataclass(slots=True)
class StepShare:
    """A step's part of one node: task ids in local order, the cores and GPUs they run on."""

    share: NodeShare
    tasks: list[int]
    cores: frozenset[int] = frozenset()
    gpus: frozenset[int] = frozenset()


@dataclass(slots=True)
class StepRequest:
    """What srun asks slurmctld for."""

    num_tasks: int
    min_nodes: int
    max_nodes: int
    cpu_count: int
    gpus: GpuRequest
    distribution: Distribution
    tasks_per_node: int | None
    whole: bool
    overlap: bool
    overcommit: bool
    nodelist: list[str] | None
    exclude: list[str]
    relative: int | None
    threads_per_core: int | None
    cpus_per_task: int = 0


def step_request(options: Options, allocation: Allocation, *, direct: bool) -> StepRequest:
    hosts = len(allocation.shares)
    if not direct and options.max_nodes:
        hosts = min(hosts, options.max_nodes)
    min_nodes = min(options.min_nodes or hosts, hosts) if options.min_nodes else hosts
    exact = options.exact
    tasks = options.ntasks
    counted = options.ntasks_set or options.ntasks_per_gpu is not None
    gpus = gpu_counts(options)
    if options.overcommit:
        cpu_count = _job_cpus(options, allocation) if direct else min_nodes
    elif options.cpus_per_task is not None:
        cpu_count = tasks * options.cpus_per_task
        exact = True
    elif options.gpus_per_task and options.cpus_per_gpu:
        cpu_count = tasks * gpus["per_task"] * options.cpus_per_gpu
    elif counted or not direct:
        cpu_count = tasks
    else:
        cpu_count = _job_cpus(options, allocation)
    request = StepRequest(
        num_tasks=tasks,
        min_nodes=min_nodes,
        max_nodes=min(options.max_nodes or hosts, hosts),
        cpu_count=cpu_count,
        gpus=_step_gpus(options, allocation, gpus),
        distribution=options.distribution,
        tasks_per_node=options.ntasks_per_node,
        whole=not exact,
        overlap=options.overlap,
        overcommit=options.overcommit,
        nodelist=options.nodelist,
        exclude=options.exclude or [],
        relative=options.relative,
        threads_per_core=options.threads_per_core,
    )
    settle_tasks_per_gpu(request, options.ntasks_per_gpu)
    if options.distribution.nodes is None:
        few = request.num_tasks <= request.min_nodes
        nodes: Literal["cyclic", "block"] = "cyclic" if few else "block"
        request.distribution = replace(options.distribution, nodes=nodes)
    return request


def _job_cpus(options: Options, allocation: Allocation) -> int:
    if options.cpus_per_task is not None:
        return options.ntasks * options.cpus_per_task
    return allocation.total_cpus


def _step_gpus(options: Options, allocation: Allocation, asked: dict[str, int]) -> GpuRequest:
    """The step's own request; the job's where it says nothing of GPUs at all."""
    said = any(
        (options.gpus, options.gpus_per_node, options.gpus_per_socket, options.gpus_per_task)
    )
    per_gpu = options.cpus_per_gpu
    if options.gres is not None:
        if options.gres.lower() == "none":
            if options.gpus_per_node:
                raise RejectedError(f"{NO_STEP}Invalid Trackable RESource (TRES) specification")
            return GpuRequest()
        said = True
    if said:
        return replace(GpuRequest(cpus_per_gpu=per_gpu), **asked)  # type: ignore[arg-type]
    return replace(allocation.request.asked_gpus, cpus_per_gpu=options.cpus_per_gpu)


def cpus_per_task_of(request: StepRequest, allocation: Allocation) -> int:
    """0: the tasks cannot be spread evenly over what the job has (_calc_cpus_per_task)."""
    if request.cpu_count == 0 or request.cpu_count % request.num_tasks:
        return 0
    per_task = max(request.cpu_count // request.num_tasks, 1)
    left = request.num_tasks
    for share in allocation.shares:
        if per_task > share.cpus:
            return 0
        left -= share.cpus // per_task
    return 0 if left > 0 else per_task


def settle_tasks_per_gpu(
    request: StepRequest, per_gpu: int | None, *, with_gpus: bool = False
) -> None:
    """--ntasks-per-gpu: tasks from the GPUs asked for, or (``with_gpus``) GPUs from the tasks."""
    if per_gpu is None:
        return
    gpus = request.gpus
    if not gpus.wanted:
        if request.num_tasks % per_gpu:
            raise _invalid_gres()
        if with_gpus:
            count = request.num_tasks // per_gpu
            request.gpus = replace(gpus, per_job=count, ntasks_per_gpu=per_gpu)
        return
    total = max(gpus.per_job, gpus.per_node, gpus.per_task * request.num_tasks) * per_gpu
    if request.num_tasks < total:
        per_task = request.cpu_count // request.num_tasks
        request.num_tasks = total
        if request.cpu_count:
            request.cpu_count = max(request.cpu_count, total * per_task)


def check_against_job(request: StepRequest, allocation: Allocation) -> None:
    """A step may not ask for more than its job asked for (_validate_step_counts)."""
    step, job = request.gpus, allocation.request.gpus
    if not step.wanted and not step.cpus_per_gpu:
        return
    if allocation.request.whole_node:
        # A whole node comes with its GPUs, asked for or not.
        every = max((len(share.gpus) for share in allocation.shares), default=0)
        job = GpuRequest(per_node=every)
    if not job.wanted:
        raise _invalid_gres("Step requested GRES but job doesn't have GRES")
    if step.per_job and step.per_job < request.min_nodes:
        raise _invalid_gres(
            f"Step requested gres=gpu:{step.per_job} is less than the requested min "
            f"nodes={request.min_nodes}"
        )
    if job.per_job and job.per_job < step.per_job:
        raise _invalid_gres(
            f"Step requested gres=gpu:{step.per_job} is more than the job's gres=gpu:{job.per_job}"
        )
    for unit in ("node", "socket", "task"):
        mine, jobs = getattr(step, f"per_{unit}"), getattr(job, f"per_{unit}")
        if jobs and jobs < mine:
            raise _invalid_gres(
                f"Step requested gres_per_{unit}=gpu:{mine} is more than the job's "
                f"gres_per_{unit}=gpu:{jobs}"
            )
    if job.cpus_per_gpu and job.cpus_per_gpu < step.cpus_per_gpu:
        raise _invalid_gres(
            f"Step requested cpus_per_gres={step.cpus_per_gpu} is more than the job's "
            f"cpu_per_gres={job.cpus_per_gpu}"
        )


def _invalid_gres(why: str = "") -> RejectedError:
    said = f"srun: error: {why}\n" if why else ""
    return RejectedError(f"{said}{NO_STEP}{INVALID_GRES}")


class GpuTally:
    """How many CPUs are worth having where a node has so many GPUs (gres_step_test)."""

    def __init__(self, request: GpuRequest) -> None:
        self.request = request
        self.total = 0

    def cpus_for(self, gpus: int, *, first: bool, last: bool, cpus_per_task: int) -> int | None:
        """CPUs for tasks that find GPUs here, 0: none does; None: GPUs set no limit."""
        request = self.request
        if first:
            self.total = 0
        if gpus == 0:
            return 0
        least = max(1, request.per_node, request.per_socket, request.per_task)
        if last and request.per_job > self.total:
            least = max(least, request.per_job - self.total)
        if least > gpus:
            return 0
        self.total += gpus
        if request.per_task:
            return -(-gpus // request.per_task) * max(cpus_per_task, 1)
        return None
