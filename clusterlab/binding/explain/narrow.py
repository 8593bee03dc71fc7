"""How much of a node's offer a job would use: which cores, and how many CPUs.

Follows _select_cores (cons_tres/job_test.c) and gres_select_filter_sock_core
(cons_common/gres_select_filter.c) of Slurm 22.05.
"""

from __future__ import annotations

from dataclasses import dataclass

from clusterlab.binding.explain.available import Offer, cpus_per_gpu
from clusterlab.binding.explain.job_request import JobRequest
from clusterlab.binding.explain.profile import NodeProfile

_NO_LIMIT = 1 << 30


@dataclass(slots=True)
class _Tasks:
    least: int
    most: int


def _task_range(job: JobRequest, profile: NodeProfile) -> _Tasks:
    """How many tasks a node must and may take (the first half of _select_cores)."""
    for per_unit, units in (
        (job.ntasks_per_node, 1),
        (job.ntasks_per_socket, profile.sockets),
        (job.ntasks_per_core, profile.cores),
    ):
        if per_unit:
            return _Tasks(per_unit, per_unit * units)
    if job.gpus.ntasks_per_gpu:
        tasks = job.num_tasks // job.min_nodes
        return _Tasks(tasks, tasks)
    if job.max_nodes == 1:
        tasks = job.num_tasks
        return _Tasks(tasks, tasks) if tasks else _Tasks(1, _NO_LIMIT)
    one_each = job.num_tasks == job.min_nodes == job.max_nodes
    return _Tasks(1, 1) if job.num_tasks == 1 or one_each else _Tasks(1, _NO_LIMIT)


def narrow(job: JobRequest, offer: Offer, *, first_pass: bool, gpus_so_far: int) -> int:
    """Cut the offer's cores to those the job would use beside its GPUs; the CPUs it may take, or 0."""
    profile = offer.node.profile
    tasks = _task_range(job, profile)
    if not job.overcommit:
        fitting = offer.cpus // job.cpus_per_task
        tasks.most = 0 if fitting < tasks.least else min(tasks.most, fitting)
    cpus = offer.cpus
    if job.gpus.wanted:
        filtered = _Narrowing(job, offer, tasks, first_pass, gpus_so_far)
        cpus = filtered.run()
    return cpus if tasks.most else 0


class _Narrowing:
    """gres_select_filter_sock_core: a state that many small steps change in place."""

    def __init__(
        self, job: JobRequest, offer: Offer, tasks: _Tasks, first_pass: bool, gpus_so_far: int
    ) -> None:
        assert offer.gpus is not None
        self.job, self.offer, self.tasks, self.first = job, offer, tasks, first_pass
        self.profile, self.gpus = offer.node.profile, offer.gpus
        self.cpus = offer.cpus
        self.missing = max(job.gpus.per_job - gpus_so_far, 0) if job.gpus.per_job else 0
        self.per_socket = [
            len(offer.cores & set(self.profile.cores_of(s))) for s in range(self.profile.sockets)
        ]
        self.required: set[int] = set()

    def run(self) -> int:
        if self.tasks.most:
            self._run()
        if not self.job.gpus.cpus_per_gpu:
            self.cpus = min(self.cpus, self.tasks.most * self.job.cpus_per_task)
        return self.cpus

    def _drop_core(self, socket: int) -> bool:
        """Take the last core of ``socket`` away; False: it has none left."""
        mine = [core for core in self.profile.cores_of(socket) if core in self.offer.cores]
        if not mine:
            return False
        self.offer.cores.discard(mine[-1])
        self.per_socket[socket] -= 1
        threads = self.profile.threads_per_core
        if len(self.offer.cores) * threads < self.cpus:
            self.cpus -= threads
        return True

    def _run(self) -> None:
        job, request, gpus = self.job, self.job.gpus, self.gpus
        increment = self.tasks.least
        limit = 0
        if gpus.max_node:
            limit = min(self.missing or gpus.max_node, gpus.max_node)
        wanted_sockets = max(1, job.sockets_per_node or 0)
        if limit and (request.per_node > limit or request.per_socket * wanted_sockets > limit):
            self.tasks.most = 0
            return
        if request.per_node and request.per_task and not self._tasks_of_node_gpus(limit):
            return
        per_gpu = cpus_per_gpu(job)
        available = self._count_by_socket(limit, per_gpu)
        if per_gpu:
            limit = min(self.cpus // per_gpu, limit or self.cpus // per_gpu)
            available = min(available, limit)
        if available == 0 or max(request.per_node, request.per_task) > available:
            self.tasks.most = 0
        if request.per_task:
            self.tasks.most = min(self.tasks.most, available // request.per_task)
        if increment:
            self.tasks.most = self.tasks.most // increment * increment
        if self.tasks.most == 0:
            return
        binding = job.enforce_binding or self.first
        for socket in range(self.profile.sockets):
            while binding and socket not in self.required and self._drop_core(socket):
                pass
        if self.tasks.most >= _NO_LIMIT:
            if per_gpu:
                gpus.total = min(self.cpus // per_gpu, gpus.total)
            return
        self._fit_cores(per_gpu, available)

    def _tasks_of_node_gpus(self, limit: int) -> bool:
        tasks = self.job.gpus.per_node // self.job.gpus.per_task
        if tasks == 0 or not self.tasks.least <= tasks <= self.tasks.most:
            self.tasks.most = 0
            return False
        if self.tasks.most > tasks:
            self.tasks.most = limit
        return True

    def _count_by_socket(self, limit: int, per_gpu: int) -> int:
        """GPUs usable with the cores of their sockets; marks the sockets that are required."""
        job, request, gpus, profile = self.job, self.job.gpus, self.gpus, self.profile
        threads = profile.threads_per_core
        least_cores = max(self.tasks.least, 1) * max(job.cpus_per_task, 1)
        least_cores = (least_cores + threads - 1) // threads
        available, sufficient = gpus.any_count, False
        order = sorted(range(profile.sockets), key=lambda s: -self.per_socket[s])
        for socket in order:
            here = gpus.counts[socket]
            if (job.enforce_binding or self.first) and per_gpu:
                here = min(here, self.per_socket[socket] * threads // per_gpu)
            together = gpus.any_count + here
            if request.per_socket > together or together == 0:
                if request.per_socket > together or job.enforce_binding:
                    gpus.total -= gpus.counts[socket]
                    gpus.counts[socket] = 0
                if self.first and len(self.offer.cores) > least_cores:
                    while len(self.offer.cores) > least_cores and self._drop_core(socket):
                        pass
            if (job.enforce_binding or self.first) and self.per_socket[socket] == 0:
                continue
            available += here
            if not sufficient:
                self.required.add(socket)
            enough = limit and available >= limit
            if not gpus.any_count and (
                enough or (request.per_node and available >= request.per_node)
            ):
                sufficient = True
        return available

    def _fit_cores(self, per_gpu: int, available: int) -> None:
        """Keep as many cores as the tasks need, spread over the required sockets."""
        job, total = self.job, sum(self.per_socket)
        needed, threads = self._cores_of_tasks(total)
        if per_gpu:
            cpus = self._gpus_expected(available) * per_gpu
            needed = max(needed, -(-cpus // self.profile.threads_per_core))
        if job.enforce_binding:
            needed = max(needed, len(self.required))
        if needed > total or (job.enforce_binding and needed * threads > self.cpus):
            self.tasks.most = 0
            return
        if not job.enforce_binding and not self.first:
            self._drop_unrequired(needed)
        self._spread(needed)
        if per_gpu:
            self.gpus.total = min(self.cpus // per_gpu, self.gpus.total)
            if max(job.gpus.per_node, job.gpus.per_task) > self.gpus.total:
                self.tasks.most = 0
        if job.enforce_binding:
            self.offer.min_cores = needed

    def _cores_of_tasks(self, total: int) -> tuple[int, int]:
        """(cores for as many tasks as fit ``total``, threads of a core that count)."""
        job = self.job
        threads = self.profile.threads_per_core
        if job.threads_per_core:
            threads = min(threads, job.threads_per_core)
        per_task = job.cpus_per_task
        if job.ntasks_per_core == 1 and per_task % threads:
            per_task = (per_task // threads + 1) * threads
        needed = self.tasks.most * per_task
        while self.tasks.most >= self.tasks.least:
            needed = -(-needed // threads)
            if needed <= total:
                break
            self.tasks.most -= 1
            needed = self.tasks.most * per_task
        return needed, threads

    def _drop_unrequired(self, needed: int) -> None:
        for socket in set(range(self.profile.sockets)) - self.required:
            while sum(self.per_socket) > needed and self._drop_core(socket):
                pass

    def _gpus_expected(self, available: int) -> int:
        request = self.job.gpus
        if request.per_node:
            return request.per_node
        if request.per_socket:
            return request.per_socket * len(self.required)
        if request.per_task:
            return request.per_task * self.tasks.most
        return available or 1

    def _spread(self, needed: int) -> None:
        while sum(self.per_socket) > needed:
            fullest = max(
                (s for s in sorted(self.required) if self.per_socket[s]),
                key=lambda s: self.per_socket[s],
                default=None,
            )
            if fullest is None or not self._drop_core(fullest):
                return
