"""What of the CPUs in a prediction will surprise."""

from __future__ import annotations

from collections.abc import Iterator

from clusterlab.binding.explain.predict import Cluster, Prediction, Task
from clusterlab.binding.explain.profile import NodeProfile
from clusterlab.binding.explain.surprise import Change, Cure, Surprise, cures_on, on_nodes
from clusterlab.core.order import number_list


def cpu_surprises(found: Prediction, cluster: Cluster) -> Iterator[Surprise]:
    """Shared, few and far CPUs, and -c lost on the way to a step."""
    profiles = {node.name: node.profile for node in cluster.nodes}
    groups: dict[tuple[int, str], list[Task]] = {}
    for task in found.tasks:
        groups.setdefault((task.step, task.node), []).append(task)
    said: list[tuple[str, Surprise]] = []
    for (_, node), tasks in groups.items():
        profile = profiles[node]
        said += [(node, one) for one in _crowded(found, tasks, profile)]
        said += [(node, one) for one in _few(found, tasks, profile)]
        said += [(node, one) for one in _far(found, tasks, profile)]
        said += [(node, one) for one in _far_by_local_id(found, tasks, profile)]
    yield from on_nodes(said)
    yield from _lost_cpus_per_task(found, cluster)


def _cpus(task: Task) -> frozenset[int]:
    return frozenset(map(int, filter(None, task.cpus.split(","))))


def _crowded(found: Prediction, tasks: list[Task], profile: NodeProfile) -> Iterator[Surprise]:
    """Several tasks on the same CPUs, fewer than they are."""
    same: dict[str, list[Task]] = {}
    for task in tasks:
        same.setdefault(task.cpus, []).append(task)
    step = tasks[0].step
    for cpus, mine in same.items():
        count = cpus.count(",") + 1
        if count >= len(mine):
            continue
        word = "CPU" if count == 1 else "CPUs"
        who = number_list({task.localid for task in mine})
        cures: list[Cure] = []
        if found.steps[step].cpu_bind.mode is not None:
            cures += cures_on(found, step, {"cpu-bind": None}, "leave --cpu-bind out")
        cures += _more_cpus(found, step, max(profile.cpus // len(tasks), 1))
        text = f"{len(mine)} tasks (local {who}) share {word} {cpus}"
        yield Surprise("crowded_cpus", text, frozenset(map(_key, mine)), tuple(cures))


def _more_cpus(found: Prediction, step: int, count: int) -> Iterator[Cure]:
    yield from cures_on(found, step, {"cpus-per-task": str(count)}, f"use -c{count}")


def _key(task: Task) -> tuple[int, int]:
    return task.step, task.procid


def _few(found: Prediction, tasks: list[Task], profile: NodeProfile) -> Iterator[Surprise]:
    """One task for all GPUs of its node, as for torchrun, with fewer CPUs than GPUs."""
    if len(tasks) != 1:
        return
    task = tasks[0]
    cpus = len(_cpus(task))
    if len(task.gpus) > 1 and cpus < len(task.gpus):
        counts = dict.fromkeys((profile.cpus, len(task.gpus)))
        cures = [cure for count in counts for cure in _more_cpus(found, task.step, count)]
        text = (
            f"one task with {len(task.gpus)} GPUs has {cpus} CPU{'s' if cpus > 1 else ''} "
            f"({number_list(set(_cpus(task)))}) for what it starts for each GPU"
        )
        yield Surprise("few_cpus", text, frozenset([_key(task)]), tuple(cures))


def _far(found: Prediction, tasks: list[Task], profile: NodeProfile) -> Iterator[Surprise]:
    """Tasks none of whose CPUs is near any of the GPUs they are shown."""
    far = [
        task
        for task in tasks
        if task.gpus and not any(profile.near(gpu, _cpus(task)) for gpu in task.gpus)
    ]
    if far:
        word = "tasks" if len(far) > 1 else "task"
        who = number_list({task.localid for task in far})
        text = (
            f"local {word} {who} run{'' if len(far) > 1 else 's'} on CPUs far from the GPU "
            "(another socket)"
        )
        cures = (*_nearer(found, tasks, profile), *_other_gpus(found, tasks, profile))
        yield Surprise("far_cpus", text, frozenset(map(_key, far)), cures)


def _far_by_local_id(
    found: Prediction, tasks: list[Task], profile: NodeProfile
) -> Iterator[Surprise]:
    """Tasks that see several GPUs and are far from the one that most programs take: their local id's."""
    if len(tasks) == 1:
        return
    far = [
        task
        for task in tasks
        if len(task.gpus) > 1
        and any(profile.near(gpu, _cpus(task)) for gpu in task.gpus)
        and task.localid < len(task.gpus)
        and not profile.near(task.gpus[task.localid], _cpus(task))
    ]
    if far:
        one = len(far) == 1
        who = number_list({task.localid for task in far})
        text = (
            f"local task{'' if one else 's'} {who} run{'s' if one else ''} on CPUs far from the GPU "
            f"(another socket) if {'it takes' if one else 'each takes'} the GPU of its local id"
        )
        about = frozenset(map(_key, far))
        yield Surprise("far_cpus", text, about, (*_nearer(found, tasks, profile),), info=True)


def _nearer(found: Prediction, tasks: list[Task], profile: NodeProfile) -> Iterator[Cure]:
    """Other CPUs: sockets filled one after the other, and as many CPUs a task as the node has."""
    step, each = tasks[0].step, max(profile.cpus // len(tasks), 1)
    block: dict[str, str | None] = {"distribution": "block:block"}
    yield from cures_on(found, step, block, "use -m block:block")
    if each > 1:
        yield from _more_cpus(found, step, each)
        more = {**block, "cpus-per-task": str(each)}
        yield from cures_on(found, step, more, f"use -c{each} -m block:block")


def _other_gpus(found: Prediction, tasks: list[Task], profile: NodeProfile) -> Iterator[Cure]:
    """Other GPUs: one near each task's CPUs."""
    step = tasks[0].step
    yield from cures_on(found, step, {"gpu-bind": "single:1"}, "use --gpu-bind=single:1")
    left = list(tasks[0].node_gpus)
    order: list[int] = []
    for task in tasks:
        near = [gpu for gpu in left if profile.near(gpu, _cpus(task))]
        if not left:
            return
        order.append((near or left)[0])
        left.remove(order[-1])
    words = f"map_gpu:{','.join(map(str, order))}"
    yield from cures_on(found, step, {"gpu-bind": words}, f"use --gpu-bind={words}")


def _lost_cpus_per_task(found: Prediction, cluster: Cluster) -> Iterator[Surprise]:
    job = found.job
    if job is None or job.command == "srun" or not job.cpus_per_task:
        return
    if cluster.rules.srun_reads_cpus_per_task:
        return
    lost = [i for i, step in enumerate(found.steps) if not step.said("cpus-per-task")]
    if lost:
        variable = (("SRUN_CPUS_PER_TASK", str(job.cpus_per_task)),)
        cure = Cure(
            tuple(Change(i, environ=variable) for i in lost),
            "export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK",
        )
        text = (
            f"srun of {cluster.rules.version} does not take -c {job.cpus_per_task} from "
            f"{job.command} (step {number_list(set(lost))})"
        )
        yield Surprise("lost_cpus_per_task", text, frozenset(lost), (cure,))
