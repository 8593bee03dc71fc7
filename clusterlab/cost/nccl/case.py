"""One group's communicator with everything of a prediction that does not depend on the size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clusterlab.core.collectives import collective as named
from clusterlab.core.placement import RankPlacement
from clusterlab.cost.effects.constants import Effects, shipped_effects
from clusterlab.cost.nccl.beyond_nics import network_share
from clusterlab.cost.nccl.communicator import NEWEST, Communicator
from clusterlab.cost.nccl.graphs import communicator
from clusterlab.cost.nccl.overrides import Overrides, apply_overrides, parse_overrides
from clusterlab.cost.types import PredictRequest


@dataclass(frozen=True, slots=True)
class Case:
    """``share`` of the NICs' rate is what the network beyond them leaves."""

    collective: str
    comm: Communicator
    overrides: Overrides
    dtype: str
    op: str
    effects: Effects
    share: float


def made_case(
    request: PredictRequest, name: str, ranks: Sequence[RankPlacement], devices: Sequence[str]
) -> Case:
    """Of ``ranks`` on ``devices``, with the request's variables applied. Raises UsageError for variables,
    GPUs or networks that NCCL could not run with.
    """
    overrides = parse_overrides(request.overrides)
    comm = communicator(
        request.fabric, ranks, devices,
        version=request.library_version or NEWEST, overrides=overrides.graph,
    )  # fmt: skip
    comm = apply_overrides(comm, overrides)
    share = network_share(request.fabric, devices) if comm.nodes > 1 else 1.0
    op = request.op or "sum"
    return Case(name, comm, overrides, request.dtype, op, shipped_effects().of(comm), share)


def case_of(request: PredictRequest) -> Case:
    """Of the request's first group."""
    ranks = request.groups[0]
    name = named(request.collective).name
    return made_case(request, name, ranks, [r.device or "" for r in ranks])
