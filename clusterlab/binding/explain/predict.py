"""What each task of a job gets, before the job is submitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clusterlab.binding.explain.allocation import Allocation, allocate
from clusterlab.binding.explain.available import Node
from clusterlab.binding.explain.batch_environment import step_environment
from clusterlab.binding.explain.command_line import CommandLine
from clusterlab.binding.explain.cpu_binding import CpuStep, bind_tasks, cpu_list
from clusterlab.binding.explain.gpu_binding import GpuStep, bind_gpus
from clusterlab.binding.explain.job_request import job_request, verify
from clusterlab.binding.explain.options import Options, read_options
from clusterlab.binding.explain.rejection import BusyError, RejectedError
from clusterlab.binding.explain.step import Step, create_step, settle_step_options
from clusterlab.binding.explain.versions import SlurmRules


@dataclass(frozen=True, slots=True)
class Cluster:
    """The nodes a job may use, and what of the configuration decides the binding."""

    nodes: tuple[Node, ...]
    rules: SlurmRules
    constrain_devices: bool = False


@dataclass(frozen=True, slots=True)
class Task:
    """One task. ``cuda_visible_devices`` None: unset. ``gpus`` by index on the node, ``cpus`` a list.

    ``step_gpus`` is SLURM_STEP_GPUS; ``node_gpus`` all GPUs of the step on this node.
    """

    step: int
    procid: int
    node: str
    localid: int
    cuda_visible_devices: str | None
    gpus: tuple[int, ...]
    cpus: str
    step_gpus: str | None = None
    node_gpus: tuple[int, ...] = ()
    complaint: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The public part."""
        return {
            "step": self.step,
            "procid": self.procid,
            "node": self.node,
            "localid": self.localid,
            "cuda_visible_devices": self.cuda_visible_devices,
            "gpus": list(self.gpus),
            "cpus": self.cpus,
        }


@dataclass(frozen=True)
class Prediction:
    """``rejected``: Slurm's message where it refuses the job or a step; ``notes``: what srun prints."""

    tasks: tuple[Task, ...]
    rejected: str | None = None
    notes: tuple[str, ...] = ()
    allocation: Allocation | None = None
    steps: tuple[Options, ...] = field(default_factory=tuple)


def predict(
    submit: CommandLine,
    steps: Sequence[CommandLine],
    cluster: Cluster,
    *,
    environ: Mapping[str, str] | None = None,
) -> Prediction:
    """What ``submit`` and the ``steps`` of its script give each task on ``cluster``.

    ``environ``: variables around the command that Slurm reads (none by default).
    """
    around = dict(environ or {})
    tasks: list[Task] = []
    notes: list[str] = []
    options: list[Options] = []
    allocation: Allocation | None = None
    try:
        job_options = read_options(submit, around)
        notes += verify(job_options)
        allocation = allocate(job_request(job_options), cluster.nodes, command=submit.command)
        runner = _Runner(allocation, cluster, tasks)
        if submit.command == "srun":
            settle_step_options(job_options, allocation, direct=True)
            options.append(job_options)
            runner.start(job_options, direct=True, background=False)
        else:
            around |= step_environment(job_options, allocation)
            for line in steps:
                step_options = _step_options(line, around, cluster.rules)
                notes += verify(step_options)
                settle_step_options(step_options, allocation, direct=False)
                options.append(step_options)
                background = line.background or step_options.exact
                runner.start(step_options, direct=False, background=background)
    except RejectedError as error:
        return Prediction(tuple(tasks), error.message, tuple(notes), allocation, tuple(options))
    except BusyError as error:
        return Prediction(tuple(tasks), f"queued: {error}", tuple(notes), allocation)
    return Prediction(tuple(tasks), None, tuple(notes), allocation, tuple(options))


def _step_options(line: CommandLine, around: Mapping[str, str], rules: SlurmRules) -> Options:
    environ = dict(around)
    if rules.srun_reads_cpus_per_task and "SLURM_CPUS_PER_TASK" in environ:
        environ.setdefault("SRUN_CPUS_PER_TASK", environ["SLURM_CPUS_PER_TASK"])
    return read_options(line, environ)


class _Runner:
    """Starts steps in turn; one that does not fit waits for the earlier ones."""

    def __init__(self, allocation: Allocation, cluster: Cluster, tasks: list[Task]) -> None:
        self.allocation, self.cluster, self.tasks = allocation, cluster, tasks
        self.running: list[Step] = []
        self.count = 0

    def start(self, options: Options, *, direct: bool, background: bool) -> None:
        step = self._create(options, direct=direct)
        self._bind(step)
        self.count += 1
        if background:
            self.running.append(step)
        else:
            step.end()

    def _create(self, options: Options, *, direct: bool) -> Step:
        while True:
            try:
                return create_step(options, self.allocation, direct=direct)
            except BusyError as busy:
                if not self.running:
                    raise RejectedError(
                        f"srun: Job step creation temporarily disabled, retrying ({busy}): "
                        "nothing that runs would make room"
                    ) from None
                self.running.pop(0).end()

    def _bind(self, step: Step) -> None:
        found: list[Task] = []
        for part in step.shares:
            profile = part.share.node.profile
            request = self.allocation.request
            options = step.options
            cpus = bind_tasks(
                CpuStep(
                    profile,
                    part.cores,
                    len(part.tasks),
                    options.cpu_bind,
                    step.distribution,
                    cpus_per_task=options.cpus_per_task or 1,
                    threads_per_core=options.threads_per_core,
                    ntasks_per_core=request.ntasks_per_core,
                    ntasks_per_socket=request.ntasks_per_socket,
                    overcommit=options.overcommit,
                )
            )
            gpus = bind_gpus(
                GpuStep(
                    profile,
                    part.gpus,
                    len(part.tasks),
                    step.gpu_bind,
                    self.cluster.constrain_devices,
                    self.cluster.rules,
                ),
                cpus,
            )
            found += [
                Task(
                    self.count,
                    procid,
                    part.share.name,
                    localid,
                    gpus[localid].mask,
                    gpus[localid].gpus,
                    cpu_list(cpus[localid]),
                    gpus[localid].step_gpus,
                    tuple(sorted(part.gpus)),
                    gpus[localid].error,
                )
                for localid, procid in enumerate(part.tasks)
            ]
        self.tasks += sorted(found, key=lambda task: task.procid)
