"""Fix lines that can be pasted: options right for this Slurm version and launcher, or the code change.

Versions (Slurm's NEWS and git): --gpu-bind=none keeps the mask since 23.11.0 (657efad356);
--gres-flags=allow-task-sharing since 23.11.3 (79780501e1); srun reads SLURM_CPUS_PER_TASK up to 21.08
and again from 23.11 on, in between only SRUN_CPUS_PER_TASK.
"""

from __future__ import annotations

from collections.abc import Sequence

from clusterlab.binding.diagnose.scene import Scene, by_host, uses_elastic
from clusterlab.binding.records import RankRecord, cpu_list

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


def set_device(ranks: Sequence[RankRecord]) -> str:
    """The line that selects a rank's device by the local rank its launcher sets."""
    name = local_variable(ranks)
    return f'torch.cuda.set_device(int(os.environ["{name}"]) % torch.cuda.device_count())'


def tasks_per_node(ranks: Sequence[RankRecord]) -> int:
    """The most ranks on one host."""
    return max((len(there) for there in by_host(ranks).values()), default=1)


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


def show_all_gpus(scene: Scene, ranks: Sequence[RankRecord]) -> str:
    """How every rank of a node sees all of the job's GPUs there, so that LOCAL_RANK is an ordinal."""
    kind = launcher_of(scene, ranks)
    tasks = tasks_per_node(ranks)
    if kind == "srun":
        ask = f"srun --ntasks-per-node={tasks} --gpus-per-node={tasks}"
        if at_least(scene, 23, 11):
            return f"{ask} --gpu-bind=none …  (drop --gpus-per-task and other --gpu-bind)"
        return (
            f"{ask} …  (no --gpus-per-task, no --gpu-bind, no --accel-bind: nothing is bound then)"
        )
    if kind == "flux":
        return f"flux submit -N1 -n{tasks} -o gpu-affinity=off …"
    if kind == "torchrun":
        return f"CUDA_VISIBLE_DEVICES={comma(range(tasks))} torchrun --nproc_per_node={tasks} …"
    return f"export CUDA_VISIBLE_DEVICES={comma(range(tasks))}  # the same for all ranks of a node"


def keep_ipc(scene: Scene, ranks: Sequence[RankRecord]) -> str:
    """How ranks keep one GPU each and can still open each other's memory."""
    tasks = tasks_per_node(ranks)
    if any("ZE_AFFINITY_MASK" in r.env for r in ranks):
        return (
            "unset ZE_AFFINITY_MASK (all ranks see all GPUs, each selects its own by ordinal); in a"
            " container add --cap-add=SYS_PTRACE --security-opt seccomp=unconfined"
        )
    if launcher_of(scene, ranks) != "srun":
        return f"{show_all_gpus(scene, ranks)}; select the device by local rank"
    soft = (
        f"srun --ntasks-per-node={tasks} --gpus-per-node={tasks} bash -c"
        " 'export CUDA_VISIBLE_DEVICES=$SLURM_LOCALID; exec COMMAND'  # a mask, but no device cgroup"
    )
    sharing = (
        "srun --gres-flags=allow-task-sharing … (tasks keep their masks, the cgroup is shared)"
    )
    newer = at_least(scene, 23, 11, 3)
    if newer:
        return sharing
    return soft if newer is False else f"Slurm 23.11.3 or later: {sharing}; before: {soft}"


def one_gpu_each(scene: Scene, ranks: Sequence[RankRecord]) -> str:
    """How every rank gets a GPU of its own."""
    kind = launcher_of(scene, ranks)
    tasks = min(tasks_per_node(ranks), gpus_per_node(scene, ranks))
    if kind == "torchrun":
        return f"torchrun --nproc_per_node={tasks} …, and in the program {set_device(ranks)}"
    if kind == "mpirun":
        return f"mpirun -N {tasks} … with {set_device(ranks)} before any other CUDA call"
    if kind == "flux":
        return f"flux submit -N1 -n{tasks} -g1 -o gpu-affinity=per-task …"
    if kind == "srun":
        ids = comma(range(tasks))
        return (
            f"srun --ntasks-per-node={tasks} --gpus-per-node={tasks} --gpu-bind=map_gpu:{ids} …"
            " and ordinal 0; or no --gpu-bind and set_device(SLURM_LOCALID)"
        )
    return f"select the device by local rank: {set_device(ranks)}"


def more_cores(scene: Scene, ranks: Sequence[RankRecord], cores: int) -> str:
    """How each rank gets ``cores`` cores."""
    kind = launcher_of(scene, ranks)
    cores = max(cores, 2)
    if kind == "mpirun":
        return f"mpirun --map-by slot:PE={cores} --bind-to core …  (or --bind-to none)"
    if kind == "srun":
        inherits = at_least(scene, 23, 11)
        if inherits is False and (at_least(scene, 22, 5) is not False):
            return (
                f"export SRUN_CPUS_PER_TASK={cores}; srun --cpus-per-task={cores} …"
                "  (srun of 22.05 to 23.02 does not take sbatch's -c)"
            )
        return f"srun --cpus-per-task={cores} --cpu-bind=cores …"
    if kind == "torchrun":
        return (
            "start torchrun from a shell with all cores (taskset -cp $$), with --numa-binding=node"
        )
    return f"taskset -c FIRST-LAST COMMAND with {cores} cores per rank"


def near_cores(scene: Scene, ranks: Sequence[RankRecord]) -> str:
    """Cores next to each rank's GPU, as a line made from the node in the record."""
    kind = launcher_of(scene, ranks)
    if kind == "torchrun":
        return "torchrun --numa-binding=node …; under srun give the task all cores: srun --cpu-bind=none"
    masks = [_near_mask(scene, r) for r in sorted(ranks, key=lambda r: r.local_rank or 0)]
    host = ranks[0].host
    if kind == "srun" and all(masks) and len(by_host(ranks)) == 1:
        return f"srun --cpu-bind=mask_cpu:{','.join(m or '' for m in masks)} …  (order: local rank)"
    if kind == "srun":
        return (
            'srun --cpu-bind=none … "$(clusterlab path slurm)/launch.sh" COMMAND takes the cores next'
            " to each rank's GPU"
        )
    domains = {
        r.local_rank: d for r in ranks if r.host == host and (d := _domain(scene, r)) is not None
    }
    if len(set(domains.values())) == 1:
        domain = next(iter(domains.values()))
        return f"numactl --cpunodebind={domain} --membind={domain} COMMAND"
    listed = ", ".join(
        f"local rank {local}: {domain}" for local, domain in list(domains.items())[:8]
    )
    return f"numactl --cpunodebind=D --membind=D COMMAND in a wrapper, D by {listed}"


def _near_mask(scene: Scene, rank: RankRecord) -> str | None:
    """A hexadecimal CPU mask: this rank's even share of its GPU's domain."""
    device, node = scene.device(rank), scene.node(rank)
    if device is None or device.gpu is None or node is None:
        return None
    domain = sorted(node.numa.get(device.gpu.numa if device.gpu.numa is not None else -1, ()))
    there = [r for r in scene.ranks if r.host == rank.host and _domain(scene, r) == device.gpu.numa]
    share = len(domain) // max(len(there), 1)
    if share == 0:
        return None
    position = [id(r) for r in there].index(id(rank))
    cpus = domain[position * share : (position + 1) * share]
    return hex(sum(1 << c for c in cpus))


def _domain(scene: Scene, rank: RankRecord) -> int | None:
    device = scene.device(rank)
    return device.gpu.numa if device and device.gpu else None


def comma(numbers: Sequence[int] | range) -> str:
    """``0,1,2``."""
    return ",".join(str(n) for n in numbers)


def cores_of(ranks: Sequence[RankRecord]) -> str:
    """All cores of ``ranks``, as a list."""
    cores = [r.cpus for r in ranks if r.cpus]
    return cpu_list(frozenset[int]().union(*cores))
