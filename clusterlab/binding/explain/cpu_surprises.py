"""What of the CPUs in a prediction will surprise."""

from __future__ import annotations

from collections.abc import Iterator

from clusterlab.binding.explain.predict import Cluster, Prediction, Task
from clusterlab.binding.explain.profile import NodeProfile
from clusterlab.binding.records import cpu_list
from clusterlab.formats.hostlist import compress_hostlist


def cpu_surprises(found: Prediction, cluster: Cluster) -> Iterator[str]:
    """Warnings about shared, few and far CPUs, and about -c lost on the way to a step."""
    profiles = {node.name: node.profile for node in cluster.nodes}
    groups: dict[tuple[int, str], list[Task]] = {}
    for task in found.tasks:
        groups.setdefault((task.step, task.node), []).append(task)
    said: dict[str, list[str]] = {}
    for (_, node), tasks in groups.items():
        for text in (*_crowded(tasks), *_few(tasks), *_far(tasks, profiles[node])):
            if node not in said.setdefault(text, []):
                said[text].append(node)
    for text, nodes in said.items():
        yield f"{compress_hostlist(nodes)}: {text}"
    yield from _lost_cpus_per_task(found, cluster)


def _cpus(task: Task) -> frozenset[int]:
    return frozenset(map(int, filter(None, task.cpus.split(","))))


def _crowded(tasks: list[Task]) -> Iterator[str]:
    """Several tasks on the same CPUs, fewer than they are."""
    same: dict[str, list[int]] = {}
    for task in tasks:
        same.setdefault(task.cpus, []).append(task.localid)
    for cpus, who in same.items():
        count = cpus.count(",") + 1
        if count < len(who):
            word = "CPU" if count == 1 else "CPUs"
            yield f"{len(who)} tasks (local {cpu_list(set(who))}) share {word} {cpus}; see -c and --cpu-bind"


def _few(tasks: list[Task]) -> Iterator[str]:
    """One task for all GPUs of its node, as for torchrun, with fewer CPUs than GPUs."""
    if len(tasks) != 1:
        return
    task = tasks[0]
    cpus = len(_cpus(task))
    if len(task.gpus) > 1 and cpus < len(task.gpus):
        yield (
            f"one task with {len(task.gpus)} GPUs has {cpus} CPU{'s' if cpus > 1 else ''} "
            f"({cpu_list(set(_cpus(task)))}) for what it starts for each GPU; ask with -c"
        )


def _far(tasks: list[Task], profile: NodeProfile) -> Iterator[str]:
    """Tasks none of whose CPUs is near any of the GPUs they are shown."""
    far = [
        task.localid
        for task in tasks
        if task.gpus and not any(profile.near(gpu, _cpus(task)) for gpu in task.gpus)
    ]
    if far:
        word = "tasks" if len(far) > 1 else "task"
        yield (
            f"local {word} {cpu_list(set(far))} run{'' if len(far) > 1 else 's'} on CPUs far from the GPU "
            "(another socket); --gpu-bind=single:1, or map_gpu in the order of the CPUs"
        )


def _lost_cpus_per_task(found: Prediction, cluster: Cluster) -> Iterator[str]:
    job = found.job
    if job is None or job.command == "srun" or not job.cpus_per_task:
        return
    if cluster.rules.srun_reads_cpus_per_task:
        return
    lost = [i for i, step in enumerate(found.steps) if not step.said("cpus-per-task")]
    if lost:
        yield (
            f"srun of {cluster.rules.version} does not take -c {job.cpus_per_task} from "
            f"{job.command} (step {cpu_list(set(lost))}): export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK"
        )
