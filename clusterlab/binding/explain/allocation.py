"""A job's allocation, and what its running steps hold of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from clusterlab.binding.explain.available import Node, offer_of
from clusterlab.binding.explain.choose import choose_nodes
from clusterlab.binding.explain.distribute import distribute
from clusterlab.binding.explain.job_gpus import job_gpus
from clusterlab.binding.explain.job_request import JobRequest
from clusterlab.binding.explain.rejection import UNAVAILABLE, BusyError, RejectedError


@dataclass(slots=True)
class NodeShare:
    """A job's part of one node, and what running steps use of it."""

    node: Node
    cpus: int
    cores: frozenset[int]
    gpus: frozenset[int]
    used_cpus: int = 0
    used_cores: set[int] = field(default_factory=set)
    used_gpus: set[int] = field(default_factory=set)

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.name

    @property
    def free_cpus(self) -> int:
        """CPUs no running step holds."""
        return max(self.cpus - self.used_cpus, 0)

    @property
    def free_gpus(self) -> frozenset[int]:
        """GPUs no running step holds."""
        return self.gpus - self.used_gpus


@dataclass(frozen=True, slots=True)
class Allocation:
    """A running job: what it asked for and its part of each node, in the nodes' order."""

    request: JobRequest
    shares: tuple[NodeShare, ...]

    @property
    def total_cpus(self) -> int:
        """CPUs of the job on all nodes."""
        return sum(share.cpus for share in self.shares)


def allocate(request: JobRequest, nodes: Sequence[Node], *, command: str) -> Allocation:
    """The nodes, cores and GPUs of a job. Raises RejectedError, or BusyError if it would have to wait."""
    known = {node.name for node in nodes}
    unknown = [name for name in request.required if name not in known]
    if unknown:
        raise RejectedError(
            f"{command}: error: Unable to allocate resources: Invalid node name specified"
        )
    for ignore_others in (True, False):
        offers = {
            node.index: offer
            for node in nodes
            if node.name not in request.excluded
            and (offer := offer_of(request, node, ignore_others=ignore_others)) is not None
        }
        chosen = choose_nodes(request, offers)
        if chosen is None:
            if ignore_others:
                prefix = "sbatch: error: Batch job submission failed: "
                reason = UNAVAILABLE.partition(": ")[2]
                message = (
                    prefix + reason if command == "sbatch" else f"{command}: error: {UNAVAILABLE}"
                )
                raise RejectedError(message)
            raise BusyError("the job waits: other jobs hold what it asks for")
    assert chosen is not None
    shares = distribute(request, chosen)
    if shares is None:
        raise BusyError("Slurm holds the job: its CPUs do not fit the sockets as asked")
    gpus = job_gpus(request, shares)
    return Allocation(
        request,
        tuple(
            NodeShare(share.offer.node, share.cpus, share.cores, mine)
            for share, mine in zip(shares, gpus, strict=True)
        ),
    )
