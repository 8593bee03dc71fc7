"""Fix lines about cores: enough of them for each rank, and those next to its GPU."""

from __future__ import annotations

import re
from collections.abc import Sequence

from clusterlab.binding.diagnose.scene import Scene, by_host
from clusterlab.binding.diagnose.variables import number
from clusterlab.binding.fixes import (
    at_least,
    launcher_of,
    local_variable,
    own_cpus,
    paste,
    step,
    tasks_per_node,
)
from clusterlab.binding.records import RankRecord


def more_cores(scene: Scene, ranks: Sequence[RankRecord], cores: int) -> str:
    """How each rank gets ``cores`` cores, or those the user asked for."""
    kind = launcher_of(scene, ranks)
    cores = max(cores, 2)
    if kind == "mpirun":
        return paste(
            f"mpirun --map-by slot:PE={cores} --bind-to core COMMAND", note="or: --bind-to none"
        )
    if kind == "srun":
        return _step_with_cores(scene, ranks, cores)
    if kind == "torchrun":
        return paste(
            "taskset -cp 0-$(($(nproc --all)-1)) $$",
            "torchrun --numa-binding=node SCRIPT",
            note="torchrun's ranks have the cores of the shell that starts it",
        )
    return f"taskset -c 0-{cores - 1} COMMAND\n# {cores} cores per rank, other ones for each rank"


def _step_with_cores(scene: Scene, ranks: Sequence[RankRecord], cores: int) -> str:
    listed = listed_cores(scene, ranks)
    first = ["unset ${!SLURM_CPU_BIND*}"] if listed else []
    why = f"without {listed}: it puts tasks on the cores it lists and no others" if listed else ""
    inherits = at_least(scene, 23, 11)
    if inherits is False and (at_least(scene, 22, 5) is not False):
        first.append(f"export SRUN_CPUS_PER_TASK={cores}")
        why = why or "srun of 22.05 to 23.02 does not take sbatch's -c"
    return paste(*first, step(scene, ranks, "--cpu-bind=cores", cpus=cores), note=why)


def listed_cores(scene: Scene, ranks: Sequence[RankRecord]) -> str:
    """``--cpu-bind=map_cpu:…`` where this step was given a list of cores; ""."""
    texts = [scene.options.get("cpu-bind"), *(r.env.get("SLURM_CPU_BIND", "") for r in ranks)]
    found = next((m for t in texts if (m := re.search(r"map_(?:cpu|ldom):[0-9a-fx,*]+", t))), None)
    return f"--cpu-bind={found[0]}" if found else ""


def near_cores(scene: Scene, ranks: Sequence[RankRecord]) -> str:
    """Cores next to each rank's GPU, as a line made from the node in the record."""
    kind = launcher_of(scene, ranks)
    if kind == "torchrun":
        line = "torchrun --numa-binding=node SCRIPT"
        if scene.under_slurm:
            spawners = max(len(scene.tasks(there)) for there in by_host(ranks).values())
            each = tasks_per_node(ranks) // max(spawners, 1)
            start = step(scene, ranks, "--cpu-bind=none", tasks=max(spawners, 1))
            line = line.replace("torchrun", f"torchrun --nproc_per_node={each}")
            return paste(
                start.replace("COMMAND", line), note="torchrun can only bind to cores it has"
            )
        return line
    if kind == "srun":
        return _near_masks(scene, ranks)
    host = ranks[0].host
    domains = {
        r.local_rank: d for r in ranks if r.host == host and (d := _domain(scene, r)) is not None
    }
    if len(set(domains.values())) == 1:
        domain = next(iter(domains.values()))
        return f"numactl --cpunodebind={domain} --membind={domain} COMMAND"
    listed = " ".join(str(domains.get(i, "?")) for i in range(tasks_per_node(ranks)))
    if "?" in listed:
        return "# cannot name each rank's NUMA domain: the record lacks the GPU of some local ranks"
    variable = local_variable(ranks)
    return paste(
        f"d=({listed}); d=${{d[${variable}]}}; exec numactl --cpunodebind=$d --membind=$d COMMAND",
        note="in a wrapper that the launcher starts for each rank",
    )


def _near_masks(scene: Scene, ranks: Sequence[RankRecord]) -> str:
    """One mask per local task; the step gets all cores, for Slurm refuses masks outside the step."""
    tasks = tasks_per_node(ranks)
    lists = []
    for there in by_host(ranks).values():
        by_local = {r.local_rank: _near_mask(scene, r) for r in there}
        lists.append([by_local.get(task) for task in range(tasks)])
    absent = [str(t) for t in range(tasks) if any(listed[t] is None for listed in lists)]
    if absent:
        return (
            f"# cannot name near cores for all {tasks} tasks of a node: the GPU of local rank"
            f" {','.join(absent)} is not in the record; run the doctor with all ranks"
        )
    if any(listed != lists[0] for listed in lists):
        return paste(
            step(scene, ranks, "--cpu-bind=none", '"$(clusterlab path slurm)/launch.sh"'),
            note="nodes differ: launch.sh takes the cores next to each rank's GPU",
        )
    masks = [m for m in lists[0] if m]
    node = scene.node(ranks[0])
    total = sum(len(c) for c in node.numa.values()) if node else tasks
    given = min((n for r in ranks if (n := number(r.env, "SLURM_CPUS_ON_NODE"))), default=total)
    bind = f"--cpu-bind=mask_cpu:{','.join(masks)}"
    own = own_cpus(scene, ranks) or 0
    each = max(total // tasks, own)
    note = f"{each} cores for each task are all the node's: Slurm refuses masks outside the step"
    if own and own < each:
        note = f"each task stays on {own} cores by its mask; -c is raised because {note}"
    if given < total:
        note = f"as a new job: this one has {given} of the node's {total} cores; {note}"
    return paste(step(scene, ranks, "--exclusive", bind, cpus=each), note=note)


def _near_mask(scene: Scene, rank: RankRecord) -> str | None:
    """A hexadecimal CPU mask: this rank's even share of its GPU's domain."""
    device, node = scene.device(rank), scene.node(rank)
    if device is None or device.gpu is None or node is None:
        return None
    domain = sorted(node.numa.get(device.gpu.numa if device.gpu.numa is not None else -1, ()))
    there = [r for r in scene.ranks if r.host == rank.host and _domain(scene, r) == device.gpu.numa]
    there.sort(key=lambda r: r.local_rank or 0)
    share = len(domain) // max(len(there), 1)
    if share == 0:
        return None
    position = [id(r) for r in there].index(id(rank))
    own = own_cpus(scene, [rank]) or share
    cpus = domain[position * share : (position + 1) * share][:own]
    return hex(sum(1 << c for c in cpus))


def _domain(scene: Scene, rank: RankRecord) -> int | None:
    device = scene.device(rank)
    return device.gpu.numa if device and device.gpu else None
