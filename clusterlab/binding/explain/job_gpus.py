"""Which GPUs of each node a job gets.

Follows gres_select_filter_select_and_set of Slurm 22.05's
src/plugins/select/cons_common/gres_select_filter.c and its helpers for counts per node, socket, task and
job. GPUs linked best to those already taken come first where gres.conf has Links=.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from clusterlab.binding.explain.available import SocketGpus
from clusterlab.binding.explain.distribute import Share
from clusterlab.binding.explain.job_request import JobRequest
from clusterlab.binding.explain.profile import NodeProfile


def job_gpus(job: JobRequest, shares: list[Share]) -> list[frozenset[int]]:
    """The GPUs of each share's node, by index; empty where none is wanted."""
    if job.whole_node:
        return [_free(share) for share in shares]
    request = job.gpus
    if request.per_node:
        return [frozenset(_per_node(share, request.per_node)) for share in shares]
    if request.per_socket:
        return [frozenset(_per_socket(share, request.per_socket)) for share in shares]
    if request.per_task:
        counts = _tasks_by_socket(job, shares)
        pairs = zip(shares, counts, strict=True)
        return [frozenset(_per_task(share, n, request.per_task)) for share, n in pairs]
    if request.per_job:
        return _per_job(job, shares)
    return [frozenset() for _ in shares]


def _free(share: Share) -> frozenset[int]:
    node = share.offer.node
    return frozenset(range(len(node.profile.gpus))) - node.busy_gpus


def _groups(share: Share) -> list[tuple[int, list[int]]]:
    """(socket, free GPUs), those near no socket in particular first, as socket -1."""
    gpus = share.offer.gpus
    assert isinstance(gpus, SocketGpus)
    near = [(socket, sorted(found)) for socket, found in enumerate(gpus.by_socket)]
    return [(-1, sorted(gpus.anywhere)), *near]


def _used_sockets(share: Share) -> set[int]:
    return {share.offer.node.profile.socket_of(core) for core in share.cores}


class _Links:
    """How well each free GPU is linked to those taken; scaled to at most 4 as Slurm does."""

    def __init__(self, profile: NodeProfile, busy: frozenset[int]) -> None:
        self.links, self.busy = profile.links, busy
        self.count = [0] * len(profile.gpus)
        self.best = 0

    def add(self, gpu: int) -> None:
        for other in range(len(self.links)):
            if other != gpu and other not in self.busy:
                self.count[other] += self.links[gpu][other]

    def settle(self) -> None:
        if not self.links:
            return
        self.best = max(self.count, default=0)
        if self.best > 4:
            step = (self.best + 3) // 4
            # C divides towards zero.
            self.count = [int(n / step) for n in self.count]
            self.best = max(self.count)
        self.best = max(self.best, 0)

    def levels(self) -> Iterable[int]:
        return range(self.best, -1, -1)

    def reaches(self, gpu: int, level: int) -> bool:
        return not self.links or self.count[gpu] >= level


def _take(
    taken: list[int],
    goal: int,
    links: _Links,
    groups: list[tuple[int, list[int]]],
    allowed: Callable[[int], bool],
) -> None:
    """Best linked first, then by socket and number, until ``goal`` are taken."""
    for level in links.levels():
        for socket, gpus in groups:
            if not allowed(socket):
                continue
            for gpu in gpus:
                if len(taken) >= goal:
                    return
                if gpu not in taken and links.reaches(gpu, level):
                    taken.append(gpu)


def _links_of(share: Share) -> _Links:
    return _Links(share.offer.node.profile, share.offer.node.busy_gpus)


def _per_node(share: Share, goal: int) -> list[int]:
    """One on each socket that has cores, then more on these, then on others."""
    groups, used, links = _groups(share), _used_sockets(share), _links_of(share)
    taken: list[int] = []
    for socket, gpus in groups:
        if len(taken) < goal and gpus and (socket < 0 or socket in used):
            taken.append(gpus[0])
            links.add(gpus[0])
    links.settle()
    _take(taken, goal, links, groups, lambda socket: socket < 0 or socket in used)
    _take(taken, goal, links, groups, lambda socket: socket >= 0 and socket not in used)
    return taken


def _per_socket(share: Share, goal: int) -> list[int]:
    taken: list[int] = []
    groups = dict(_groups(share))
    anywhere = groups.pop(-1)
    for socket in sorted(_used_sockets(share)):
        mine = [gpu for gpu in groups[socket] if gpu not in taken][:goal]
        spare = [gpu for gpu in anywhere if gpu not in taken]
        taken += mine + spare[: goal - len(mine)]
    return taken


def _tasks_by_socket(job: JobRequest, shares: list[Share]) -> list[list[int]]:
    """For each node how many tasks its sockets are meant for, by their cores."""
    counts = [_tasks_on(job, share) for share in shares]
    if not job.overcommit or not shares:
        return counts
    # Tasks beyond the cores go round the sockets; Slurm looks at the first node's cores for every node.
    left = job.num_tasks - sum(map(sum, counts))
    sockets = sorted(_used_sockets(shares[0]))
    places = [(node, socket) for node in range(len(shares)) for socket in sockets]
    for turn in range(max(left, 0)):
        node, socket = places[turn % len(places)]
        counts[node][socket] += 1
    return counts


def _tasks_on(job: JobRequest, share: Share) -> list[int]:
    profile = share.offer.node.profile
    limit = job.ntasks_per_node or share.tasks
    counts = [0] * profile.sockets
    # _build_tasks_per_node_sock counts one CPU per task where the node's tasks are known.
    per_core = job.ntasks_per_core or profile.threads_per_core
    for core in sorted(share.cores):
        socket = profile.socket_of(core)
        if job.ntasks_per_socket and counts[socket] >= job.ntasks_per_socket:
            continue
        room = limit - sum(counts) if limit else per_core
        if room <= 0:
            break
        counts[socket] += min(per_core, room)
        if job.ntasks_per_socket:
            counts[socket] = min(counts[socket], job.ntasks_per_socket)
    return counts


def _per_task(share: Share, tasks: list[int], per_task: int) -> list[int]:
    """GPUs near each socket for the tasks on it, then any for the rest."""
    links = _links_of(share)
    taken: list[int] = []
    count = 0
    groups = _groups(share)
    for socket, gpus in groups:
        if socket > 0 and tasks[socket] == 0:
            continue
        count += tasks[socket] if socket >= 0 else 0
        for gpu in gpus:
            if len(taken) >= count * per_task:
                break
            if gpu not in taken:
                taken.append(gpu)
                links.add(gpu)
    links.settle()
    _take(taken, count * per_task, links, groups, lambda socket: True)
    return taken


def _per_job(job: JobRequest, shares: list[Share]) -> list[frozenset[int]]:
    """As many as may be on each node, one kept back for every node to come; then from any socket."""
    picked: list[list[int]] = []
    total = 0
    for position, share in enumerate(shares):
        most = job.gpus.per_job - total - (len(shares) - position - 1)
        per_gpu = job.gpus.cpus_per_gpu or job.gpus.ntasks_per_gpu * job.cpus_per_task
        if per_gpu:
            cpus = len(share.cores) * share.offer.node.profile.threads_per_core
            most = min(most, cpus // per_gpu)
        picked.append(_near_cores(share, most))
        total += len(picked[-1])
    for share, taken in zip(shares, picked, strict=True):
        goal = len(taken) + job.gpus.per_job - total
        if goal > len(taken):
            before = len(taken)
            _fill(share, taken, goal)
            total += len(taken) - before
    return [frozenset(taken) for taken in picked]


def _near_cores(share: Share, most: int) -> list[int]:
    profile, used = share.offer.node.profile, _used_sockets(share)
    groups = _groups(share)
    choose_by_links = most > 1 and bool(profile.links)
    taken: list[int] = []
    for socket, gpus in groups:
        if socket < 0 or socket in used:
            taken += gpus if choose_by_links else gpus[: max(most - len(taken), 0)]
    if not taken:
        others = [gpus for socket, gpus in groups if socket >= 0 and socket not in used and gpus]
        taken = others[0][:1] if others else []
    return _drop_worst_linked(profile, sorted(taken), most)


def _drop_worst_linked(profile: NodeProfile, taken: list[int], most: int) -> list[int]:
    """Of too many, keep those linked best to the GPU with the best link: ties lose the lowest first."""
    if len(taken) <= most or not profile.links:
        return taken
    best_count, best = -1, None
    for i, gpu in enumerate(taken):
        for other in taken[i + 1 :]:
            if profile.links[gpu][other] > best_count:
                best_count, best = profile.links[gpu][other], gpu
    while best is not None and len(taken) > most:
        rest = [gpu for gpu in taken if gpu != best]
        if not rest:
            break
        taken.remove(min(rest, key=lambda gpu: profile.links[best][gpu]))
    return taken


def _fill(share: Share, taken: list[int], goal: int) -> None:
    """More from any socket, those linked best to the first taken in front (_set_job_bits2)."""
    profile = share.offer.node.profile
    links = _links_of(share)
    if profile.links and taken:
        first = min(taken)
        links.count = [max(profile.links[first][gpu], 0) for gpu in range(len(profile.gpus))]
        links.best = max(0, *(row[first] for row in profile.links))
    else:
        links.links = ()
    _take(taken, goal, links, _groups(share), lambda socket: True)
