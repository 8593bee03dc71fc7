"""Which nodes a job gets, and how many CPUs of each.

Follows choose_nodes and _eval_nodes of Slurm 22.05's src/plugins/select/cons_tres/job_test.c: runs of
neighbouring nodes, best fit, and one CPU set aside for every node still to come. That is why -N4 -n16
becomes 13+1+1+1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from clusterlab.binding.explain.available import Offer, cpus_per_core
from clusterlab.binding.explain.job_request import JobRequest
from clusterlab.binding.explain.narrow import narrow

_ANY_NUMBER = 500_000


def choose_nodes(job: JobRequest, offers: Mapping[int, Offer]) -> list[Offer] | None:
    """The offers taken, by node index, their ``cpus`` cut to what the job takes; None: it cannot run."""
    usable = {index: offer for index, offer in offers.items() if offer.cpus}
    min_nodes = job.min_nodes
    if job.ntasks_per_node and job.num_tasks:
        min_nodes = max(min_nodes, -(-job.num_tasks // job.ntasks_per_node))
    max_nodes = job.max_nodes or _ANY_NUMBER
    req_nodes = max_nodes if job.max_nodes else job.min_nodes
    if job.num_tasks and max_nodes > job.num_tasks:
        max_nodes = max(job.num_tasks, min_nodes)
    if len(usable) < min_nodes:
        return None
    cores = {index: set(offer.cores) for index, offer in usable.items()}
    whole = dict(usable)
    for first_pass, nodes in _attempts(whole, min_nodes):
        for index, offer in nodes.items():
            offer.cores = set(cores[index])
        evaluation = _Evaluation(job, nodes, min_nodes, max_nodes, req_nodes, first_pass=first_pass)
        chosen = evaluation.run()
        if chosen is not None:
            return [_cut_to_cores(job, usable[index]) for index in sorted(chosen)]
    return None


def _attempts(offers: dict[int, Offer], min_nodes: int) -> Iterator[tuple[bool, dict[int, Offer]]]:
    """All nodes, first beside their GPUs only; then without those that have least."""
    yield True, offers
    if len(offers) <= min_nodes:
        yield False, offers
        return
    left = dict(offers)
    for count in range(1, max(offer.resources for offer in offers.values())):
        poor = [index for index, offer in left.items() if 0 < offer.resources <= count]
        poor = poor[: len(left) - min_nodes]
        for index in poor:
            del left[index]
        if poor or count == 1:
            yield False, left
        if len(left) <= min_nodes:
            return


def _cut_to_cores(job: JobRequest, offer: Offer) -> Offer:
    """Cores are only taken away for jobs with GPUs; their CPUs go with them."""
    if job.gpus.wanted:
        offer.cpus = min(offer.cpus, len(offer.cores) * offer.node.profile.threads_per_core)
    return offer


@dataclass(slots=True)
class _Run:
    """Nodes in a row that are worth the same."""

    nodes: list[int]
    required: int | None
    weight: int


class _Evaluation:
    """One call of _eval_nodes: what is still needed changes with every node taken."""

    def __init__(
        self,
        job: JobRequest,
        offers: Mapping[int, Offer],
        min_nodes: int,
        max_nodes: int,
        req_nodes: int,
        *,
        first_pass: bool,
    ) -> None:
        self.job, self.offers, self.first_pass = job, offers, first_pass
        self.min_nodes, self.max_nodes, self.req_nodes = min_nodes, max_nodes, req_nodes
        self.gpus = 0
        self.taken: set[int] = set()
        self.cpus: dict[int, int] = {}
        per_job = bool(job.gpus.per_job)
        self.rem_nodes = min(min_nodes, req_nodes) if per_job else max(min_nodes, req_nodes)
        if not job.max_nodes and not per_job:
            self.rem_nodes = max(min_nodes, job.min_nodes)
        self.min_rem_nodes = min_nodes
        self.rem_cpus = job.min_cpus
        self.rem_max_cpus = self._most_cpus()

    def _most_cpus(self) -> int:
        job = self.job
        per_node, per_job = _gpu_cpus_per_node(job), _gpu_cpus_per_job(job)
        most = job.min_cpus
        if per_node:
            most = max(most, per_node * self.rem_nodes)
        return max(most, per_job)

    def run(self) -> set[int] | None:
        required = [i for i, o in self.offers.items() if o.node.name in self.job.required]
        if not self._take_required(required):
            return None
        if required and self._enough():
            return self.taken
        if self.max_nodes <= 0:
            return None
        return self._fill(self._runs(set(required)))

    def _take_required(self, required: list[int]) -> bool:
        """Take the nodes of --nodelist first; False when they cannot all be had."""
        if len(required) < len(self.job.required) or len(required) > self.max_nodes:
            return False
        for index in sorted(required):
            self.cpus[index] = self._narrow(index)
            if not self._take(index):
                return False
        return True

    def _fill(self, runs: list[_Run]) -> set[int] | None:
        while runs and self.max_nodes > 0:
            best = self._best(runs)
            runs.remove(best)
            self._take_from(best)
            if self._enough():
                return self.taken
        enough = self.rem_cpus <= 0 and self._gpus_enough() and self._nodes_needed() <= 0
        return self.taken if enough else None

    def _nodes_needed(self) -> int:
        if self.req_nodes > self.min_nodes:
            return self.rem_nodes + self.min_nodes - self.req_nodes
        return self.rem_nodes

    def _gpus_enough(self) -> bool:
        return self.gpus >= self.job.gpus.per_job

    def _enough(self) -> bool:
        return self.rem_nodes <= 0 and self.rem_cpus <= 0 and self._gpus_enough()

    def _full(self) -> bool:
        return self.max_nodes == 0 or self._enough()

    def _narrow(self, index: int) -> int:
        return narrow(
            self.job, self.offers[index], first_pass=self.first_pass, gpus_so_far=self.gpus
        )

    def _take(self, index: int) -> bool:
        """Add a node; False: it gives no CPU, which a required one must."""
        offer = self.offers[index]
        cpus = self._cpus_to_use(offer, self.cpus[index])
        if self.job.gpus.per_job and cpus and offer.gpus is not None:
            total = offer.gpus.total
            if self.job.gpus.cpus_per_gpu:
                total = min(total, cpus // self.job.gpus.cpus_per_gpu)
                cpus = total * self.job.gpus.cpus_per_gpu or cpus
            self.gpus += total
        self.rem_cpus -= cpus
        self.rem_max_cpus -= cpus
        self.rem_nodes -= 1
        self.min_rem_nodes -= 1
        self.max_nodes -= 1
        self.taken.add(index)
        return cpus > 0

    def _cpus_to_use(self, offer: Offer, cpus: int) -> int:
        """Leave a CPU for each node still to come."""
        job = self.job
        if job.whole_node:
            return cpus
        reserved = max(self.min_rem_nodes - 1, 0) * cpus_per_core(job, offer.node.profile)
        most = self.rem_max_cpus - reserved
        if cpus > most:
            cpus = max(most, job.pn_min_cpus, _gpu_cpus_per_node(job))
            offer.cpus = cpus
        return cpus

    def _runs(self, required: set[int]) -> list[_Run]:
        runs: list[_Run] = []
        previous = None
        for index in sorted(self.offers):
            if index in required:
                if runs and previous is not None:
                    runs[-1].required = (
                        runs[-1].required if runs[-1].required is not None else index
                    )
                previous = index
                continue
            cpus = self._narrow(index)
            self.cpus[index] = cpus
            if not cpus:
                previous = None
                continue
            weight = 0xFF - self.offers[index].near_gpus
            joined = previous is not None and previous == index - 1
            if runs and joined and runs[-1].weight == weight:
                runs[-1].nodes.append(index)
            else:
                first = previous if joined and previous in required else None
                runs.append(_Run([index], first, weight))
            previous = index
        return runs

    def _best(self, runs: list[_Run]) -> _Run:
        best, best_cpus, best_enough = runs[0], 0, False
        for position, run in enumerate(runs):
            cpus = sum(self.cpus[index] for index in run.nodes)
            enough = cpus >= self.rem_cpus and len(run.nodes) >= self._nodes_needed()
            enough = enough and self._run_has_gpus(run)
            better = position == 0 or run.weight < best.weight
            better = better or (best.required is None and run.required is not None)
            if not better and run.weight == best.weight:
                better = (
                    (enough and not best_enough)
                    or (enough and cpus < best_cpus)
                    or (not enough and cpus > best_cpus)
                )
            if better:
                best, best_cpus, best_enough = run, cpus, enough
        return best

    def _run_has_gpus(self, run: _Run) -> bool:
        offers = (self.offers[index].gpus for index in run.nodes)
        total = sum(gpus.total for gpus in offers if gpus is not None)
        return self.gpus + total >= self.job.gpus.per_job

    def _take_from(self, run: _Run) -> None:
        if run.required is not None:
            above = [i for i in run.nodes if i > run.required]
            below = [i for i in reversed(run.nodes) if i < run.required]
            for index in [*above, *below]:
                if self._full():
                    return
                self._take(index)
            return
        nodes = run.nodes
        if self.rem_nodes <= 1:
            best = self._best_single(nodes)
            nodes = nodes if best is None else [best]
        for index in nodes:
            if self._full():
                return
            if self.max_nodes == 1 and self.cpus[index] < self.rem_cpus:
                continue
            self._take(index)

    def _best_single(self, nodes: list[int]) -> int | None:
        """The node that alone suffices with least to spare."""
        fitting = [
            index
            for index in nodes
            if self.cpus[index] >= self.rem_cpus and self._run_has_gpus(_Run([index], None, 0))
        ]
        return min(fitting, key=lambda index: self.cpus[index], default=None)


def _gpu_cpus_per_node(job: JobRequest) -> int:
    """CPUs that --cpus-per-gpu asks for on a node (gres_select_util_job_min_cpu_node)."""
    gpus = job.gpus
    if not gpus.cpus_per_gpu or not gpus.wanted:
        return 0
    per_node = gpus.per_node or gpus.per_socket * (job.sockets_per_node or 1)
    return gpus.cpus_per_gpu * (per_node or gpus.per_task * job.ntasks_per_node or 1)


def gpu_cpus_of_job(job: JobRequest, nodes: int, tasks: int) -> int:
    """CPUs that --cpus-per-gpu asks for altogether (gres_select_util_job_min_cpus)."""
    gpus = job.gpus
    if not gpus.cpus_per_gpu or not gpus.wanted:
        return 0
    total = gpus.per_job or gpus.per_node * nodes
    total = total or gpus.per_socket * nodes * (job.sockets_per_node or 1)
    return gpus.cpus_per_gpu * (total or gpus.per_task * tasks)


def _gpu_cpus_per_job(job: JobRequest) -> int:
    return gpu_cpus_of_job(job, job.min_nodes, max(job.ntasks_per_node, 1) * job.min_nodes)
