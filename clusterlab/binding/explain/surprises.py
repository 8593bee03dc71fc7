"""What of a prediction will surprise: one sentence each, with what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from clusterlab.binding.explain.cpu_surprises import cpu_surprises
from clusterlab.binding.explain.predict import Cluster, Prediction, Task
from clusterlab.binding.records import cpu_list
from clusterlab.formats.hostlist import compress_hostlist


def surprises(found: Prediction, cluster: Cluster) -> list[str]:
    """Warnings about ``found``, Slurm's own first; nothing about a layout that does what it seems to."""
    lines = list(dict.fromkeys(found.notes))
    if found.rejected is not None or found.allocation is None:
        return lines
    if not found.tasks:
        return [*lines, f"no step given: {_held(found)}; its tasks are not predicted"]
    lines += _uneven(found)
    lines += _waits(found)
    lines += _complaints(found)
    lines += _idle_nodes(found)
    lines += _idle_gpus(found)
    lines += _shared_gpus(found)
    lines += _local_rank(found)
    lines += _unset(found, cluster)
    lines += _unbound(found)
    if cluster.constrain_devices:
        lines += _wrong_step_gpus(found)
        lines += _isolated(found, cluster)
    lines += cpu_surprises(found, cluster)
    if cluster.rules.tasks_in_topology_order and len({task.node for task in found.tasks}) > 1:
        lines.append(
            f"Slurm {cluster.rules.version} hands out tasks in the topology's order, taken here to be "
            "that of the names (CR_NO_DIST_TOPO_BLOCK turns it off)"
        )
    return lines


Placed = dict[tuple[int, str], list[Task]]


def _by_node(found: Prediction) -> Placed:
    """The tasks of each step on each node, in local order."""
    placed: Placed = {}
    for task in sorted(found.tasks, key=lambda task: (task.step, task.node, task.localid)):
        placed.setdefault((task.step, task.node), []).append(task)
    return placed


def _on_nodes(said: Mapping[str, Iterable[str]] | Iterable[tuple[str, str]]) -> list[str]:
    """``n[0-3]: what``: sentences said of several nodes are said once."""
    nodes: dict[str, list[str]] = {}
    pairs = (
        ((node, text) for node, texts in said.items() for text in texts)
        if isinstance(said, Mapping)
        else said
    )
    for node, text in pairs:
        if node not in nodes.setdefault(text, []):
            nodes[text].append(node)
    return [f"{compress_hostlist(names)}: {text}" for text, names in nodes.items()]


def _numbers(word: str, numbers: Iterable[int]) -> str:
    ordered = sorted(numbers)
    return f"{word}{'s' if len(ordered) > 1 else ''} {cpu_list(set(ordered))}"


def _held(found: Prediction) -> str:
    assert found.allocation is not None
    names = compress_hostlist([share.name for share in found.allocation.shares])
    gpus = {share.gpus for share in found.allocation.shares}
    each = [_numbers("GPU", mine) for mine in gpus if mine]
    return f"the job gets {names}" + (f" with {each[0]} each" if len(gpus) == 1 and each else "")


def _uneven(found: Prediction) -> Iterator[str]:
    for step, tasks in groupby(found.tasks, key=lambda task: task.step):
        counts: dict[str, int] = {}
        for task in tasks:
            counts[task.node] = counts.get(task.node, 0) + 1
        if len(set(counts.values())) == 1:
            continue
        total = sum(counts.values())
        shown = "+".join(str(count) for count in counts.values())
        cure = ""
        if total % len(counts) == 0:
            cure = f"; --ntasks-per-node={total // len(counts)} makes it even"
        yield f"step {step}: {total} tasks on {len(counts)} nodes are {shown}{cure}"


def _waits(found: Prediction) -> Iterator[str]:
    for step in found.waits:
        options = found.steps[step]
        inherited = "gpus-per-node" in options.from_env or "gpus" in options.from_env
        cure = ""
        if inherited and (options.gpus_per_task or options.gpus_per_node):
            cure = (
                "; it takes the job's GPU count from SLURM_GPUS or SLURM_GPUS_PER_NODE: give each "
                "step its own --gpus-per-node"
            )
        yield f"step {step} starts only when a step before it has ended{cure}"


def _complaints(found: Prediction) -> list[str]:
    return _on_nodes(
        (task.node, f"slurmstepd: {task.complaint}") for task in found.tasks if task.complaint
    )


def _idle_nodes(found: Prediction) -> list[str]:
    assert found.allocation is not None
    used = {task.node for task in found.tasks}
    idle = [share.name for share in found.allocation.shares if share.name not in used]
    return [f"{compress_hostlist(idle)}: allocated, but no task runs there"] if idle else []


def _idle_gpus(found: Prediction) -> list[str]:
    """GPUs no task is shown, or that stay over when each task takes one."""
    assert found.allocation is not None
    shown: dict[str, set[int]] = {}
    for task in found.tasks:
        shown.setdefault(task.node, set()).update(task.gpus)
    said = []
    for share in found.allocation.shares:
        left = share.gpus - shown.get(share.name, share.gpus)
        if left:
            said.append(
                (share.name, f"{_numbers('GPU', left)} idle: allocated, but in no task's mask")
            )
    for (_, node), tasks in _by_node(found).items():
        for gpus, mine in _alike(tasks).items():
            if 1 < len(mine) < len(gpus) and len(mine) == len(tasks):
                left_over = len(gpus) - len(mine)
                said.append(
                    (
                        node,
                        f"{len(mine)} tasks all see {_numbers('GPU', gpus)}; with one each "
                        f"{left_over} stay{'s' if left_over == 1 else ''} idle",
                    )
                )
    return _on_nodes(said)


def _alike(tasks: Sequence[Task]) -> dict[tuple[int, ...], list[Task]]:
    """Tasks by the GPUs they are shown."""
    groups: dict[tuple[int, ...], list[Task]] = {}
    for task in tasks:
        groups.setdefault(task.gpus, []).append(task)
    return groups


def _shared_gpus(found: Prediction) -> list[str]:
    """More tasks than GPUs in a group with one mask, or masks that overlap."""
    said = []
    for (_, node), tasks in _by_node(found).items():
        groups = _alike(tasks)
        for gpus, mine in groups.items():
            if gpus and len(mine) > len(gpus):
                who = _numbers("local task", [task.localid for task in mine])
                said.append(
                    (node, f"{who} share {_numbers('GPU', gpus)}: two or more tasks on a GPU")
                )
        masks = [set(gpus) for gpus in groups]
        both = {
            gpu for i, one in enumerate(masks) for other in masks[i + 1 :] for gpu in one & other
        }
        if both:
            said.append(
                (node, f"{_numbers('GPU', both)}: in masks that differ; two tasks may take it")
            )
    return _on_nodes(said)


def _local_rank(found: Prediction) -> Iterator[str]:
    """Tasks whose local rank is no device number in their mask, though the node has the GPUs."""
    steps: dict[int, list[Task]] = {}
    for task in found.tasks:
        mine = len(task.gpus)
        if mine and task.localid >= mine and len(task.node_gpus) > mine:
            steps.setdefault(task.step, []).append(task)
    for step, tasks in steps.items():
        most = max(len(task.gpus) for task in tasks)
        devices = "device 0" if most == 1 else f"devices 0-{most - 1}"
        yield (
            f"step {step}: tasks see their GPUs as {devices}; a program that selects device "
            "SLURM_LOCALID fails with 'invalid device ordinal'"
        )


def _unset(found: Prediction, cluster: Cluster) -> list[str]:
    profiles = {node.name: node.profile for node in cluster.nodes}
    said = []
    for task in found.tasks:
        if task.cuda_visible_devices is not None or not profiles[task.node].gpus:
            continue
        if not task.node_gpus:
            if not cluster.constrain_devices:
                said.append((task.node, "no GPU in the step, CUDA_VISIBLE_DEVICES unset" + _REACH))
            continue
        within = f": all of {_numbers('GPU', task.node_gpus)} are seen"
        said.append(
            (
                task.node,
                "this GPU binding leaves CUDA_VISIBLE_DEVICES unset"
                + (within if cluster.constrain_devices else _REACH),
            )
        )
    return _on_nodes(said)


_REACH = ": CUDA shows every GPU of the node, other jobs' too"


def _unbound(found: Prediction) -> list[str]:
    """A task alone on its node is never bound to some of the step's GPUs."""
    said = []
    for (step, node), tasks in _by_node(found).items():
        options = found.steps[step]
        per_task = options.gpus_per_task or ""
        most = int(per_task) if per_task.isascii() and per_task.isdigit() else 1
        asked = options.gpu_bind is not None and options.gpu_bind.kind is not None
        if len(tasks) == 1 and (asked or per_task) and len(tasks[0].gpus) > most:
            seen = _numbers("GPU", tasks[0].gpus)
            said.append((node, f"a task alone on its node is not bound: it sees {seen}"))
    return _on_nodes(said)


def _wrong_step_gpus(found: Prediction) -> Iterator[str]:
    wrong = [
        task
        for task in found.tasks
        if task.step_gpus is not None and task.step_gpus != ",".join(map(str, task.gpus))
    ]
    if wrong:
        first = wrong[0]
        yield (
            f"SLURM_STEP_GPUS names the wrong GPU in {len(wrong)} of {len(found.tasks)} tasks (task "
            f"{first.procid}: {first.step_gpus} for GPU {','.join(map(str, first.gpus))}): read the PCI "
            "bus id or UUID in the task"
        )


def _isolated(found: Prediction, cluster: Cluster) -> Iterator[str]:
    """The device cgroup of each task hides the other tasks' GPUs from it."""
    for step, options in enumerate(found.steps):
        if "allow-task-sharing" in options.gres_flags:
            continue
        nodes = [tasks for (mine, _), tasks in _by_node(found).items() if mine == step]
        if any(len(_alike(tasks)) > 1 for tasks in nodes):
            cure = (
                "--gres-flags=allow-task-sharing keeps the masks and opens the step's GPUs"
                if cluster.rules.has_allow_task_sharing
                else "--gpu-bind=none opens the step's GPUs; select the device by SLURM_LOCALID"
            )
            yield (
                f"step {step}: tasks cannot open each other's GPUs, so CUDA IPC and P2P between them "
                f"fail; {cure}"
            )
