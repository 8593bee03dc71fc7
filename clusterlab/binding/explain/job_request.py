"""From options to what slurmctld is asked for: task, node and CPU counts, checked as srun and sbatch do.

Follows _opt_verify of Slurm's src/srun/libsrun/opt.c and src/sbatch/opt.c, slurm_opt_create_job_desc of
src/common/slurm_opt.c and the first checks of src/slurmctld/job_mgr.c (22.05).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from clusterlab.binding.explain.cpu_bind_option import read_hint
from clusterlab.binding.explain.distribution import Distribution
from clusterlab.binding.explain.gpu_request import Counts, GpuRequest, settle_job_gpus
from clusterlab.binding.explain.options import Options, gpu_counts, gpu_type
from clusterlab.binding.explain.rejection import RejectedError


@dataclass(frozen=True)
class JobRequest:
    """What a job asks for. None: not said; ``max_nodes`` 0: any number.

    ``asked_gpus`` as the options say it, ``gpus`` with what follows from it.
    """

    num_tasks: int
    min_nodes: int
    max_nodes: int
    min_cpus: int
    cpus_per_task: int
    pn_min_cpus: int
    gpus: GpuRequest
    asked_gpus: GpuRequest
    distribution: Distribution
    ntasks_per_node: int = 0
    ntasks_per_socket: int | None = None
    ntasks_per_core: int | None = None
    sockets_per_node: int | None = None
    cores_per_socket: int | None = None
    threads_per_core: int | None = None
    overcommit: bool = False
    whole_node: bool = False
    enforce_binding: bool = False
    required: tuple[str, ...] = ()
    excluded: frozenset[str] = field(default_factory=frozenset)


def verify(options: Options) -> list[str]:
    """Bring the options in line as srun or sbatch does before it asks; returns srun's warnings."""
    _check_tasks_per_gpu(options)
    _apply_hint(options)
    if options.command == "srun":
        return _verify_srun(options)
    return _verify_sbatch(options)


def _check_tasks_per_gpu(options: Options) -> None:
    if options.ntasks_per_gpu is None:
        return
    for name in ("gpus-per-task", "gpus-per-socket", "ntasks-per-node"):
        spelled = None
        if name in options.from_cli:
            spelled = f"--{name}"
        elif name in options.from_env:
            spelled = f"SLURM_{name.upper().replace('-', '_')}"
        if spelled:
            raise RejectedError(
                f"{options.command}: fatal: {spelled} is mutually exclusive with --ntasks-per-gpu "
                "and SLURM_NTASKS_PER_GPU"
            )


def _apply_hint(options: Options) -> None:
    others = {"ntasks-per-core", "threads-per-core", "extra-node-info", "cpu-bind"}
    if options.hint is None or others & (options.from_cli | options.from_env):
        return
    for word in read_hint(options.hint):
        bind = options.cpu_bind
        if word == "compute_bound":
            options.threads_per_core = 1
            options.cpu_bind = replace(bind, unit="cores")
        elif word == "memory_bound":
            options.cores_per_socket = options.threads_per_core = 1
            options.cpu_bind = replace(bind, unit="cores")
        elif word == "multithread":
            options.threads_per_core = None
            options.cpu_bind = replace(bind, unit="threads", one_thread=False)
        else:
            options.threads_per_core = 1
            options.cpu_bind = replace(bind, unit="threads", one_thread=True)


def _verify_srun(options: Options) -> list[str]:
    notes: list[str] = []
    arbitrary = options.distribution.nodes == "arbitrary"
    if {"exclusive", "overlap"} <= options.from_cli:
        raise RejectedError("srun: error: --exclusive and --overlap are mutually exclusive")
    if options.exact and options.whole and "exact" in options.from_cli:
        raise RejectedError("srun: error: --exact and --whole are mutually exclusive.")
    if arbitrary:
        _count_arbitrary(options)
    _bind_by_tasks_per(options)
    if options.nodelist is not None:
        _shorten_nodelist(options, arbitrary=arbitrary)
        options.min_nodes = max(_distinct(options), options.min_nodes if options.nodes_set else 0)
        options.nodes_set = True
    fixed = options.max_nodes in (0, options.min_nodes)
    extra = options.said("sockets-per-node") or options.said("extra-node-info")
    if (options.nodes_set or extra) and fixed and not options.ntasks_set:
        _tasks_from_nodes(options)
    elif options.nodes_set and options.ntasks_set:
        _nodes_from_tasks(options, notes)
    if options.ntasks_per_node is not None and not options.ntasks_set:
        options.ntasks, options.ntasks_set = options.min_nodes * options.ntasks_per_node, True
    return notes


def _count_arbitrary(options: Options) -> None:
    if "ntasks" in options.from_env:
        options.ntasks_set = False
    if "nodes" in options.from_env:
        options.nodes_set = False
    if options.nodelist is None:
        raise RejectedError(
            "srun: error: With Arbitrary distribution you need to specify a nodelist or hostfile "
            "with the -w option"
        )
    if not options.ntasks_set:
        options.ntasks, options.ntasks_set = len(options.nodelist), True
    if not options.nodes_set:
        options.min_nodes = options.max_nodes = _distinct(options)
        options.nodes_set = True


def _distinct(options: Options) -> int:
    return len(set(options.nodelist or ()))


def _bind_by_tasks_per(options: Options) -> None:
    if options.cpu_bind.unit is None and options.ntasks_per_core:
        options.cpu_bind = replace(options.cpu_bind, unit="cores")
    if options.cpu_bind.unit is None and options.ntasks_per_socket:
        options.cpu_bind = replace(options.cpu_bind, unit="sockets")


def _shorten_nodelist(options: Options, *, arbitrary: bool) -> None:
    assert options.nodelist is not None
    if options.max_nodes and not arbitrary:
        options.nodelist = options.nodelist[: options.max_nodes]


def _tasks_from_nodes(options: Options) -> None:
    options.ntasks = options.min_nodes
    shape = (options.sockets_per_node, options.cores_per_socket, options.threads_per_core)
    if None not in shape:
        for count in shape:
            options.ntasks *= count or 1
        options.ntasks_set = True
    elif options.ntasks_per_node is not None:
        options.ntasks *= options.ntasks_per_node
        options.ntasks_set = True


def _nodes_from_tasks(options: Options, notes: list[str]) -> None:
    options.max_nodes = min(options.max_nodes, options.ntasks)
    if options.ntasks < options.min_nodes:
        notes.append(
            f"Warning: can't run {options.ntasks} processes on {options.min_nodes} nodes, setting "
            f"nnodes to {options.ntasks}"
        )
        options.min_nodes = options.ntasks
        options.max_nodes = options.ntasks
        options.from_env.discard("nodes")
        if options.nodelist is not None and _distinct(options) > options.min_nodes:
            options.nodelist = list(dict.fromkeys(options.nodelist))[: options.min_nodes]
    per_node = options.ntasks_per_node
    if per_node is not None and per_node != options.ntasks // options.min_nodes:
        if options.ntasks > per_node:
            notes.append(
                f"Warning: can't honor --ntasks-per-node set to {per_node} which doesn't match the "
                f"requested tasks {options.ntasks} with the number of requested nodes "
                f"{options.min_nodes}. Ignoring --ntasks-per-node."
            )
        options.ntasks_per_node = None


def _verify_sbatch(options: Options) -> list[str]:
    notes: list[str] = []
    if options.nodelist is not None:
        options.min_nodes = max(_distinct(options), options.min_nodes if options.nodes_set else 0)
        options.nodes_set = True
    fixed = options.max_nodes in (0, options.min_nodes)
    if options.ntasks_per_node is not None and not options.ntasks_set and fixed:
        options.ntasks, options.ntasks_set = options.min_nodes * options.ntasks_per_node, True
    plane = options.distribution.plane_size
    nodes = options.min_nodes
    if plane and options.ntasks // plane < nodes and (nodes - 1) * plane >= options.ntasks:
        raise RejectedError(
            f"{options.command}: error: Too few processes for the requested "
            "{plane,node} distribution"
        )
    if options.nodes_set and fixed and not options.ntasks_set:
        options.ntasks = options.min_nodes
        for count in (
            options.sockets_per_node,
            options.cores_per_socket,
            options.threads_per_core,
        ):
            if count is not None:
                options.ntasks, options.ntasks_set = options.ntasks * count, True
    elif options.nodes_set and options.ntasks_set:
        options.max_nodes = min(options.max_nodes, options.ntasks)
        if options.ntasks < options.min_nodes:
            notes.append(
                f"Warning: can't run {options.ntasks} processes on {options.min_nodes} nodes, "
                f"setting nnodes to {options.ntasks}"
            )
            options.min_nodes = options.max_nodes = options.ntasks
    return notes


def job_request(options: Options) -> JobRequest:
    """What slurmctld makes of verified options. Raises RejectedError."""
    counts = Counts(
        num_tasks=options.ntasks if options.ntasks_set else None,
        min_nodes=options.min_nodes if options.nodes_set else None,
        max_nodes=(options.max_nodes or None) if options.nodes_set else None,
        ntasks_per_node=options.ntasks_per_node,
        ntasks_per_socket=options.ntasks_per_socket,
        sockets_per_node=options.sockets_per_node,
        cpus_per_task=options.cpus_per_task,
    )
    asked = GpuRequest(
        **gpu_counts(options), cpus_per_gpu=options.cpus_per_gpu, type=gpu_type(options)
    )
    gpus = settle_job_gpus(asked, counts, ntasks_per_gpu=options.ntasks_per_gpu)
    min_cpus = _min_cpus(options)
    required = tuple(dict.fromkeys(options.nodelist or ()))
    min_nodes = max(counts.min_nodes or 1, len(required))
    if counts.ntasks_per_node and counts.num_tasks is None and counts.min_nodes:
        counts.num_tasks = counts.ntasks_per_node * counts.min_nodes
    tasks = counts.num_tasks
    if not options.overcommit and tasks is not None and tasks > min_cpus:
        min_cpus = tasks * (counts.cpus_per_task or 1)
    min_cpus = max(min_cpus, len(required))
    if counts.max_nodes and min_nodes > counts.max_nodes:
        raise RejectedError(
            "srun: error: Unable to allocate resources: Node count specification invalid"
        )
    cpus_per_task = counts.cpus_per_task or 1
    pn_min_cpus = max(options.cpus_per_task or 1, options.mincpus or 1)
    if counts.ntasks_per_node and not options.overcommit and (tasks or 0) > 1:
        pn_min_cpus = max(pn_min_cpus, cpus_per_task * counts.ntasks_per_node)
    return JobRequest(
        num_tasks=tasks or 0,
        min_nodes=min_nodes,
        max_nodes=counts.max_nodes or 0,
        min_cpus=min_cpus,
        cpus_per_task=cpus_per_task,
        pn_min_cpus=max(pn_min_cpus, cpus_per_task),
        gpus=gpus,
        asked_gpus=asked,
        distribution=options.distribution,
        ntasks_per_node=counts.ntasks_per_node or 0,
        ntasks_per_socket=counts.ntasks_per_socket,
        ntasks_per_core=options.ntasks_per_core,
        sockets_per_node=counts.sockets_per_node,
        cores_per_socket=options.cores_per_socket,
        threads_per_core=options.threads_per_core,
        overcommit=options.overcommit,
        whole_node=options.exclusive,
        enforce_binding="enforce-binding" in options.gres_flags,
        required=required,
        excluded=frozenset(options.exclude or ()),
    )


def _min_cpus(options: Options) -> int:
    if options.overcommit:
        return max(options.min_nodes, 1)
    return options.ntasks * (options.cpus_per_task or 1)
