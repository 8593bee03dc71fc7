"""The mask and the GPUs of each task on a node.

Follows src/common/gres.c (_get_usable_gres and what it calls) and src/plugins/gres/common/gres_common.c
(common_gres_set_env) of Slurm 22.05. With ConstrainDevices=yes the mask counts from 0 among the GPUs of
the step, whatever they are, and the device cgroup decides which a task opens.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from clusterlab.binding.explain.cpu_bind_option import GpuBind
from clusterlab.binding.explain.profile import NodeProfile
from clusterlab.binding.explain.versions import SlurmRules
from clusterlab.core.digits import saturated


@dataclass(frozen=True)
class GpuStep:
    """What slurmstepd knows on one node. ``gpus``: those of the step here, by index on the node."""

    profile: NodeProfile
    gpus: frozenset[int]
    tasks: int
    bind: GpuBind | None
    constrain_devices: bool
    rules: SlurmRules
    task_sharing: bool = False
    """--gres-flags=allow-task-sharing: the device cgroup stays the step's, only masks are per task."""


@dataclass(frozen=True, slots=True)
class TaskGpus:
    """``mask`` is CUDA_VISIBLE_DEVICES (None: unset), ``gpus`` what it shows, by index on the node.

    ``step_gpus`` is SLURM_STEP_GPUS. ``error``: what slurmstepd prints about the binding.
    """

    mask: str | None
    gpus: tuple[int, ...]
    step_gpus: str | None
    error: str | None = None


def bind_gpus(step: GpuStep, cpus: Sequence[frozenset[int]]) -> list[TaskGpus]:
    """What each local task is shown; ``cpus`` are the tasks' CPUs."""
    ordered = sorted(step.gpus)
    if not ordered:
        return [TaskGpus(None, (), None)] * step.tasks
    # One task alone on a node is never bound (slurmstepd/mgr.c).
    if step.bind is None or step.tasks <= 1:
        return [_whole(step, ordered)] * step.tasks
    if step.bind.kind is None:
        unset = TaskGpus(None, tuple(ordered), None)
        whole = _whole(step, ordered) if step.rules.gpu_bind_none_keeps_mask else unset
        return [whole] * step.tasks
    if step.bind.kind == "per_task" and step.bind.count == 0:
        return [TaskGpus(None, tuple(ordered), None)] * step.tasks
    if step.task_sharing and step.constrain_devices:
        return _sharing(step, ordered, cpus)
    return [_task(step, step.bind, task, cpus[task]) for task in range(step.tasks)]


def _sharing(
    step: GpuStep, ordered: Sequence[int], cpus: Sequence[frozenset[int]]
) -> list[TaskGpus]:
    """Masks per task in a cgroup that holds all of the step's GPUs: positions among those (24.11)."""
    assert step.bind is not None
    positions = replace(
        step, gpus=frozenset(range(len(ordered))), constrain_devices=False, task_sharing=False
    )
    found = [_task(positions, step.bind, task, cpus[task]) for task in range(step.tasks)]
    return [replace(task, gpus=tuple(ordered[place] for place in task.gpus)) for task in found]


def _whole(step: GpuStep, ordered: Sequence[int]) -> TaskGpus:
    shown = range(len(ordered)) if step.constrain_devices else ordered
    real = ",".join(map(str, ordered))
    return TaskGpus(",".join(map(str, shown)), tuple(ordered), real)


def _task(step: GpuStep, bind: GpuBind, task: int, cpus: frozenset[int]) -> TaskGpus:
    ordered = sorted(step.gpus)
    opened, complaint = _usable(step, bind, task, cpus, devices=True)
    if not opened:
        opened, complaint = {ordered[0]}, complaint or _nowhere(bind, task)
    if not step.constrain_devices:
        mask = ",".join(map(str, sorted(opened)))
        return TaskGpus(mask, tuple(sorted(opened)), mask, complaint)
    shown, complaint = _usable(step, bind, task, cpus, devices=False)
    count = len(shown)
    if not shown:
        count, complaint = 1, complaint or _nowhere(bind, task)
    count = min(count, len(ordered))
    mask = ",".join(map(str, range(count)))
    # The mask counts what the cgroup leaves open; STEP_GPUS names the step's first GPUs all the same.
    step_gpus = ",".join(map(str, ordered[:count]))
    return TaskGpus(mask, tuple(sorted(opened))[:count], step_gpus, complaint)


def _nowhere(bind: GpuBind, task: int) -> str:
    return (
        f"Bind request {bind.text} does not specify any devices within the allocation for task "
        f"{task}. Binding to the first device in the allocation instead."
    )


def _usable(
    step: GpuStep, bind: GpuBind, task: int, cpus: frozenset[int], *, devices: bool
) -> tuple[set[int], str | None]:
    """GPUs that ``bind`` means for a task, and a complaint.

    ``devices``: as the device cgroup is set; else as the mask is made. They differ where a map or a
    count is read relative to the step.
    """
    ordered = sorted(step.gpus)
    if bind.kind in ("map", "mask"):
        return _listed(step, bind, task, devices=devices)
    if bind.kind == "per_task":
        if step.constrain_devices and not devices:
            return set(range(bind.count)), None
        start = task * bind.count
        mine = set(ordered[start : start + bind.count])
        short = len(mine) < bind.count
        return mine, "Not enough gpus to bind for gpus per task" if short else None
    near = [gpu for gpu in ordered if step.profile.near(gpu, cpus)]
    if bind.kind == "single" and len(near) > 1:
        near = [near[task // bind.count % len(near)]]
    return set(near), None


def _listed(
    step: GpuStep, bind: GpuBind, task: int, *, devices: bool
) -> tuple[set[int], str | None]:
    count = len(step.profile.gpus)
    value = _value_for(bind.items, task)
    if bind.kind == "map":
        wanted = {value} if 0 <= value < count else None
    else:
        wanted = {i for i in range(count) if value >> i & 1} if 1 <= value < 1 << count else None
    if wanted is None:
        return set(), "Invalid --gpu-bind= value specified."
    if step.constrain_devices and devices:
        ordered = sorted(step.gpus)
        return {gpu for position, gpu in enumerate(ordered) if position in wanted}, None
    return wanted & step.gpus, None


def _value_for(items: str, task: int) -> int:
    """The task's entry of ``0*2,1``; the list is used again from its start when it ends."""
    entries: list[tuple[str, int]] = []
    for entry in filter(None, items.split(",")):
        text, star, times = entry.partition("*")
        repeat = saturated(times) if star and times else 0 if star else 1
        entries.append((text, min(repeat, 1 << 20) or 1))
    if not entries:
        return -1
    place = task % sum(repeat for _, repeat in entries)
    for text, repeat in entries:
        if place < repeat:
            return _strtol(text)
        place -= repeat
    raise AssertionError("a place below the sum of the counts")


def _strtol(text: str) -> int:
    """strtol(text, NULL, 0): 0x… is hexadecimal, 0… octal, else decimal; a mask of 10 is ten."""
    match = re.match(r"0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*", text)
    if match is None:
        return 0
    digits = match[0]
    octal = len(digits) > 1 and digits[0] == "0" and digits[1] not in "xX"
    if digits[:1] == "0":
        return int(digits, 8 if octal else 0)  # 0 or a power of two: no limit of digits
    return saturated(digits)
