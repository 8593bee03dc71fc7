"""A step inside an allocation: its nodes, tasks, cores and GPUs.

Follows step_create and step_layout_create of Slurm 22.05's src/slurmctld/step_mgr.c, and srun's
settling of counts in src/srun/libsrun/srun_job.c.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clusterlab.binding.explain.allocation import Allocation, NodeShare
from clusterlab.binding.explain.cpu_bind_option import GpuBind
from clusterlab.binding.explain.distribution import Distribution
from clusterlab.binding.explain.layout import lay_out, lay_out_by_name
from clusterlab.binding.explain.options import Options
from clusterlab.binding.explain.rejection import RejectedError
from clusterlab.binding.explain.step_nodes import pick_nodes
from clusterlab.binding.explain.step_request import (
    GpuTally,
    StepRequest,
    StepShare,
    check_against_job,
    cpus_per_task_of,
    settle_tasks_per_gpu,
    step_request,
)
from clusterlab.binding.explain.step_resources import Held, assign
from clusterlab.core.digits import saturated


@dataclass(slots=True)
class Step:
    """A running step. ``held`` is what it gives back when it ends."""

    options: Options
    shares: list[StepShare]
    distribution: Distribution
    gpu_bind: GpuBind | None
    held: list[Held]

    def end(self) -> None:
        """Give back what the step held."""
        for each in self.held:
            each.give_back()
        self.held = []


def settle_step_options(options: Options, allocation: Allocation, *, direct: bool) -> None:
    """Counts that follow from the allocation (job_step_create_allocation, _set_ntasks)."""
    nodes = len(allocation.shares)
    if not options.nodes_set and not direct:
        few = options.ntasks_set and options.ntasks < nodes
        options.min_nodes = options.ntasks if few else nodes
        options.nodes_set = True
    if not direct and not options.max_nodes:
        options.max_nodes = options.min_nodes
    if not direct and options.max_nodes and options.max_nodes < nodes:
        nodes = options.max_nodes
    if options.ntasks_set:
        return
    count = 0
    if options.ntasks_per_node is not None:
        count, options.ntasks_set = nodes * options.ntasks_per_node, True
    elif options.cpus_per_task is not None:
        count = sum(share.cpus // options.cpus_per_task for share in allocation.shares)
        options.ntasks_set = True
    options.ntasks = max(count, nodes)


def create_step(options: Options, allocation: Allocation, *, direct: bool) -> Step:
    """The step of verified and settled ``options``. Raises RejectedError or BusyError.

    ``direct``: srun made the allocation for this step.
    """
    if not direct and options.min_nodes > len(allocation.shares):
        raise RejectedError(
            f"srun: error: Only allocated {len(allocation.shares)} nodes asked for "
            f"{options.min_nodes}"
        )
    request = step_request(options, allocation, direct=direct)
    wanted_cpus = request.cpu_count
    if request.overcommit:
        request.cpu_count = 0
    request.cpus_per_task = cpus_per_task_of(request, allocation)
    settle_tasks_per_gpu(request, options.ntasks_per_gpu, with_gpus=True)
    check_against_job(request, allocation)
    nodes = pick_nodes(request, allocation)
    shares = _lay_out(request, allocation, nodes)
    copy_all = not request.overcommit and wanted_cpus == allocation.total_cpus
    held = assign(request, allocation, shares, copy_all=copy_all)
    return Step(options, shares, request.distribution, _gpu_bind(options), held)


def _gpu_bind(options: Options) -> GpuBind | None:
    """What is said, else what --ntasks-per-gpu or --gpus-per-task imply."""
    if options.gpu_bind is not None:
        return options.gpu_bind
    if options.ntasks_per_gpu is not None:
        count = options.ntasks_per_gpu
        return GpuBind("single", count=count, text=f"gpu:single:{count}")
    if options.gpus_per_task is not None:
        digits = options.gpus_per_task
        count = saturated(digits) if digits.isascii() and digits.isdigit() else 0
        return GpuBind("per_task", count=count, text=f"gpu:per_task:{digits}")
    return None


def _lay_out(
    request: StepRequest, allocation: Allocation, nodes: Sequence[NodeShare]
) -> list[StepShare]:
    if request.distribution.nodes == "arbitrary":
        names = request.nodelist or []
        if len(names) != request.num_tasks:
            raise RejectedError(
                f"srun: error: You asked for {request.num_tasks} tasks but hostlist specified "
                f"{len(names)} nodes"
            )
        ids = lay_out_by_name(names, [node.name for node in nodes])
    else:
        slots = _slots(request, allocation, nodes)
        pack = request.distribution.pack is True
        ids = lay_out(request.num_tasks, slots, request.distribution, pack=pack)
    return [StepShare(node, mine) for node, mine in zip(nodes, ids, strict=True)]


def _slots(request: StepRequest, allocation: Allocation, nodes: Sequence[NodeShare]) -> list[int]:
    """Tasks each node has CPUs and GPUs for (step_layout_create)."""
    tally = GpuTally(request.gpus)
    slots: list[int] = []
    per_task = max(request.cpus_per_task, 1)
    for position, node in enumerate(nodes):
        cpus = node.cpus if request.overlap else node.free_cpus
        threads = node.node.profile.threads_per_core
        if request.threads_per_core == 1 or allocation.request.threads_per_core == 1:
            cpus //= threads
        if request.gpus.wanted:
            gpus = node.gpus if request.overlap else node.free_gpus
            limit = tally.cpus_for(
                len(gpus),
                first=position == 0,
                last=position == len(nodes) - 1,
                cpus_per_task=per_task,
            )
            cpus = cpus if limit is None else min(cpus, limit)
        room = cpus // per_task
        if request.tasks_per_node and request.distribution.nodes != "plane":
            room = min(max(room, 1), request.tasks_per_node * per_task)
        slots.append(max(room, 1))
    return slots
