"""Measured points as the fit sees them: the formula's terms of NCCL's choice, and what it took."""

from __future__ import annotations

from dataclasses import dataclass

from clusterlab.cost.calibrated.machine import Machine, machine_of
from clusterlab.cost.effects.constants import Effects, chip_class, network_class
from clusterlab.cost.effects.features import Features
from clusterlab.cost.nccl.case import case_of, groups_of
from clusterlab.cost.nccl.choice import ranked
from clusterlab.cost.nccl.message_links import message_limit
from clusterlab.cost.nccl.words import COLLECTIVES
from clusterlab.cost.types import PredictRequest


@dataclass(frozen=True, slots=True)
class FitPoint:
    """One measured time. ``effects`` are its class's constants, ``library_us`` is NCCL's own time of the
    choice (None where it has no model). ``version`` is empty where the file does not say.
    """

    terms: Features
    effects: Effects
    collective: str
    ranks: int
    nodes: int
    size_bytes: int
    version: str
    time_us: float
    library_us: float | None
    machine: Machine
    chip: str
    network: str | None
    through_host: bool


def fit_point(request: PredictRequest, time_us: float) -> FitPoint:
    """``request`` took ``time_us``. Raises UsageError where ``predict`` does."""
    case = case_of(request)
    name, comm, size = case.collective, case.comm, request.size_bytes
    library_us = None
    if name in COLLECTIVES:
        best = ranked(name, size, comm, case.overrides, dtype=case.dtype, op=case.op)[0]
        terms = case.features(best.algorithm, best.protocol, size)
        effects, library_us = case.effects_of(best.algorithm), best.time_us
    else:
        wire_us = message_limit(request.fabric, case, size, groups_of(request)).busy_us
        terms, effects = case.message_features(size, wire_us), case.effects
    device = request.groups[0][0].device or ""
    return FitPoint(
        terms=terms,
        effects=effects,
        collective=name,
        ranks=comm.ranks,
        nodes=comm.nodes,
        size_bytes=size,
        version=request.library_version or "",
        time_us=time_us,
        library_us=library_us,
        machine=machine_of(request.fabric, device, case.plain),
        chip=chip_class(comm),
        network=network_class(comm) if comm.nodes > 1 else None,
        through_host=comm.host_memory,
    )
