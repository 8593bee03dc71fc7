"""What one node offers a job: free cores, GPUs by socket, CPUs.

Follows Slurm 22.05: _build_sock_gres_by_topo (plugins/select/cons_tres/gres_sched.c), _allocate_sc
(cons_common/cons_common.c), gres_select_filter_remove_unusable
(cons_common/gres_select_filter.c); SelectTypeParameters=CR_Core.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from clusterlab.binding.explain.job_request import JobRequest
from clusterlab.binding.explain.profile import NodeProfile


@dataclass(frozen=True)
class Node:
    """A node of the cluster and what other jobs hold on it."""

    name: str
    index: int
    profile: NodeProfile
    busy_cores: frozenset[int] = frozenset()
    busy_gpus: frozenset[int] = frozenset()


@dataclass(slots=True)
class SocketGpus:
    """Free GPUs by the socket they are near; ``anywhere`` those near every socket or none."""

    by_socket: list[set[int]]
    anywhere: set[int]
    counts: list[int] = field(default_factory=list)
    any_count: int = 0
    total: int = 0
    max_node: int = 0  # 0: no limit

    def __post_init__(self) -> None:
        self.counts = [len(gpus) for gpus in self.by_socket]
        self.any_count = len(self.anywhere)
        self.total = sum(self.counts) + self.any_count


@dataclass(slots=True)
class Offer:
    """What a node offers: CPUs a job may use, the cores they come from, GPUs if any are wanted."""

    node: Node
    cpus: int
    cores: set[int]
    gpus: SocketGpus | None = None
    near_gpus: int = 0
    available_gpus: int = 0
    min_cores: int = 0

    @property
    def resources(self) -> int:
        """CPUs and GPUs together: how nodes are ranked when some must be left out."""
        return self.cpus + self.available_gpus


def cpus_per_core(job: JobRequest, profile: NodeProfile) -> int:
    """CPUs of a core that a job uses (common_cpus_per_core)."""
    limit = profile.threads_per_core
    if job.ntasks_per_core:
        limit = min(limit, job.ntasks_per_core * job.cpus_per_task)
    if job.threads_per_core:
        limit = min(limit, job.threads_per_core)
    return limit


def sockets_wanted(job: JobRequest) -> int | None:
    """Sockets per node that the counts imply; None: no limit (_socks_per_node)."""
    cpus = max(job.min_cpus, job.num_tasks * job.cpus_per_task)
    if cpus // max(job.min_nodes, 1) <= 1:
        return 1
    if job.ntasks_per_socket:
        tasks = job.num_tasks // max(job.min_nodes, 1)
        return (tasks + job.ntasks_per_socket - 1) // job.ntasks_per_socket
    return None


def offer_of(job: JobRequest, node: Node, *, ignore_others: bool) -> Offer | None:
    """What ``node`` offers ``job``; None: it cannot serve it. ``ignore_others``: as if it were idle."""
    profile = node.profile
    busy_cores = frozenset() if ignore_others else node.busy_cores
    cores = set(range(profile.cores)) - busy_cores
    if job.whole_node and busy_cores:
        return None
    gpus, needed = None, set[int]()
    if job.gpus.wanted:
        free = set(range(len(profile.gpus))) - (set() if ignore_others else node.busy_gpus)
        found = _gpus_by_socket(job, profile, free, cores)
        if found is None or (job.gpus.type and job.gpus.type != profile.gpu_type):
            return None
        gpus, needed = found
    cpus = _allocate_cores(job, profile, cores, needed)
    if cpus is None or cpus < _min_cpus_here(job):
        return None
    offer = Offer(node, cpus, cores, gpus)
    if gpus is not None and not _remove_unusable(job, profile, offer, gpus):
        return None
    return offer


def _min_cpus_here(job: JobRequest) -> int:
    tasks = 1
    if job.ntasks_per_node:
        tasks = job.ntasks_per_node
    elif not job.overcommit and job.max_nodes == 1 and job.num_tasks:
        tasks = job.num_tasks
    return tasks * job.cpus_per_task


def _gpus_by_socket(
    job: JobRequest, profile: NodeProfile, free: set[int], cores: set[int]
) -> tuple[SocketGpus, set[int]] | None:
    """The GPUs near each socket, and the sockets a count per node or task needs."""
    sockets = range(profile.sockets)
    by_socket: list[set[int]] = [set() for _ in sockets]
    anywhere: set[int] = set()
    for gpu in free:
        near = profile.sockets_of_gpu(gpu)
        if profile.gpus[gpu].cores is None or len(near) == profile.sockets:
            anywhere.add(gpu)
            continue
        usable = [
            s for s in sorted(near) if not job.enforce_binding or cores & set(profile.cores_of(s))
        ]
        if usable:
            by_socket[usable[0]].add(gpu)
    gpus = SocketGpus(by_socket, anywhere)
    if not gpus.total:
        return None
    if job.gpus.per_socket:
        _limit_per_socket(job, profile, gpus, cores)
    wanted = sockets_wanted(job)
    if job.enforce_binding and job.gpus.per_job and not job.gpus.per_socket:
        _keep_best_sockets(profile, gpus, cores, wanted)
    least = max(job.gpus.per_node, job.gpus.per_task)
    if gpus.total < least:
        return None
    return gpus, _sockets_needed(profile, gpus, cores, least - gpus.any_count)


def _limit_per_socket(
    job: JobRequest, profile: NodeProfile, gpus: SocketGpus, cores: set[int]
) -> None:
    per_socket = job.gpus.per_socket
    for socket in range(profile.sockets):
        count = gpus.counts[socket]
        if count < per_socket:
            gpus.total -= count
            gpus.counts[socket] = 0
            if job.enforce_binding:
                cores -= set(profile.cores_of(socket))
        elif count > per_socket:
            gpus.total -= count - per_socket
            gpus.counts[socket] = per_socket


def _keep_best_sockets(
    profile: NodeProfile, gpus: SocketGpus, cores: set[int], wanted: int | None
) -> None:
    usable = [
        s for s in range(profile.sockets) if gpus.counts[s] and cores & set(profile.cores_of(s))
    ]
    while wanted is not None and len(usable) > wanted:
        worst = min(usable, key=lambda s: gpus.counts[s])
        usable.remove(worst)
        cores -= set(profile.cores_of(worst))
        gpus.total -= gpus.counts[worst]
        gpus.counts[worst] = 0


def _sockets_needed(
    profile: NodeProfile, gpus: SocketGpus, cores: set[int], missing: int
) -> set[int]:
    """Sockets with most GPUs first, until they hold what is missing."""
    usable = [
        s for s in range(profile.sockets) if gpus.counts[s] and cores & set(profile.cores_of(s))
    ]
    needed: set[int] = set()
    while usable and missing > 0:
        best = max(usable, key=lambda s: gpus.counts[s])
        usable.remove(best)
        needed.add(best)
        missing -= gpus.counts[best]
    return needed


def _allocate_cores(
    job: JobRequest, profile: NodeProfile, cores: set[int], needed: set[int]
) -> int | None:
    """CPUs that the job may use here; ``cores`` is cut to those they come from. None: too few."""
    free = [len(cores & set(profile.cores_of(s))) for s in range(profile.sockets)]
    for socket, count in enumerate(free):
        if count < (job.cores_per_socket or 1):
            free[socket] = 0
    usable = sum(count > 0 for count in free)
    threads = cpus_per_core(job, profile)
    if usable < (job.sockets_per_node or 1) or sum(free) * threads < job.pn_min_cpus:
        return None
    tasks = sum(min(c * threads, job.ntasks_per_socket or c * threads) for c in free)
    available = sum(free) * threads
    if any(free[socket] == 0 for socket in needed):
        return None
    if job.ntasks_per_node and not job.whole_node and not job.gpus.cpus_per_gpu:
        tasks = min(tasks, job.ntasks_per_node)
    too_few_tasks = job.ntasks_per_node and tasks < job.ntasks_per_node and not job.overcommit
    if too_few_tasks or available < job.pn_min_cpus or tasks == 0:
        return None
    per_socket = profile.cores_per_socket * threads
    if job.ntasks_per_socket:
        per_socket = job.ntasks_per_socket * max(job.cpus_per_task, 1)
    used: dict[int, int] = {}
    count = 0
    # Cores of needed sockets come first.
    order = sorted(cores, key=lambda core: (profile.socket_of(core) not in needed, core))
    for core in order:
        socket = profile.socket_of(core)
        if free[socket] == 0 or available == 0 or used.get(socket, 0) >= per_socket:
            cores.discard(core)
            continue
        used[socket] = used.get(socket, 0) + threads
        free[socket] -= 1
        step = min(threads, available)
        available -= step
        count += step
    return count


def cpus_per_gpu(job: JobRequest) -> int:
    """CPUs for each GPU, said or following from --ntasks-per-gpu; 0: none said."""
    if job.gpus.cpus_per_gpu:
        return job.gpus.cpus_per_gpu
    return job.gpus.ntasks_per_gpu * job.cpus_per_task


def _remove_unusable(job: JobRequest, profile: NodeProfile, offer: Offer, gpus: SocketGpus) -> bool:
    """Set the node's GPU limit; False: it has too few GPUs or CPUs for them."""
    request = job.gpus
    least = gpus.total if job.whole_node else request.per_node or 1
    least = max(least, request.per_socket * (sockets_wanted(job) or 1))
    if request.per_task:
        least = max(least, request.per_task * job.ntasks_per_node)
    per_gpu = cpus_per_gpu(job)
    if per_gpu:
        limit = offer.cpus // per_gpu
        if limit == 0 or max(request.per_node, request.per_task, request.per_socket) > limit:
            return False
    near = gpus.total
    for socket in range(profile.sockets):
        if offer.cores & set(profile.cores_of(socket)):
            continue
        near -= gpus.counts[socket]
        if job.enforce_binding:
            gpus.total -= gpus.counts[socket]
            gpus.counts[socket] = 0
    if not job.whole_node:
        gpus.max_node = request.per_node or request.per_job
    if per_gpu and not (request.ntasks_per_gpu and job.whole_node):
        limit = len(offer.cores) * profile.threads_per_core // per_gpu
        if limit == 0:
            return False
        gpus.max_node = min(gpus.max_node or limit, limit)
    offer.available_gpus = gpus.total
    offer.near_gpus = min(near, gpus.max_node or near, 0xFF)
    return gpus.total >= least and (gpus.max_node == 0 or gpus.max_node >= least)
