"""How many tasks each node of a job is meant for, and which cores it therefore gets.

Follows dist_tasks_compute_c_b (Slurm 22.05, cons_tres/dist_tasks.c), _compute_plane_dist,
_cyclic_sync_core_bitmap and _block_sync_core_bitmap (cons_common/dist_tasks.c), allocation by core.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from clusterlab.binding.explain.available import Offer, cpus_per_core
from clusterlab.binding.explain.choose import gpu_cpus_of_job
from clusterlab.binding.explain.job_request import JobRequest


@dataclass(slots=True)
class Share:
    """A node's part: ``tasks`` it is meant for, ``cpus`` for them, the ``cores`` these come from."""

    offer: Offer
    tasks: int = 0
    cpus: int = 0
    cores: frozenset[int] = frozenset()


def distribute(job: JobRequest, offers: list[Offer]) -> list[Share] | None:
    """The share of each node; None: the cores do not suffice (Slurm then holds the job)."""
    shares = [Share(offer) for offer in offers]
    if job.whole_node:
        for share in shares:
            profile = share.offer.node.profile
            share.cores = frozenset(range(profile.cores)) - share.offer.node.busy_cores
            share.cpus = len(share.cores) * min(
                profile.threads_per_core, job.threads_per_core or profile.threads_per_core
            )
        _spread_whole(job, shares)
        return shares
    limits = [_gpu_task_limit(job, share.offer) for share in shares]
    if job.distribution.nodes == "plane" and not (job.overcommit and not job.gpus.per_task):
        _count_planes(job, shares, limits)
    else:
        _count_tasks(job, shares, limits)
    for share in shares:
        needed = share.offer.min_cores * cpus_per_core(job, share.offer.node.profile)
        if share.cpus < needed:
            share.cpus = min(needed, share.offer.cpus)
    pick = _block_cores if job.distribution.fills_sockets else _cyclic_cores
    for share in shares:
        cores = pick(job, share)
        if cores is None:
            return None
        share.cores = cores
        share.cpus = len(cores) * share.offer.node.profile.threads_per_core
    return shares


def _wanted_cpus(job: JobRequest, shares: list[Share]) -> int:
    """job_res->ncpus: what the job asks for on this many nodes."""
    nodes = len(shares)
    gpus = job.gpus
    total = gpus.per_job or gpus.per_node * nodes
    total = total or gpus.per_socket * nodes * (job.sockets_per_node or 1)
    wanted = max(
        nodes * (job.ntasks_per_node or 1),
        gpus.ntasks_per_gpu * total,
        job.min_cpus,
        nodes * job.pn_min_cpus,
        gpu_cpus_of_job(job, nodes, job.num_tasks),
    )
    if job.overcommit and job.num_tasks:
        wanted = min(sum(share.offer.cpus for share in shares), job.num_tasks)
    return wanted


def _most_tasks(job: JobRequest, shares: list[Share]) -> int:
    most = _wanted_cpus(job, shares)
    if not job.overcommit and job.cpus_per_task > 1:
        if job.ntasks_per_node:
            most = job.ntasks_per_node * len(shares)
        else:
            most //= job.cpus_per_task
    return max(most, 1)


def _gpu_task_limit(job: JobRequest, offer: Offer) -> int | None:
    """Tasks a node has GPUs for; None: GPUs set no limit."""
    if not job.gpus.per_task or offer.gpus is None:
        return None
    return offer.gpus.total // job.gpus.per_task


def _add_task(job: JobRequest, share: Share) -> None:
    share.tasks += 1
    share.cpus = min(share.cpus + job.cpus_per_task, max(share.offer.cpus, share.cpus))


def _spread_whole(job: JobRequest, shares: list[Share]) -> None:
    """Whole nodes: tasks only matter for GPUs per task (_set_task_dist_internal)."""
    left = _most_tasks(job, shares) - len(shares)
    free = []
    for share in shares:
        share.tasks = 1
        free.append(max(share.cpus - job.cpus_per_task, 0))
    plane = job.distribution.plane_size or 1
    while left > 0:
        before = left
        for i, share in enumerate(shares):
            if job.cpus_per_task > free[i]:
                continue
            more = max(share.tasks % plane, 1)
            more = min(more, free[i] // job.cpus_per_task, left)
            share.tasks += more
            left -= more
            free[i] -= more * job.cpus_per_task
        if left == before:
            break
    while left > 0:
        for share in shares:
            more = min(plane, left)
            share.tasks += more
            left -= more


def _count_tasks(job: JobRequest, shares: list[Share], limits: list[int | None]) -> None:
    most, count = _most_tasks(job, shares), 0
    per_task = job.cpus_per_task
    for share in shares:
        if share.offer.cpus and count < most:
            count += 1
            _add_task(job, share)
    over = all(share.cpus >= share.offer.cpus for share in shares)

    def fits(share: Share, limit: int | None) -> bool:
        if share.offer.cpus - share.cpus < per_task:
            return False
        if limit is not None and share.tasks >= limit:
            return False
        return not job.ntasks_per_node or share.tasks < job.ntasks_per_node

    for share, limit in zip(shares, limits, strict=True):
        started = (share.cpus % share.offer.node.profile.threads_per_core) // per_task
        for _ in range(started):
            if count >= most or not fits(share, limit):
                break
            count += 1
            _add_task(job, share)
    if job.overcommit and not job.gpus.per_task:
        return
    while count < most:
        room = False
        for share, limit in zip(shares, limits, strict=True):
            for _ in range(max(share.offer.node.profile.threads_per_core // per_task, 1)):
                if count >= most or (not over and not fits(share, limit)):
                    break
                count += 1
                _add_task(job, share)
                room = room or share.offer.cpus - share.cpus >= per_task
        over = over or not room


def _count_planes(job: JobRequest, shares: list[Share], limits: list[int | None]) -> None:
    most, count = _wanted_cpus(job, shares), 0
    if job.cpus_per_task > 1:
        most //= job.cpus_per_task
    plane = job.distribution.plane_size or 1
    over, test_gpus = False, True
    while count < most:
        room = False
        for share, limit in zip(shares, limits, strict=True):
            more_gpus = False
            for _ in range(plane):
                if count >= most:
                    break
                if test_gpus and limit is not None and share.tasks >= limit:
                    continue
                more_gpus = True
                if share.cpus < share.offer.cpus or over:
                    count += 1
                    _add_task(job, share)
            test_gpus = test_gpus and more_gpus
            room = room or share.cpus < share.offer.cpus
        over = over or not room


_Pick = Callable[[JobRequest, Share], frozenset[int] | None]


def _cyclic_cores(job: JobRequest, share: Share) -> frozenset[int] | None:
    """One core of each socket in turn, the CPUs of a task on one socket where it can be."""
    profile = share.offer.node.profile
    threads = cpus_per_core(job, profile)
    left = [
        [core for core in profile.cores_of(s) if core in share.offer.cores]
        for s in range(profile.sockets)
    ]
    cpus, taken = share.cpus, list[int]()
    avoid: set[int] = set()
    if job.ntasks_per_socket:
        avoid = _sockets_to_avoid(job, [len(cores) * threads for cores in left], cpus)
    elif job.cpus_per_task > 1:
        cpus = _pack_tasks(job, left, cpus, threads, taken)
    while cpus > 0:
        before = cpus
        for socket, cores in enumerate(left):
            if socket in avoid or not cores or cpus <= 0:
                continue
            taken.append(cores.pop(0))
            cpus -= threads
        if cpus == before:
            if job.overcommit:
                break
            return None
    return frozenset(taken)


def _pack_tasks(
    job: JobRequest, left: list[list[int]], cpus: int, threads: int, taken: list[int]
) -> int:
    """Whole tasks, socket after socket; the CPUs still wanted."""
    per_task, of_task = job.cpus_per_task, job.cpus_per_task
    for cores in left:
        room = len(cores) * threads
        room -= room % per_task
        while cores and room > 0 and cpus > 0:
            taken.append(cores.pop(0))
            used = threads
            if job.ntasks_per_core == 1 and per_task > threads:
                used = min(of_task, threads)
                of_task = per_task if of_task <= used else of_task - used
            room = 0 if room < threads else room - used
            cpus = 0 if cpus < threads else cpus - used
    return cpus


def _sockets_to_avoid(job: JobRequest, counts: list[int], cpus: int) -> set[int]:
    per_socket = (job.ntasks_per_socket or 0) * job.cpus_per_task
    total, avoid = sum(counts), set[int]()
    for socket, count in enumerate(counts):
        if total > cpus and count > per_socket:
            total -= count - per_socket
            counts[socket] = per_socket
    for socket, count in enumerate(counts):
        if total > cpus and count <= per_socket and total - count >= cpus:
            avoid.add(socket)
            total -= count
    return avoid


def _block_cores(job: JobRequest, share: Share) -> frozenset[int] | None:
    """The socket that fits best, then the next: sockets are filled."""
    profile = share.offer.node.profile
    threads = cpus_per_core(job, profile)
    needed = -(-share.cpus // threads)
    left = [
        [core for core in profile.cores_of(s) if core in share.offer.cores]
        for s in range(profile.sockets)
    ]
    cpus, taken = share.cpus, list[int]()
    while cpus > 0:
        best, best_count, best_enough = 0, 0, False
        for socket, cores in enumerate(left):
            count = len(cores)
            enough = count >= needed
            if (
                best_count == 0
                or (enough and not best_enough)
                or (enough and count < best_count)
                or (not enough and count > best_count)
            ):
                best, best_count, best_enough = socket, count, enough
        if best_count == 0:
            return None
        while left[best] and cpus > 0:
            taken.append(left[best].pop(0))
            cpus = 0 if cpus < threads else cpus - threads
    return frozenset(taken)
