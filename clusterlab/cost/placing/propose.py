"""The best of the orders tried, by the predicted communication of one training step. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from clusterlab.core.placement import Placement
from clusterlab.cost.flows.crossing import Routing
from clusterlab.cost.placing.orders import host_orders
from clusterlab.cost.placing.pattern import Axis, groups_of
from clusterlab.cost.predict import predict
from clusterlab.cost.types import Prediction, PredictRequest
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.rank_order import host_of_each_rank, place_in_order


@dataclass(frozen=True, slots=True)
class Job:
    """``ranks`` of a job, at most ``per_host`` a host, and what they do together by ``backend``."""

    ranks: int
    per_host: int
    axes: tuple[Axis, ...]
    routing: Routing = "adaptive"
    overrides: Mapping[str, str] = field(default_factory=dict)
    library_version: str | None = None
    backend: str = "nccl"


@dataclass(frozen=True, slots=True)
class Priced:
    """``hosts`` [ranks] of an order, and what a call of each axis takes, all its groups at once."""

    hosts: tuple[str, ...]
    axes: tuple[tuple[Axis, Prediction], ...]

    @property
    def time_us(self) -> float:
        """All calls of a training step, one after the other, nothing hidden behind compute."""
        return sum(axis.calls * prediction.time_us for axis, prediction in self.axes)


@dataclass(frozen=True, slots=True)
class Proposal:
    """``best`` is ``given`` where nothing tried is faster. ``tried`` counts the orders."""

    given: Priced
    best: Priced
    tried: int

    @property
    def gain(self) -> float:
        """Given over best: at least 1."""
        return self.given.time_us / self.best.time_us


_WORTH = 1e-6
"""Relative gain below which an order is not better."""


def propose(fabric: Fabric, given: Sequence[str], job: Job) -> Proposal:
    """Compare ``given`` (the host of every rank) with orders of the same hosts filled one after the other.

    Raises UsageError where ranks cannot be placed or do not reach each other.
    """
    first = priced(fabric, given, job)
    best, tried = first, 1
    hosts = tuple(dict.fromkeys(given))
    spans = [-(-axis.width * axis.stride // job.per_host) for axis in job.axes]
    for order in host_orders(fabric, hosts, spans):
        ranks = host_of_each_rank(order, job.ranks, job.per_host, "block")
        if ranks == tuple(given):
            continue
        tried += 1
        other = priced(fabric, ranks, job)
        if other.time_us < best.time_us * (1 - _WORTH):
            best = other
    return Proposal(first, best, tried)


def priced(fabric: Fabric, hosts: Sequence[str], job: Job) -> Priced:
    """What the job's axes take with ranks on ``hosts``."""
    placement = place_in_order(fabric, hosts)
    return Priced(
        tuple(hosts),
        tuple((axis, predict(_request(fabric, placement, axis, job))) for axis in job.axes),
    )


def _request(fabric: Fabric, placement: Placement, axis: Axis, job: Job) -> PredictRequest:
    return PredictRequest(
        fabric=fabric,
        groups=tuple(
            tuple(placement.ranks[r] for r in group) for group in groups_of(axis, job.ranks)
        ),
        collective=axis.collective,
        size_bytes=axis.size_bytes,
        backend=job.backend,
        issue="library",
        routing=job.routing,
        overrides=job.overrides,
        library_version=job.library_version,
    )
