"""The CPUs of each task on a node: task/affinity's part.

Follows src/plugins/task/affinity/dist_tasks.c (lllp_distribution and its two layouts) and affinity.c of
Slurm 22.05. Positions count CPUs core by core and thread by thread; results are kernel CPU numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from clusterlab.binding.explain.cpu_bind_option import CpuBind, Unit
from clusterlab.binding.explain.distribution import Distribution
from clusterlab.binding.explain.profile import NodeProfile
from clusterlab.binding.explain.rejection import RejectedError
from clusterlab.core.digits import saturated


@dataclass(frozen=True)
class CpuStep:
    """What task/affinity is told of a step on one node. ``cores``: those of the step here."""

    profile: NodeProfile
    cores: frozenset[int]
    tasks: int
    bind: CpuBind
    distribution: Distribution
    cpus_per_task: int = 1
    threads_per_core: int | None = None
    ntasks_per_core: int | None = None
    ntasks_per_socket: int | None = None
    overcommit: bool = False

    @property
    def allocated(self) -> frozenset[int]:
        """The step's CPUs here."""
        return self.profile.cpus_of_cores(self.cores)

    @property
    def one_thread(self) -> bool:
        """Whether tasks use one thread of a core."""
        return self.bind.one_thread or self.profile.threads_per_core == 1


def bind_tasks(step: CpuStep) -> list[frozenset[int]]:
    """The CPUs of each local task. Raises RejectedError where slurmd refuses the binding."""
    if step.bind.mode is not None:
        return _explicit(step)
    unit = step.bind.unit or _unit_that_fits(step)
    if unit is None:
        return [step.allocated] * step.tasks
    layout = _block_layout if step.distribution.fills_sockets else _cyclic_layout
    positions = layout(step, unit)
    if positions is None:
        if step.overcommit:
            return [_allocated_or_domains(step)] * step.tasks
        raise RejectedError(
            "srun: error: failed to distribute tasks (bind_type:"
            f"{_bind_type(step)}) - this should never happen"
        )
    found = [
        frozenset(step.profile.cpu_number(p) for p in _widen(step, unit, m)) for m in positions
    ]
    return [_domains(step, cpus) for cpus in found] if unit == "ldoms" else found


def _domains(step: CpuStep, cpus: Iterable[int]) -> frozenset[int]:
    """Every CPU of the NUMA domains that ``cpus`` are in, allocated or not."""
    found = [step.profile.domain_of_cpu.get(cpu, frozenset([cpu])) for cpu in cpus]
    return frozenset().union(*found)


def _unit_that_fits(step: CpuStep) -> Unit | None:
    """Bind by itself only where the tasks' CPUs are exactly the step's sockets, cores or threads."""
    profile = step.profile
    wanted = step.tasks * step.cpus_per_task
    whole = [s for s in range(profile.sockets) if set(profile.cores_of(s)) <= step.cores]
    used = {profile.socket_of(core) for core in step.cores}
    if wanted == len(whole) and len(used) == len(whole):
        return "sockets"
    if wanted == len(step.cores):
        return "cores"
    if wanted == len(step.cores) * profile.threads_per_core:
        return "threads"
    return None


def _bind_type(step: CpuStep) -> str:
    words = [step.bind.unit, step.bind.mode, "one_thread" if step.one_thread else None]
    return ",".join(word for word in words if word)


def _explicit(step: CpuStep) -> list[frozenset[int]]:
    bind, profile = step.bind, step.profile
    if bind.mode in ("map_cpu", "mask_cpu"):
        return _explicit_cpus(step)
    whole_node = len(step.cores) == profile.cores
    if bind.mode == "none":
        every = frozenset(range(profile.cpus))
        return [every if whole_node else _allocated_or_domains(step)] * step.tasks
    if not whole_node:
        raise RejectedError(f"srun: error: Entire node must be allocated for {_bind_type(step)}")
    if bind.mode == "rank":
        return [frozenset([task % profile.cpus]) for task in range(step.tasks)]
    return _explicit_domains(step)


def _explicit_domains(step: CpuStep) -> list[frozenset[int]]:
    bind, profile = step.bind, step.profile
    domains = profile.domains or (frozenset(range(profile.cpus)),)
    if bind.mode == "rank_ldom":
        return [domains[task % len(domains)] for task in range(step.tasks)]
    picked = [bind.items[task % len(bind.items)] for task in range(step.tasks)]
    if bind.mode == "map_ldom":
        return [domains[saturated(item) % len(domains)] for item in picked]
    numbers = [_bits(int(item or "0", 16)) for item in picked]
    return [frozenset().union(*(domains[i % len(domains)] for i in n)) for n in numbers]


def _allocated_or_domains(step: CpuStep) -> frozenset[int]:
    return _domains(step, step.allocated) if step.bind.unit == "ldoms" else step.allocated


def _explicit_cpus(step: CpuStep) -> list[frozenset[int]]:
    allowed = _allocated_or_domains(step)
    if step.bind.mode == "map_cpu":
        sets = [frozenset([saturated(item)]) for item in step.bind.items]
    else:
        sets = [_bits(int(item, 16)) for item in step.bind.items if item]
    if not sets or any(cpus - allowed for cpus in sets):
        digits = -(-step.profile.cpus // 4)
        mask = sum(1 << cpu for cpu in allowed)
        raise RejectedError(
            "srun: error: CPU binding outside of job step allocation, allocated CPUs are: "
            f"0x{mask:0{digits}X}."
        )
    return [sets[task % len(sets)] for task in range(step.tasks)]


def _bits(mask: int) -> frozenset[int]:
    return frozenset(i for i in range(mask.bit_length()) if mask >> i & 1)


_Layout = Callable[[CpuStep, Unit], "list[set[int]] | None"]


@dataclass(slots=True)
class _Room:
    """CPU positions of the step and how many of each task they are to give."""

    available: frozenset[int]
    per_task: int
    threads: int | None


def _room(step: CpuStep) -> _Room | None:
    """None: fewer CPUs than tasks, or than one task wants with so few threads of each core."""
    profile = step.profile
    threads_here = profile.threads_per_core
    available = frozenset(
        core * threads_here + thread for core in step.cores for thread in range(threads_here)
    )
    threads = step.threads_per_core or (1 if step.one_thread else None)
    size, per_task = len(available), step.cpus_per_task
    if threads and size < per_task * (threads_here // threads):
        return None
    if size < step.tasks:
        return None
    if size < step.tasks * per_task:
        per_task = size // step.tasks
    return _Room(available, per_task, threads)


def _threads_skipped(step: CpuStep, unit: Unit, per_task: int) -> int:
    """Threads of a task's last core that stay empty where tasks are bound to cores."""
    threads = step.profile.threads_per_core
    if unit != "cores" and step.ntasks_per_core != 1:
        return 0
    return threads - per_task if per_task < threads else per_task % threads


def _cyclic_layout(step: CpuStep, unit: Unit) -> list[set[int]] | None:
    """Tasks go round the sockets; a task's CPUs lie together, or, with fcyclic, go round as well."""
    room = _room(step)
    if room is None:
        return None
    profile = step.profile
    per_socket = profile.cores_per_socket * profile.threads_per_core
    next_cpu = [0] * profile.sockets
    masks: list[set[int]] = [set() for _ in range(step.tasks)]
    core_tasks, core_threads = [0] * profile.cores, [0] * profile.cores
    socket = task = filled = 0
    before = -1
    while task < step.tasks:
        if task == before:
            return None
        before = task
        for _ in range(profile.cpus):
            started_at = socket
            while next_cpu[socket] >= per_socket:
                socket = (socket + 1) % profile.sockets
                if socket == started_at:  # all are full: begin again, CPUs are shared
                    core_tasks = [0] * profile.cores
                    core_threads = [0] * profile.cores
                    next_cpu = [0] * profile.sockets
            position = next_cpu[socket] + socket * per_socket
            next_cpu[socket] += 1
            core = position // profile.threads_per_core
            if position not in room.available or (
                step.ntasks_per_core and core_tasks[core] >= step.ntasks_per_core
            ):
                continue
            if room.threads and core_threads[core] >= room.threads:
                continue
            masks[task].add(position)
            switched = step.distribution.sockets == "fcyclic"
            if switched:
                socket = (socket + 1) % profile.sockets
            core_threads[core] += 1
            filled += 1
            if filled < room.per_task:
                continue
            core_tasks[core] += 1
            next_cpu[socket] += _threads_skipped(step, unit, room.per_task)
            filled = 0
            if not switched:
                socket = (socket + 1) % profile.sockets
            task += 1
            if task >= step.tasks:
                break
    return masks


def _block_layout(step: CpuStep, unit: Unit) -> list[set[int]] | None:
    """Tasks take CPUs in order."""
    room = _room(step)
    if room is None:
        return None
    profile = step.profile
    per_socket = profile.cores_per_socket * profile.threads_per_core
    masks: list[set[int]] = [set() for _ in range(step.tasks)]
    task = filled = 0
    before = -1
    while task < step.tasks:
        if task == before:
            return None
        before = task
        core_tasks, core_threads = [0] * profile.cores, [0] * profile.cores
        socket_tasks = [0] * profile.sockets
        position = -1
        while position + 1 < profile.cpus and task < step.tasks:
            position += 1
            core, socket = position // profile.threads_per_core, position // per_socket
            full = (
                position not in room.available
                or (step.ntasks_per_core and core_tasks[core] >= step.ntasks_per_core)
                or (step.ntasks_per_socket and socket_tasks[socket] >= step.ntasks_per_socket)
                or (room.threads and core_threads[core] >= room.threads)
            )
            if full:
                continue
            masks[task].add(position)
            core_threads[core] += 1
            filled += 1
            if filled < room.per_task:
                continue
            core_tasks[core] += 1
            socket_tasks[socket] += 1
            position += _threads_skipped(step, unit, room.per_task)
            filled = 0
            task += 1
    return masks


def _widen(step: CpuStep, unit: Unit, mask: set[int]) -> set[int]:
    """To all the step's CPUs of the cores or sockets touched."""
    threads = step.profile.threads_per_core
    size = {"cores": threads, "sockets": step.profile.cores_per_socket * threads}.get(unit, 1)
    blocks = {position // size for position in mask}
    every = (core * threads + thread for core in step.cores for thread in range(threads))
    return mask | {position for position in every if position // size in blocks}


def cpu_list(cpus: Sequence[int] | frozenset[int]) -> str:
    """``0,1,8``: CPUs in order, as the kernel's affinity lists them."""
    return ",".join(map(str, sorted(cpus)))
