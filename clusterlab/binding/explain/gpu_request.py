"""How many GPUs are asked for, and per what: --gpus, --gres, --gpus-per-node, -socket and -task.

Consistency and what follows from it (task and node counts) as in Slurm's src/common/gres.c,
gres_job_state_validate and _test_gres_cnt (22.05), messages included.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from clusterlab.binding.explain.rejection import INVALID_GRES, RejectedError
from clusterlab.core.digits import saturated

_SUFFIX = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
_COUNT = re.compile(r"([0-9]+)([kmgt]?)", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class GpuRequest:
    """Counts as asked for; 0: not asked for in this way. ``total`` as Slurm adds it up."""

    per_job: int = 0
    per_node: int = 0
    per_socket: int = 0
    per_task: int = 0
    cpus_per_gpu: int = 0
    ntasks_per_gpu: int = 0
    total: int = 0
    type: str | None = None

    @property
    def wanted(self) -> bool:
        """Whether any GPU is asked for."""
        return bool(self.per_job or self.per_node or self.per_socket or self.per_task)


@dataclass(slots=True)
class Counts:
    """The numbers of a job that its GPU options may set or contradict. None: not said."""

    num_tasks: int | None = None
    min_nodes: int | None = None
    max_nodes: int | None = None
    ntasks_per_node: int | None = None
    ntasks_per_socket: int | None = None
    sockets_per_node: int | None = None
    cpus_per_task: int | None = None


def read_gpu_count(text: str) -> tuple[int, str | None]:
    """``4`` or ``h100:4`` or ``h100`` (one): count and type. Several types are added up."""
    count, kind = 0, None
    for piece in text.split(","):
        name, colon, number = piece.rpartition(":")
        match = _COUNT.fullmatch(number)
        if match:
            count += saturated(match[1]) * _SUFFIX[match[2].lower()]
            kind = name or kind
        elif colon or not piece:
            raise RejectedError(f"srun: error: {INVALID_GRES}")
        else:
            count, kind = count + 1, piece
    return count, kind


def read_gres(text: str) -> tuple[int, str | None] | None:
    """The GPUs of a ``--gres`` value (``gpu:h100:4,nic:1``); None: it has none."""
    found: tuple[int, str | None] | None = None
    for piece in text.split(","):
        words = piece.removeprefix("gres:").removeprefix("gres/").split(":")
        if words[0] != "gpu":
            continue
        count, kind = read_gpu_count(":".join(words[1:])) if words[1:] else (1, None)
        found = (count + (found[0] if found else 0), kind or (found[1] if found else None))
    return found


def settle_job_gpus(
    request: GpuRequest, counts: Counts, *, ntasks_per_gpu: int | None
) -> GpuRequest:
    """The request with what follows for it; ``counts`` is brought in line. Raises RejectedError."""
    implied = request.per_task or ntasks_per_gpu
    fixed = counts.min_nodes is not None and counts.min_nodes == counts.max_nodes
    if implied and counts.num_tasks is None and fixed:
        counts.num_tasks = _implicit_tasks(counts, ntasks_per_gpu)
    settled = replace(request, total=_total(request, counts), ntasks_per_gpu=ntasks_per_gpu or 0)
    if ntasks_per_gpu:
        settled = _settle_tasks_per_gpu(settled, counts, ntasks_per_gpu)
    if settled.wanted or settled.cpus_per_gpu:
        settled = _test_counts(settled, counts)
    return settled


def _implicit_tasks(counts: Counts, ntasks_per_gpu: int | None) -> int | None:
    assert counts.min_nodes is not None
    if ntasks_per_gpu:
        return counts.min_nodes * ntasks_per_gpu
    if counts.ntasks_per_node is not None:
        return counts.min_nodes * counts.ntasks_per_node
    return counts.min_nodes if counts.cpus_per_task is None else None


def _total(request: GpuRequest, counts: Counts) -> int:
    nodes = counts.min_nodes if counts.min_nodes is not None else 1
    sockets = counts.sockets_per_node or 1
    tasks = counts.num_tasks if counts.num_tasks is not None else 1
    return max(
        request.per_job,
        request.per_node * nodes,
        request.per_socket * nodes * sockets,
        request.per_task * tasks,
    )


def _settle_tasks_per_gpu(request: GpuRequest, counts: Counts, per_gpu: int) -> GpuRequest:
    if request.wanted:
        counts.num_tasks = request.total * per_gpu
        return request
    if counts.num_tasks:
        # GPUs from tasks, as if --gpus had asked for them.
        gpus = counts.num_tasks // per_gpu
        return replace(request, per_job=gpus, total=max(request.total, gpus))
    raise RejectedError(
        "srun: error: gres_job_state_validate: --ntasks-per-tres needs either a GRES GPU "
        f"specification or a node/ntask specification\nsrun: error: {INVALID_GRES}"
    )


def _refuse(why: str) -> RejectedError:
    return RejectedError(f"srun: error: {why}\nsrun: error: {INVALID_GRES}")


def _test_counts(gpus: GpuRequest, counts: Counts) -> GpuRequest:
    _test_order(gpus, counts)
    _test_nodes(gpus, counts)
    _test_sockets(gpus, counts)
    if gpus.ntasks_per_gpu and (counts.num_tasks or 0) % gpus.ntasks_per_gpu:
        raise _refuse(
            "Failed to validate job spec, -n/--ntasks has to be a multiple of --ntasks-per-gpu."
        )
    gpus = _test_tasks(gpus, counts)
    _test_cpus(gpus, counts)
    if gpus.per_job:
        if counts.min_nodes is not None and gpus.per_job < counts.min_nodes:
            raise _refuse("Failed to validate job spec, --gpus < -N")
        if counts.max_nodes is not None and gpus.per_job < counts.max_nodes:
            counts.max_nodes = gpus.per_job
    return gpus


def _test_order(gpus: GpuRequest, counts: Counts) -> None:
    job, node, socket, task = gpus.per_job, gpus.per_node, gpus.per_socket, gpus.per_task
    if job and (node > job or task > job or socket > job):
        raise _refuse("Failed to ensure --gpus >= --gres=gpu/--gpus-per-node >= --gpus-per-socket")
    if node and (task > node or socket > node):
        raise _refuse("Failed to ensure --gpus >= --gpus-per-task")
    if socket and counts.sockets_per_node is None:
        raise _refuse("--gpus-per-socket option requires --sockets-per-node specification")
    if gpus.cpus_per_gpu and counts.cpus_per_task is not None:
        raise _refuse("--cpus-per-gpu is mutually exclusive with --cpus-per-task")


def _test_nodes(gpus: GpuRequest, counts: Counts) -> None:
    if not (gpus.per_job and gpus.per_node):
        return
    if gpus.per_job % gpus.per_node:
        raise _refuse(
            "Failed to validate job spec, --gpus is not multiple of --gres=gpu/--gpus-per-node"
        )
    nodes = gpus.per_job // gpus.per_node
    low, high = counts.min_nodes, counts.max_nodes
    if (low is not None and nodes < low) or (high is not None and nodes > high):
        raise _refuse(
            "Failed to validate job spec. Based on --gpu and --gres=gpu/--gpus-per-node required "
            f"nodes ({nodes}) doesn't fall between min_nodes ({low}) and max_nodes ({high}) boundaries."
        )
    counts.min_nodes = counts.max_nodes = nodes


def _test_sockets(gpus: GpuRequest, counts: Counts) -> None:
    if not (gpus.per_node and gpus.per_socket):
        return
    if gpus.per_node % gpus.per_socket:
        raise _refuse(
            "Failed to validate job spec, --gres=gpu/--gpus-per-node not multiple of --gpus-per-socket."
        )
    if counts.sockets_per_node != gpus.per_node // gpus.per_socket:
        raise _refuse(
            "Failed to validate job spec. Based on --gres=gpu/--gpus-per-node and --gpus-per-socket "
            "required number of sockets differ from --sockets-per-node."
        )


def _test_tasks(gpus: GpuRequest, counts: Counts) -> GpuRequest:
    if not gpus.per_task:
        return gpus
    if gpus.per_job:
        if gpus.per_job % gpus.per_task:
            raise _refuse("Failed to validate job spec, --gpus not multiple of --gpus-per-task")
        tasks = gpus.per_job // gpus.per_task
        if counts.num_tasks not in (None, tasks):
            raise _refuse(
                "Failed to validate job spec. Based on --gpus and --gpus-per-task number of "
                "requested tasks differ from -n/--ntasks."
            )
        counts.num_tasks = tasks
    elif counts.num_tasks is not None:
        gpus = replace(gpus, per_job=counts.num_tasks * gpus.per_task)
    else:
        raise _refuse(
            "Failed to validate job spec. --gpus-per-task used without either --gpus or "
            "-n/--ntasks is not allowed."
        )
    counts.ntasks_per_node = _tasks_per(
        gpus.per_node, gpus.per_task, counts.ntasks_per_node, "--gres=gpu/--gpus-per-node", "node"
    )
    counts.ntasks_per_socket = _tasks_per(
        gpus.per_socket, gpus.per_task, counts.ntasks_per_socket, "--gpus-per-socket", "socket"
    )
    return gpus


def _tasks_per(gpus: int, per_task: int, said: int | None, option: str, unit: str) -> int | None:
    if not gpus:
        return said
    if gpus % per_task:
        raise _refuse(f"Failed to validate job spec, {option} not multiple of --gpus-per-task.")
    tasks = gpus // per_task
    if said not in (None, 0, tasks):
        raise _refuse(
            f"Failed to validate job spec. Based on {option} and --gpus-per-task requested number "
            f"of tasks per {unit} differ from --ntasks-per-{unit}."
        )
    return tasks


def _test_cpus(gpus: GpuRequest, counts: Counts) -> None:
    if not (gpus.cpus_per_gpu and gpus.per_task):
        return
    cpus = gpus.cpus_per_gpu * gpus.per_task
    if counts.cpus_per_task not in (None, 0, cpus):
        raise _refuse(
            "Failed to validate job spec. Based on --cpus-per-gpu and --gpus-per-task requested "
            "number of cpus differ from -c/--cpus-per-task."
        )
    counts.cpus_per_task = cpus
