"""The cores and GPUs a step takes of its job on each node.

Follows _step_alloc_lps and _pick_step_cores of Slurm 22.05's src/slurmctld/step_mgr.c and
gres_ctld_step_alloc of src/slurmctld/gres_ctld.c.
"""

from __future__ import annotations

from dataclasses import dataclass

from clusterlab.binding.explain.allocation import Allocation, NodeShare
from clusterlab.binding.explain.gpu_request import GpuRequest
from clusterlab.binding.explain.rejection import BusyError, RejectedError
from clusterlab.binding.explain.step_request import NO_STEP, StepRequest, StepShare

_EVERY = 1 << 30


@dataclass(slots=True)
class Held:
    """What a step holds on one node and gives back when it ends."""

    share: NodeShare
    cpus: int
    cores: frozenset[int]
    gpus: frozenset[int]

    def give_back(self) -> None:
        """Undo."""
        self.share.used_cpus -= self.cpus
        self.share.used_cores -= self.cores
        self.share.used_gpus -= self.gpus


def assign(
    request: StepRequest, allocation: Allocation, shares: list[StepShare], *, copy_all: bool
) -> list[Held]:
    """Give each share of a step its cores and GPUs. Raises BusyError, RejectedError; then nothing is held.

    ``copy_all``: the step asks for as many CPUs as the job has and gets its cores unseen.
    """
    held: list[Held] = []
    total_gpus = 0
    single_node = len(allocation.shares) == 1
    try:
        for position, part in enumerate(shares):
            here = Held(part.share, 0, frozenset(), frozenset())
            held.append(here)
            cpus = part.share.cpus if request.whole else len(part.tasks) * request.cpus_per_task
            if not request.overlap:
                here.cpus = cpus
                part.share.used_cpus += cpus
            # Slurm compares core maps of one node with those of the whole job: only in jobs of one
            # node does it find GPUs near the step's free cores.
            near = part.share.cores - part.share.used_cores if single_node else frozenset()
            gpus = _Gpus(request, part, total_gpus, len(shares) - position, near)
            part.gpus = gpus.take()
            total_gpus += len(part.gpus)
            if not request.overlap:
                here.gpus = part.gpus
                part.share.used_gpus |= part.gpus
            if copy_all:
                part.cores = part.share.cores
            else:
                part.cores, here.cores = _pick_cores(request, allocation, part)
    except (BusyError, RejectedError):
        for each in held:
            each.give_back()
        raise
    return held


class _Gpus:
    """gres_ctld_step_alloc: first GPUs near free cores, then any."""

    def __init__(
        self,
        request: StepRequest,
        part: StepShare,
        total: int,
        nodes_left: int,
        near: frozenset[int],
    ) -> None:
        self.request, self.part, self.near = request, part, near
        self.limit = 0
        self.needed = self._needed(request.gpus, total, nodes_left)

    def _needed(self, gpus: GpuRequest, total: int, nodes_left: int) -> int:
        tasks = len(self.part.tasks)
        if gpus.per_node:
            return gpus.per_node
        if gpus.per_task:
            return gpus.per_task * tasks
        if gpus.ntasks_per_gpu:
            return tasks // gpus.ntasks_per_gpu
        if gpus.per_job and nodes_left == 1:
            return gpus.per_job - total
        if gpus.per_job:
            self.limit = gpus.per_job - total - (nodes_left - 1)
            return 1
        return _EVERY

    def take(self) -> frozenset[int]:
        if not self.request.gpus.wanted:
            return frozenset()
        taken: set[int] = set()
        for near in (self.near, None):
            if self.needed or self.limit > 0:
                taken |= self._pass(taken, near)
        if 0 < self.needed < _EVERY:
            raise RejectedError(f"{NO_STEP}Insufficient GRES available in allocation")
        return frozenset(taken)

    def _pass(self, taken: set[int], near: frozenset[int] | None) -> set[int]:
        share = self.part.share
        profile = share.node.profile
        free = share.gpus if self.request.overlap else share.free_gpus - taken
        count = len(free)
        if self.needed < _EVERY:
            capped = self.limit > 0 and not self.request.overlap
            count = min(count, self.limit if capped else self.needed)
        fitting = (gpu for gpu in sorted(free) if near is None or profile.reachable(gpu, near))
        found = list(fitting)[:count]
        if self.needed < _EVERY:
            self.limit = max(self.limit - len(found), 0)
            self.needed = max(self.needed - len(found), 0)
        return set(found)


def _pick_cores(
    request: StepRequest, allocation: Allocation, part: StepShare
) -> tuple[frozenset[int], frozenset[int]]:
    """(the step's cores, those it keeps other steps from)."""
    share, profile, tasks = part.share, part.share.node.profile, len(part.tasks)
    every = request.whole or tasks == profile.cores
    count = share.cpus if every else _cores_for(request, allocation, share, tasks)
    if not every and count > share.cpus:
        raise RejectedError(f"{NO_STEP}More processors requested than permitted")
    per_task = max(count // tasks, 1) if tasks else 1
    picker = _CorePicker(request, share, every=every, count=count, per_task=per_task)
    both, either = _cores_near_gpus(part)
    sets = [both]
    if either != both:
        sets.append(either)
    if not allocation.request.enforce_binding and either != share.cores:
        sets.append(share.cores)
    done = any(picker.run(cores) for cores in sets)
    if not done and not every:
        if not request.overcommit:
            picker.undo()
            raise BusyError("Requested nodes are busy")
        picker.sharing = True
        any(picker.run(cores) for cores in sets)
    return frozenset(picker.cores), frozenset(picker.blocked)


def _cores_for(request: StepRequest, allocation: Allocation, share: NodeShare, tasks: int) -> int:
    threads = share.node.profile.threads_per_core
    asked = request.threads_per_core or allocation.request.threads_per_core
    per_core = asked or threads
    per_task = request.cpus_per_task
    if per_task > per_core:
        return tasks * -(-per_task // per_core)
    return -(-tasks * per_task // per_core) if per_task else tasks


def _cores_near_gpus(part: StepShare) -> tuple[frozenset[int], frozenset[int]]:
    """The job's cores near every GPU of the step here, and near any of them."""
    share = part.share
    if not part.gpus:
        return share.cores, share.cores
    near = [share.node.profile.gpus[gpu].cores for gpu in part.gpus]
    both = share.cores.intersection(*(cores for cores in near if cores is not None))
    if any(cores is None for cores in near):
        return both, share.cores
    either = frozenset().union(*(cores for cores in near if cores is not None))
    return both, either & share.cores


class _CorePicker:
    """_handle_core_select and _pick_step_core: cores in the order of the distribution."""

    def __init__(
        self, request: StepRequest, share: NodeShare, *, every: bool, count: int, per_task: int
    ) -> None:
        self.share, self.every, self.left, self.per_task = share, every, count, per_task
        self.overlap, self.distribution = request.overlap, request.distribution
        self.cores: set[int] = set()
        self.blocked: set[int] = set()
        self.sharing = False

    def run(self, allowed: frozenset[int]) -> bool:
        """Pick of ``allowed``; True: all that are wanted are found.

        A core found a second time counts again where other steps are of no concern, as in Slurm: a
        step without --exact may so get fewer cores than its job has.
        """
        profile = self.share.node.profile
        by_socket = [
            [core for core in profile.cores_of(s) if core in allowed]
            for s in range(profile.sockets)
        ]
        if self.distribution.sockets == "block":
            return self._in_order([core for cores in by_socket for core in cores])
        if self.distribution.sockets == "fcyclic":
            size = profile.cores_per_socket
            return self._in_order(sorted(allowed, key=lambda core: (core % size, core)))
        return self._in_turn(by_socket)

    def _pick(self, core: int) -> bool:
        if self.sharing:
            if core in self.cores:
                return False
        elif not self.overlap:
            if core in self.share.used_cores:
                if not self.every:
                    return False
            else:
                self.blocked.add(core)
                self.share.used_cores.add(core)
        self.cores.add(core)
        self.left -= 1
        return True

    def undo(self) -> None:
        """Free what was marked as used."""
        self.share.used_cores -= self.blocked

    def _in_order(self, cores: list[int]) -> bool:
        return any(self._pick(core) and self.left == 0 for core in cores)

    def _in_turn(self, by_socket: list[list[int]]) -> bool:
        """From socket to socket, the cores of a task together; a core in use costs no turn."""
        of_task, progress = 0, True
        while progress:
            progress = False
            for queue in by_socket:
                while queue:
                    if not self._pick(queue.pop(0)):
                        continue
                    progress = True
                    if self.left == 0:
                        return True
                    of_task += 1
                    if of_task == self.per_task:
                        of_task = 0
                        break
        return False
