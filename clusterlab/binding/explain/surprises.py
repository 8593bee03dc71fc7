"""What of a prediction will surprise, each with what may cure it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from clusterlab.binding.explain.cpu_surprises import cpu_surprises
from clusterlab.binding.explain.predict import Cluster, Prediction, Task
from clusterlab.binding.explain.surprise import Change, Cure, Surprise, cures_on, on_nodes
from clusterlab.core.digits import saturated
from clusterlab.core.order import number_list
from clusterlab.formats.hostlist import compress_hostlist


def surprises(found: Prediction, cluster: Cluster) -> list[Surprise]:
    """What surprises in ``found``, Slurm's own words first; nothing where a layout does what it seems to."""
    said = [Surprise("slurm", text, frozenset([text])) for text in dict.fromkeys(found.notes)]
    if found.queued is not None:
        said.append(Surprise("queued", f"queued: {found.queued}"))
    if found.rejected is not None or found.allocation is None:
        return said
    if not found.tasks:
        text = f"no step given: {_held(found)}; its tasks are not predicted"
        return [*said, Surprise("no_step", text)]
    for rule in (
        _uneven,
        _waits,
        _complaints,
        _idle_nodes,
        _idle_gpus,
        _shared_gpus,
        _local_rank,
        _unbound,
    ):
        said += rule(found)
    said += _unset(found, cluster)
    if cluster.constrain_devices:
        said += _wrong_step_gpus(found)
        said += _isolated(found, cluster)
    said += _unknown_cores(found, cluster)
    said += cpu_surprises(found, cluster)
    said += _topology_order(found, cluster)
    return said


def _topology_order(found: Prediction, cluster: Cluster) -> Iterator[Surprise]:
    if cluster.rules.tasks_in_topology_order and len({task.node for task in found.tasks}) > 1:
        yield Surprise(
            "topology_order",
            f"Slurm {cluster.rules.version} hands out tasks in the topology's order, taken here to be "
            "that of the names (CR_NO_DIST_TOPO_BLOCK turns it off)",
        )


def _unknown_cores(found: Prediction, cluster: Cluster) -> Iterator[Surprise]:
    """Slurm's own text of the node names no cores for its GPUs."""
    used = any(task.node_gpus for task in found.tasks)
    if used and not all(node.profile.gpu_cores_known for node in cluster.nodes):
        yield Surprise(
            "unknown_cores",
            "the GPUs' cores are unknown (no Cores= of gres.conf): closest and single are predicted as "
            "if all were near",
        )


Placed = dict[tuple[int, str], list[Task]]


def _by_node(found: Prediction) -> Placed:
    """The tasks of each step on each node, in local order."""
    placed: Placed = {}
    for task in sorted(found.tasks, key=lambda task: (task.step, task.node, task.localid)):
        placed.setdefault((task.step, task.node), []).append(task)
    return placed


def _numbers(word: str, numbers: Iterable[int]) -> str:
    ordered = sorted(numbers)
    return f"{word}{'s' if len(ordered) > 1 else ''} {number_list(set(ordered))}"


def _held(found: Prediction) -> str:
    assert found.allocation is not None
    names = compress_hostlist([share.name for share in found.allocation.shares])
    gpus = {share.gpus for share in found.allocation.shares}
    each = [_numbers("GPU", mine) for mine in gpus if mine]
    return f"the job gets {names}" + (f" with {each[0]} each" if len(gpus) == 1 and each else "")


def _key(task: Task) -> tuple[int, int]:
    return task.step, task.procid


def _uneven(found: Prediction) -> Iterator[Surprise]:
    for step, tasks in groupby(found.tasks, key=lambda task: task.step):
        counts: dict[str, int] = {}
        for task in tasks:
            counts[task.node] = counts.get(task.node, 0) + 1
        if len(set(counts.values())) == 1:
            continue
        total = sum(counts.values())
        shown = "+".join(str(count) for count in counts.values())
        text = f"step {step}: {total} tasks on {len(counts)} nodes are {shown}"
        cures: tuple[Cure, ...] = ()
        if total % len(counts) == 0:
            cures = tuple(_evening(found, step, total // len(counts)))
        yield Surprise("uneven", text, frozenset([step]), cures)


def _evening(found: Prediction, step: int, each: int) -> Iterator[Cure]:
    """As many tasks on every node; where GPUs were to be spare, as many GPUs too."""
    options: dict[str, str | None] = {"ntasks-per-node": str(each)}
    yield from cures_on(found, step, options, f"--ntasks-per-node={each} makes it even")
    assert found.job is not None
    if found.job.gpus_per_node or found.job.gres:
        gpus = {"gpus-per-node": str(each), "gres": None}
        words = f"--ntasks-per-node={each} --gpus-per-node={each} makes it even"
        yield from cures_on(found, step, options | gpus, words)


def _waits(found: Prediction) -> Iterator[Surprise]:
    for step in found.waits:
        yield Surprise(
            "waits",
            f"step {step} starts only when a step before it has ended",
            frozenset([step]),
            tuple(_own_gpus(found)),
        )


def _own_gpus(found: Prediction) -> Iterator[Cure]:
    """Steps that take the job's GPU count from SLURM_GPUS or SLURM_GPUS_PER_NODE get one of their own."""
    changes: list[Change] = []
    for i, options in enumerate(found.steps):
        inherited = {"gpus-per-node", "gpus"} & options.from_env
        per_task = options.gpus_per_task or ""
        if inherited and per_task.isascii() and per_task.isdigit():
            count = saturated(per_task) * options.ntasks // max(options.min_nodes, 1)
            changes.append(Change(i, (("gpus-per-node", str(count)),)))
    if changes:
        counts = sorted({value or "" for change in changes for _, value in change.options})
        yield Cure(
            tuple(changes),
            "it takes the job's GPU count from SLURM_GPUS or SLURM_GPUS_PER_NODE: give each step its "
            f"own --gpus-per-node={' or '.join(counts)}",
        )


def _complaints(found: Prediction) -> Iterator[Surprise]:
    yield from on_nodes(
        (
            task.node,
            Surprise("slurmstepd", f"slurmstepd: {task.complaint}", frozenset([_key(task)])),
        )
        for task in found.tasks
        if task.complaint
    )


def _idle_nodes(found: Prediction) -> Iterator[Surprise]:
    assert found.allocation is not None
    used = {task.node for task in found.tasks}
    idle = [share.name for share in found.allocation.shares if share.name not in used]
    if idle:
        text = f"{compress_hostlist(idle)}: allocated, but no task runs there"
        yield Surprise("idle_nodes", text, frozenset(idle))


def _idle_gpus(found: Prediction) -> Iterator[Surprise]:
    """GPUs no task is shown, or that stay over when each task takes one."""
    assert found.allocation is not None
    shown: dict[str, set[int]] = {}
    for task in found.tasks:
        shown.setdefault(task.node, set()).update(task.gpus)
    said = []
    for share in found.allocation.shares:
        left = share.gpus - shown.get(share.name, share.gpus)
        if left:
            text = f"{_numbers('GPU', left)} idle: allocated, but in no task's mask"
            about = frozenset((share.name, gpu) for gpu in left)
            said.append((share.name, Surprise("idle_gpus", text, about)))
    for (_, node), tasks in _by_node(found).items():
        for gpus, mine in _alike(tasks).items():
            if 1 < len(mine) < len(gpus) and len(mine) == len(tasks):
                over = len(gpus) - len(mine)
                text = (
                    f"{len(mine)} tasks all see {_numbers('GPU', gpus)}; with one each "
                    f"{over} stay{'s' if over == 1 else ''} idle"
                )
                about = frozenset((node, gpu) for gpu in gpus[len(mine) :])
                said.append((node, Surprise("idle_gpus", text, about)))
    yield from on_nodes(said)


def _alike(tasks: Sequence[Task]) -> dict[tuple[int, ...], list[Task]]:
    """Tasks by the GPUs they are shown."""
    groups: dict[tuple[int, ...], list[Task]] = {}
    for task in tasks:
        groups.setdefault(task.gpus, []).append(task)
    return groups


def _shared_gpus(found: Prediction) -> Iterator[Surprise]:
    """More tasks than GPUs in a group with one mask, or masks that overlap."""
    said = []
    for (_, node), tasks in _by_node(found).items():
        groups = _alike(tasks)
        for gpus, mine in groups.items():
            if gpus and len(mine) > len(gpus):
                who = _numbers("local task", [task.localid for task in mine])
                text = f"{who} share {_numbers('GPU', gpus)}: two or more tasks on a GPU"
                about = frozenset((node, gpu) for gpu in gpus)
                said.append((node, Surprise("shared_gpus", text, about)))
        masks = [set(gpus) for gpus in groups]
        both = {
            gpu for i, one in enumerate(masks) for other in masks[i + 1 :] for gpu in one & other
        }
        if both:
            text = f"{_numbers('GPU', both)}: in masks that differ; two tasks may take it"
            about = frozenset((node, gpu) for gpu in both)
            said.append((node, Surprise("shared_gpus", text, about)))
    yield from on_nodes(said)


def _local_rank(found: Prediction) -> Iterator[Surprise]:
    """Tasks whose local rank is no device number in their mask, though the node has the GPUs."""
    steps: dict[int, list[Task]] = {}
    for task in found.tasks:
        mine = len(task.gpus)
        if mine and task.localid >= mine and len(task.node_gpus) > mine:
            steps.setdefault(task.step, []).append(task)
    for step, tasks in steps.items():
        most = max(len(task.gpus) for task in tasks)
        devices = "device 0" if most == 1 else f"devices 0-{most - 1}"
        text = (
            f"step {step}: tasks see their GPUs as {devices}; a program that selects device "
            "SLURM_LOCALID fails with 'invalid device ordinal'"
        )
        yield Surprise("local_rank", text, frozenset(map(_key, tasks)))


def _unset(found: Prediction, cluster: Cluster) -> Iterator[Surprise]:
    profiles = {node.name: node.profile for node in cluster.nodes}
    said = []
    for task in found.tasks:
        if task.cuda_visible_devices is not None or not profiles[task.node].gpus:
            continue
        about = frozenset([_key(task)])
        if not task.node_gpus:
            if not cluster.constrain_devices:
                text = "no GPU in the step, CUDA_VISIBLE_DEVICES unset" + _REACH
                said.append((task.node, Surprise("unset", text, about)))
            continue
        bind = found.steps[task.step].gpu_bind
        if cluster.constrain_devices and bind is not None and bind.text == "gpu:none":
            continue  # as asked, and the cgroup keeps it to the step's GPUs
        within = f": all of {_numbers('GPU', task.node_gpus)} are seen"
        text = "this GPU binding leaves CUDA_VISIBLE_DEVICES unset"
        text += within if cluster.constrain_devices else _REACH
        said.append((task.node, Surprise("unset", text, about)))
    yield from on_nodes(said)


_REACH = ": CUDA shows every GPU of the node, other jobs' too"


def _unbound(found: Prediction) -> Iterator[Surprise]:
    """A task alone on its node is never bound to some of the step's GPUs."""
    said = []
    for (step, node), tasks in _by_node(found).items():
        options = found.steps[step]
        per_task = options.gpus_per_task or ""
        most = saturated(per_task) if per_task.isascii() and per_task.isdigit() else 1
        asked = options.gpu_bind is not None and options.gpu_bind.kind is not None
        if len(tasks) == 1 and (asked or per_task) and len(tasks[0].gpus) > most:
            seen = _numbers("GPU", tasks[0].gpus)
            text = f"a task alone on its node is not bound: it sees {seen}"
            said.append((node, Surprise("unbound", text, frozenset([_key(tasks[0])]))))
    yield from on_nodes(said)


def _wrong_step_gpus(found: Prediction) -> Iterator[Surprise]:
    wrong = [
        task
        for task in found.tasks
        if task.step_gpus is not None and task.step_gpus != ",".join(map(str, task.gpus))
    ]
    if wrong:
        first = wrong[0]
        text = (
            f"SLURM_STEP_GPUS names the wrong GPU in {len(wrong)} of {len(found.tasks)} tasks (task "
            f"{first.procid}: {first.step_gpus} for GPU {','.join(map(str, first.gpus))}): read the PCI "
            "bus id or UUID in the task"
        )
        yield Surprise("step_gpus", text, frozenset(map(_key, wrong)))


def _isolated(found: Prediction, cluster: Cluster) -> Iterator[Surprise]:
    """The device cgroup of each task hides the other tasks' GPUs from it."""
    for step, options in enumerate(found.steps):
        if "allow-task-sharing" in options.gres_flags:
            continue
        nodes = [tasks for (mine, _), tasks in _by_node(found).items() if mine == step]
        if any(len(_alike(tasks)) > 1 for tasks in nodes):
            cures: list[Cure] = []
            if cluster.rules.has_allow_task_sharing:
                flag = {"gres-flags": ",".join((*options.gres_flags, "allow-task-sharing"))}
                words = "--gres-flags=allow-task-sharing keeps the masks and opens the step's GPUs"
                cures += cures_on(found, step, dict(flag), words)
            words = "--gpu-bind=none opens the step's GPUs; select the device by SLURM_LOCALID"
            cures += cures_on(found, step, {"gpu-bind": "none"}, words)
            text = (
                f"step {step}: tasks cannot open each other's GPUs, so CUDA IPC and P2P between them "
                "fail"
            )
            yield Surprise("isolated", text, frozenset([step]), tuple(cures))
