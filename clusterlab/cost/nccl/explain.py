"""Why a prediction for NCCL is what it is: all ways NCCL weighs, the parts of the time, the busiest link."""

from __future__ import annotations

from dataclasses import dataclass, replace

from clusterlab.cost.effects.constants import Effects, chip_class, network_class
from clusterlab.cost.effects.features import (
    Features,
    gpu_link_GBps,
    nics_GBps,
    with_bytes,
)
from clusterlab.cost.effects.formula import time_us
from clusterlab.cost.nccl.busiest import NICS, busiest
from clusterlab.cost.nccl.case import Case, case_of, groups_of
from clusterlab.cost.nccl.choice import ranked
from clusterlab.cost.nccl.communicator import Communicator
from clusterlab.cost.nccl.constants import constants_for
from clusterlab.cost.nccl.message_links import message_limit
from clusterlab.cost.nccl.overrides import Overrides
from clusterlab.cost.nccl.tuning import tuning_table
from clusterlab.cost.nccl.words import COLLECTIVES, graph_of
from clusterlab.cost.types import PredictRequest
from clusterlab.formats.nccl_tables import PORT_SHARE


@dataclass(frozen=True, slots=True)
class Way:
    """One algorithm and protocol: our time, and NCCL's own with the figures it makes it of."""

    algorithm: str
    protocol: str
    time_us: float
    library_time_us: float
    library_latency_us: float
    library_algbw_GBps: float
    channels: int


@dataclass(frozen=True, slots=True)
class Part:
    """µs that ``name`` adds to the parts before it."""

    name: str
    us: float


@dataclass(frozen=True, slots=True)
class Link:
    """The kind of link that the chosen algorithm keeps busiest. ``GBps`` is all of it (a GPU's links, or a
    host's NICs); bytes over it per byte of the buffer, also of a ring.
    """

    name: str
    GBps: float
    bytes_per_byte: float
    ring_bytes_per_byte: float
    busy_us: float


@dataclass(frozen=True, slots=True)
class Found:
    """The graph of the chosen algorithm: ``channels`` of so many GB/s inside a host and between hosts."""

    algorithm: str
    channels: int
    intra_GBps: float
    inter_GBps: float | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """``ways`` as NCCL ranks them, its choice first, empty for collectives without a model in NCCL;
    ``switched_off`` are those that NCCL does not offer here. ``parts`` add up to ``formula_us``, the time
    before the rules of ``predict`` (launch, smaller sizes, bound). ``wire_us`` is that of the bytes at full
    rate of the channels.
    """

    library: str
    version: str
    constants_version: str
    ranks: int
    nodes: int
    chip: str
    network: str | None
    found: Found
    ways: tuple[Way, ...]
    switched_off: tuple[str, ...]
    parts: tuple[Part, ...]
    formula_us: float
    wire_us: float
    link: Link | None


def explain(request: PredictRequest) -> Explanation | None:
    """Of the first group of ``request``; None for one rank. Raises UsageError where ``predict`` does."""
    case = case_of(request)
    name, comm, overrides = case.collective, case.comm, case.overrides
    effects = case.effects
    if comm.ranks == 1:
        return None
    ways: tuple[Way, ...] = ()
    off: tuple[str, ...] = ()
    link = None
    if name in COLLECTIVES:
        ways = _ways(case, request.size_bytes)
        off = _switched_off(name, comm, overrides, ways)
        algorithm = ways[0].algorithm
        point = case.features(algorithm, ways[0].protocol, request.size_bytes)
        effects = case.effects_of(algorithm)
        share = case.nic_share(algorithm)
        link = _link(case.comm_of(algorithm), name, algorithm, request.size_bytes, share)
    else:
        algorithm = "ring"
        limit = message_limit(request.fabric, case, request.size_bytes, groups_of(request))
        point = case.message_features(request.size_bytes, limit.busy_us)
    graph = graph_of(algorithm, comm)
    made_of, formula_us = parts(point, effects), float(time_us(point, effects))
    factor = case.correction.at(request.size_bytes)
    return Explanation(
        library=comm.library.upper(),
        version=comm.version,
        constants_version=constants_for(comm.version, comm.library).version,
        ranks=comm.ranks,
        nodes=comm.nodes,
        chip=chip_class(case.comm_of(algorithm)),
        network=network_class(comm) if comm.nodes > 1 else None,
        found=Found(
            algorithm,
            graph.channels,
            graph.intra_GBps,
            graph.inter_GBps if comm.nodes > 1 else None,
        ),
        ways=ways,
        switched_off=off,
        parts=(*made_of, *_corrected(formula_us, factor)),
        formula_us=formula_us * factor,
        wire_us=max(point.wire_us, point.network_wire_us),
        link=link,
    )


def _corrected(formula_us: float, factor: float) -> tuple[Part, ...]:
    """What a calibration found at this size beside its constants."""
    if factor == 1.0:
        return ()
    return (Part(f"x {factor:.3f} by calibration at this size", formula_us * (factor - 1)),)


def parts(point: Features, effects: Effects) -> tuple[Part, ...]:
    """What start, hops and bytes add, one after the other; what adds nothing is left out."""
    nothing = replace(with_bytes(point, 0.0), hops_inside=0, hops_between=0)
    inside = replace(nothing, hops_inside=point.hops_inside)
    between = replace(inside, hops_between=point.hops_between)
    steps = (
        ("start", nothing),
        (f"{point.hops_inside} hops inside a host", inside),
        (f"{point.hops_between} hops between hosts", between),
        ("bytes", replace(point, staged_us=0.0)),
        ("bytes through the host's memory", point),
    )
    found, before_us = [], 0.0
    for name, stage in steps:
        here_us = float(time_us(stage, effects))
        if here_us > before_us:
            found.append(Part(name, here_us - before_us))
        before_us = here_us
    return tuple(found)


def _ways(case: Case, size: int) -> tuple[Way, ...]:
    name, comm = case.collective, case.comm
    return tuple(
        Way(
            c.algorithm,
            c.protocol,
            case.time_us(c.algorithm, c.protocol, size),
            c.time_us,
            c.latency_us,
            c.algbw_GBps,
            c.channels,
        )
        for c in ranked(name, size, comm, case.overrides, dtype=case.dtype, op=case.op)
    )


def _switched_off(
    name: str, comm: Communicator, overrides: Overrides, ways: tuple[Way, ...]
) -> tuple[str, ...]:
    """What has a place in NCCL's table but is not weighed. Without a latency it does not exist at all."""
    weighed = {(w.algorithm, w.protocol) for w in ways}
    table = tuning_table(name, comm, overrides)
    return tuple(
        "/".join(cell)
        for cell, entry in table.items()
        if cell not in weighed and entry.latency_us > 0
    )


def _link(comm: Communicator, name: str, algorithm: str, size_bytes: int, share: float) -> Link:
    limit = busiest(comm, name, algorithm, size_bytes, share)
    ring = busiest(comm, name, "ring", size_bytes, share)
    rate = gpu_link_GBps(comm)
    if limit.name == NICS and comm.network is not None:
        rate = nics_GBps(comm) / PORT_SHARE * share
    per_byte = rate * 1e3 / size_bytes
    return Link(
        name=limit.name,
        GBps=rate,
        bytes_per_byte=limit.busy_us * per_byte,
        ring_bytes_per_byte=ring.busy_us * per_byte if ring.name == limit.name else 0.0,
        busy_us=limit.busy_us,
    )
