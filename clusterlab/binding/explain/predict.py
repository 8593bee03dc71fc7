"""What each task of a job gets, before the job is submitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from clusterlab.binding.explain.allocation import Allocation, allocate
from clusterlab.binding.explain.available import Node
from clusterlab.binding.explain.batch_environment import step_environment
from clusterlab.binding.explain.command_line import CommandLine
from clusterlab.binding.explain.cpu_binding import CpuStep, bind_tasks, cpu_list
from clusterlab.binding.explain.gpu_binding import GpuStep, bind_gpus
from clusterlab.binding.explain.job_request import JobRequest, job_request, verify
from clusterlab.binding.explain.options import Options, check_gres_flags, read_options
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
    """``rejected``: Slurm's message where it refuses the job or a step; ``notes``: what srun prints.

    ``waits``: steps that start only when others, begun before and still running, have ended. ``queued``:
    why the job does not start at once; ``tasks`` are then those of its start.
    """

    tasks: tuple[Task, ...]
    rejected: str | None = None
    notes: tuple[str, ...] = ()
    allocation: Allocation | None = None
    job: Options | None = None
    steps: tuple[Options, ...] = ()
    waits: tuple[int, ...] = ()
    queued: str | None = None


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
    found = _Found()
    try:
        _run(found, submit, steps, cluster, dict(environ or {}))
    except RejectedError as error:
        found.rejected = error.message
    except BusyError as error:
        found.queued = str(error)
    return Prediction(
        tuple(found.tasks),
        found.rejected,
        tuple(found.notes),
        found.allocation,
        found.job,
        tuple(found.steps),
        tuple(found.waits),
        found.queued,
    )


@dataclass
class _Found:
    """A prediction in the making: what was settled before Slurm refused stays known."""

    tasks: list[Task] = field(default_factory=list)
    rejected: str | None = None
    notes: list[str] = field(default_factory=list)
    allocation: Allocation | None = None
    job: Options | None = None
    steps: list[Options] = field(default_factory=list)
    waits: list[int] = field(default_factory=list)
    queued: str | None = None


def _run(
    found: _Found,
    submit: CommandLine,
    steps: Sequence[CommandLine],
    cluster: Cluster,
    around: dict[str, str],
) -> None:
    job = read_options(submit, around)
    check_gres_flags(job, cluster.rules)
    found.job = job
    found.notes += verify(job)
    allocation = _allocate(found, job_request(job), cluster, submit.command)
    found.allocation = allocation
    runner = _Runner(allocation, cluster, found.tasks, found.waits)
    if submit.command == "srun":
        settle_step_options(job, allocation, direct=True)
        found.steps.append(job)
        runner.start(job, direct=True, background=False)
        return
    around |= step_environment(job, allocation)
    for line in steps:
        if line.waited:
            runner.wait()
        options = _step_options(line, around, cluster.rules)
        check_gres_flags(options, cluster.rules)
        found.notes += verify(options)
        settle_step_options(options, allocation, direct=False)
        found.steps.append(options)
        runner.start(options, direct=False, background=line.background or options.exact)


def _allocate(found: _Found, request: JobRequest, cluster: Cluster, command: str) -> Allocation:
    """What the job gets; where others hold that now, what it gets when they have ended."""
    try:
        return allocate(request, cluster.nodes, command=command)
    except BusyError as error:
        if not any(node.busy_cores or node.busy_gpus for node in cluster.nodes):
            raise
        found.queued = f"{error}; its tasks are predicted as if those had ended"
    idle = [replace(node, busy_cores=frozenset(), busy_gpus=frozenset()) for node in cluster.nodes]
    return allocate(request, idle, command=command)


def _step_options(line: CommandLine, around: Mapping[str, str], rules: SlurmRules) -> Options:
    environ = dict(around)
    if rules.srun_reads_cpus_per_task and "SLURM_CPUS_PER_TASK" in environ:
        environ.setdefault("SRUN_CPUS_PER_TASK", environ["SLURM_CPUS_PER_TASK"])
    return read_options(line, environ)


class _Runner:
    """Starts steps in turn; one that does not fit waits for the earlier ones."""

    def __init__(
        self, allocation: Allocation, cluster: Cluster, tasks: list[Task], waits: list[int]
    ) -> None:
        self.allocation, self.cluster, self.tasks, self.waits = allocation, cluster, tasks, waits
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

    def wait(self) -> None:
        """All that runs has ended."""
        while self.running:
            self.running.pop().end()

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
                if self.count not in self.waits:
                    self.waits.append(self.count)

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
                    "allow-task-sharing" in options.gres_flags,
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
