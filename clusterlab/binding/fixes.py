"""Fix lines that can be pasted: options right for this Slurm version and launcher, or the code change.

A fix is commands, one a line, then sentences as comments (``# …``): a shell takes all of it as it stands.
Python is one line of its own. COMMAND, SCRIPT and HOST are what the reader fills in.

Versions (Slurm's NEWS and git): --gpu-bind=none keeps the mask since 23.11.0 (657efad356);
--gres-flags=allow-task-sharing since 23.11.3 (79780501e1); srun reads SLURM_CPUS_PER_TASK up to 21.08
and again from 23.11 on, in between only SRUN_CPUS_PER_TASK.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from clusterlab.binding.diagnose.scene import Scene, by_host, uses_elastic
from clusterlab.binding.diagnose.sound_masks import first_gpus
from clusterlab.binding.diagnose.variables import number
from clusterlab.binding.records import NodeRecord, RankRecord

_LOCAL_VARIABLES = (
    "LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "MPI_LOCALRANKID",
    "PALS_LOCAL_RANKID",
    "FLUX_TASK_LOCAL_ID",
    "SLURM_LOCALID",
)


def launcher_of(scene: Scene, ranks: Sequence[RankRecord]) -> str:
    """``torchrun``, ``mpirun``, ``srun``, ``flux``, ``container`` or ``plain``: who to give options to."""
    line = scene.record.launcher
    if any(uses_elastic(r) for r in ranks) or "torchrun" in line:
        return "torchrun"
    if any("OMPI_COMM_WORLD_RANK" in r.env for r in ranks):
        return "mpirun"
    if any("FLUX_TASK_RANK" in r.env for r in ranks):
        return "flux"
    if scene.under_slurm or "srun" in line:
        return "srun"
    return "mpirun" if "mpirun" in line or "mpiexec" in line else "plain"


def local_variable(ranks: Sequence[RankRecord]) -> str:
    """The variable that tells these ranks their own local ranks, all different on a host."""
    for name in _LOCAL_VARIABLES:
        told = [(r.host, r.env[name]) for r in ranks if name in r.env]
        if told and len(set(told)) == len(ranks):
            return name
    return "LOCAL_RANK"


def paste(*commands: str, note: str = "") -> str:
    """A fix of ``commands``, one a line, and a sentence as a comment."""
    return "\n".join([*commands, *([f"# {note}"] if note else [])])


def set_device(ranks: Sequence[RankRecord]) -> str:
    """The line that selects a rank's device by the local rank its launcher sets."""
    name = local_variable(ranks)
    return (
        f'import os, torch; torch.cuda.set_device(int(os.environ["{name}"])'
        " % torch.cuda.device_count())"
    )


def tasks_per_node(ranks: Sequence[RankRecord]) -> int:
    """Ranks on the fullest host: those in the record and those that are only counted or numbered."""
    counts = [len(there) for there in by_host(ranks).values()]
    counts += [r.local_rank + 1 for r in ranks if r.local_rank is not None]
    for rank in ranks:
        for name in ("OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_STEP_TASKS_PER_NODE"):
            if name in rank.env and not uses_elastic(rank):
                counts += [int(n) for n in re.findall(r"(?<![x(0-9])[0-9]{1,4}", rank.env[name])]
    return max(counts, default=1)


def gpus_per_node(scene: Scene, ranks: Sequence[RankRecord]) -> int:
    """GPUs each node has for the job, as far as the record tells; at least one."""
    counts = [
        max(len(scene.record.nodes[h].gpus) if h in scene.record.nodes else 0, 0)
        for h in by_host(ranks)
    ]
    return max(min(counts, default=1), 1)


def at_least(scene: Scene, *version: int) -> bool | None:
    """Whether Slurm is of ``version`` or later; None: unknown."""
    known = scene.slurm_version
    return None if known is None else known + (0,) * (3 - len(known)) >= version


def own_cpus(scene: Scene, ranks: Sequence[RankRecord]) -> int | None:
    """The cores per task that the user asked for: -c, or what sbatch exported."""
    typed = scene.options.get("cpus-per-task")
    if typed.isascii() and typed.isdigit() and len(typed) < 6:
        return int(typed) or None
    return max((number(r.env, "SLURM_CPUS_PER_TASK") or 0 for r in ranks), default=0) or None


def step(
    scene: Scene,
    ranks: Sequence[RankRecord],
    *options: str,
    tasks: int | None = None,
    gpus: int | None = None,
    cpus: int | None = None,
) -> str:
    """An srun line for this job: its nodes and tasks, the user's own -c, then ``options``.

    ``gpus`` None: the user's own GPU options stay.
    """
    tasks = tasks or tasks_per_node(ranks)
    world = next((w for w in scene.worlds if any(r is ranks[0] for r in w)), ranks)
    words = [f"srun -N{len(by_host(world))} --ntasks-per-node={tasks}"]
    if gpus is not None:
        words.append(f"--gpus-per-node={gpus}")
    else:
        for name in (
            "gpus",
            "gpus-per-node",
            "gres",
            "gpus-per-task",
            "ntasks-per-gpu",
            "gpu-bind",
        ):
            given = scene.options.get(name)
            words += (
                [f"--{name}={given}"] if given and not re.search(r"[\s;|&$`'\"<>()]", given) else []
            )
    cpus = cpus or own_cpus(scene, ranks)
    words += [f"--cpus-per-task={cpus}"] if cpus else []
    return " ".join([*words, *options, "COMMAND"])


def inherited_mask(ranks: Sequence[RankRecord]) -> str | None:
    """The variable whose one value hides all but one GPU from every rank of a host alike.

    Slurm gives several tasks of a step one mask only where the step has that one GPU; mostly the shell's
    own mask came along.
    """
    for name in ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
        values = {r.env.get(name) for r in ranks}
        alone = {r.visible for r in ranks if r.visible}
        if len(ranks) > 1 and len(values) == 1 and None not in values and "" not in values:
            same = all(len({r.visible for r in there}) == 1 for there in by_host(ranks).values())
            if same and alone and all(len(v) == 1 for v in alone):
                return name
    return None


def show_all_gpus(scene: Scene, ranks: Sequence[RankRecord]) -> str:
    """How every rank of a node sees all of the job's GPUs there, so that LOCAL_RANK is an ordinal."""
    kind = launcher_of(scene, ranks)
    tasks = tasks_per_node(ranks)
    if kind == "srun":
        if at_least(scene, 23, 11):
            return paste(
                step(scene, ranks, "--gpu-bind=none", gpus=tasks),
                note="without --gpus-per-task and any other --gpu-bind",
            )
        return paste(
            step(scene, ranks, gpus=tasks),
            note="without --gpus-per-task, --gpu-bind and --accel-bind: nothing is bound then",
        )
    if kind == "flux":
        return f"flux submit -N1 -n{tasks} -o gpu-affinity=off COMMAND"
    if kind == "torchrun":
        mask = first_gpus(scene, ranks, tasks)
        return f"CUDA_VISIBLE_DEVICES={mask} torchrun --nproc_per_node={tasks} SCRIPT"
    return paste(
        f"export CUDA_VISIBLE_DEVICES={first_gpus(scene, ranks, tasks)}",
        note="the same for all ranks of a node",
    )


def keep_ipc(scene: Scene, ranks: Sequence[RankRecord]) -> str:
    """How ranks keep one GPU each and can still open each other's memory."""
    tasks = tasks_per_node(ranks)
    if any("ZE_AFFINITY_MASK" in r.env for r in ranks):
        return paste(
            "unset ZE_AFFINITY_MASK",
            note="all ranks see all GPUs, each selects its own by ordinal; in a container add"
            " --cap-add=SYS_PTRACE --security-opt seccomp=unconfined",
        )
    if launcher_of(scene, ranks) != "srun":
        return paste(show_all_gpus(scene, ranks), note="select the device by local rank")
    line = step(scene, ranks, gpus=tasks).removesuffix(" COMMAND")
    soft = f"{line} bash -c 'export CUDA_VISIBLE_DEVICES=$SLURM_LOCALID; exec COMMAND'"
    sharing = step(scene, ranks, "--gres-flags=allow-task-sharing")
    newer = at_least(scene, 23, 11, 3)
    if newer:
        return paste(sharing, note="tasks keep their masks, the cgroup is shared")
    if newer is False:
        return paste(soft, note="a mask, but no device cgroup of its own for each task")
    return paste(
        soft,
        note="a mask, but no device cgroup for each task; from Slurm 23.11.3 on"
        f" {sharing} does the same",
    )


def one_gpu_each(scene: Scene, ranks: Sequence[RankRecord]) -> str:
    """How every rank gets a GPU of its own."""
    kind = launcher_of(scene, ranks)
    tasks = min(tasks_per_node(ranks), gpus_per_node(scene, ranks))
    mask = inherited_mask(ranks)
    first = [f"unset {mask}"] if mask else []
    why = f"{mask} is inherited: it hides all other GPUs from every rank; " if mask else ""
    if kind == "torchrun":
        return paste(
            *first,
            f"torchrun --nproc_per_node={tasks} SCRIPT",
            note=f"{why}in SCRIPT: {set_device(ranks)}",
        )
    if kind == "mpirun":
        return paste(
            *first,
            f"mpirun -N {tasks} COMMAND",
            note=f"{why}in the program, before any other CUDA call: {set_device(ranks)}",
        )
    if kind == "flux":
        return paste(*first, f"flux submit -N1 -n{tasks} -g1 -o gpu-affinity=per-task COMMAND")
    if kind == "srun":
        ids = gpus_beside_cpus(scene, ranks, tasks)
        if ids is None or mask:
            return paste(
                *first,
                step(scene, ranks, tasks=tasks, gpus=tasks),
                note=f"{why}without --gpu-bind, and in the program: {set_device(ranks)}",
            )
        return paste(
            step(scene, ranks, f"--gpu-bind=map_gpu:{comma(ids)}", tasks=tasks, gpus=tasks),
            note="each task then sees one GPU: ordinal 0",
        )
    return paste(*first, set_device(ranks), note=f"{why}select the device by local rank")


def gpus_beside_cpus(scene: Scene, ranks: Sequence[RankRecord], tasks: int) -> list[int] | None:
    """A GPU for each local task, in a domain of its CPUs where one is free; None: not to be told.

    Ids of map_gpu are the node's only where the job has the whole node, and where the nodes are alike.
    """
    orders = []
    for host, there in by_host(ranks).items():
        node = scene.record.nodes.get(host)
        if node is None or not node.gpus:
            return list(range(tasks)) if scene.constrained else None
        if len(node.gpus) != tasks:
            return None
        orders.append(_gpu_order(node, there, tasks))
    return orders[0] if orders and all(o == orders[0] for o in orders) else None


def _gpu_order(node: NodeRecord, ranks: Sequence[RankRecord], tasks: int) -> list[int]:
    """First each task with cores a GPU of theirs, then the others what is left."""
    cores = {r.local_rank: r.cpus for r in ranks if r.cpus}
    free = sorted(node.gpus, key=lambda g: g.index)
    taken: dict[int, int] = {}
    for near in (True, False):
        for task in range(tasks):
            if task in taken:
                continue
            domains = {d for d, cpus in node.numa.items() if cores.get(task, frozenset()) & cpus}
            gpu = next((g for g in free if not near or g.numa in domains), None)
            if gpu is not None:
                taken[task] = gpu.index
                free.remove(gpu)
    return [taken[task] for task in range(tasks)]


def gpus_into_container(scene: Scene, rank: RankRecord) -> str:
    """How a container that may open no GPU gets the node's, by its runtime and the vendor."""
    runtime = ((rank.container.runtime if rank.container else None) or "").lower()
    vendor = scene.vendor(rank)
    if runtime.startswith(("apptainer", "singularity")):
        tool = "singularity" if runtime.startswith("singularity") else "apptainer"
        flag = {"amd": "--rocm", "intel": "--bind /dev/dri"}.get(vendor, "--nv")
        return f"{tool} exec {flag} IMAGE COMMAND"
    if runtime.startswith(("enroot", "pyxis")):
        if vendor == "nvidia":
            return paste(
                "export NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility",
                note="before srun --container-image; enroot's hook 98-nvidia.sh mounts them",
            )
        return "srun --container-image=IMAGE --container-mounts=/dev/dri,/dev/kfd COMMAND"
    tool = "podman" if runtime.startswith("podman") else "docker"
    flag = {"amd": "--device=/dev/kfd --device=/dev/dri", "intel": "--device=/dev/dri"}.get(
        vendor, "--device nvidia.com/gpu=all" if tool == "podman" else "--gpus all"
    )
    return f"{tool} run {flag} IMAGE COMMAND"


def comma(numbers: Sequence[int] | range) -> str:
    """``0,1,2``."""
    return ",".join(str(n) for n in numbers)
