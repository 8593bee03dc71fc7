"""The estimate for NCCL: its choice of ring or tree, the links for what it leaves out, the host's launch."""

from __future__ import annotations

from collections.abc import Sequence

from clusterlab.cost import nccl_constants as const
from clusterlab.cost.estimate import Estimate, Group, on_links
from clusterlab.cost.host_overhead import with_launch
from clusterlab.cost.nccl_choices import ALGORITHMS, Choice, choices, least_us
from clusterlab.cost.nccl_graph import Communicator, communicator
from clusterlab.cost.schedules.direct import direct_all_to_all, one_message, ring_shift
from clusterlab.cost.schedules.schedule import Schedule
from clusterlab.cost.types import Alternative, Constant, PredictRequest

MODELLED_OVERRIDES = ("NCCL_ALGO", "NCCL_PROTO")


def nccl_estimate(
    request: PredictRequest, name: str, group: Group, groups: Sequence[Group]
) -> Estimate:
    """NCCL's model where it has one, else one latency and the load on the links; then the launch."""
    comm = communicator(request.fabric, group.ranks, group.devices)
    if comm.ranks == 1:
        estimate = Estimate(0.0, "local", None, "one rank", 0.0, ())
    elif name in ALGORITHMS:
        estimate = _chosen(request, name, comm)
    else:
        estimate = _by_links(request, name, comm, groups)
    ignored = [v for v in request.overrides if v not in MODELLED_OVERRIDES]
    notes = [f"not modelled: {', '.join(ignored)}"] if ignored else []
    return with_launch(estimate, request.issue, tuple(notes))


def _chosen(request: PredictRequest, name: str, comm: Communicator) -> Estimate:
    ranked = choices(name, request.size_bytes, comm, request.overrides)
    best = ranked[0]
    transfer_us = request.size_bytes / (best.algbw_GBps * 1e3)
    smaller_us = least_us(name, request.size_bytes, comm, request.overrides)
    return Estimate(
        time_us=max(best.time_us, smaller_us),
        algorithm=best.algorithm,
        protocol=best.protocol,
        bottleneck=_bottleneck(comm) if transfer_us > best.latency_us else "latency of the steps",
        busy_us=max(transfer_us, best.latency_us),
        provenance=_constants(best, comm),
        alternatives=tuple(Alternative(c.algorithm, c.protocol, c.time_us) for c in ranked[1:]),
        notes=("ring and tree only (no NVLS, CollNet or PAT)",),
    )


def _bottleneck(comm: Communicator) -> str:
    return comm.intra if comm.nodes == 1 else "NICs"


def _constants(choice: Choice, comm: Communicator) -> tuple[Constant, ...]:
    return (
        Constant(
            f"{choice.algorithm}/{choice.protocol} latency", choice.latency_us, "µs", const.SOURCE
        ),
        Constant(
            f"{choice.algorithm}/{choice.protocol} algbw", choice.algbw_GBps, "GB/s", const.SOURCE
        ),
        Constant("channels", comm.channels, "1", const.SEARCH_SOURCE),
        Constant("ring GB/s per channel", comm.ring_GBps, "GB/s", const.SEARCH_SOURCE),
    )


def _by_links(
    request: PredictRequest, name: str, comm: Communicator, groups: Sequence[Group]
) -> Estimate:
    """all_to_all, send_recv and send: NCCL has no model for them."""
    schedules = [(_schedule(name, len(g.ranks), request.size_bytes), g) for g in groups]
    links = on_links(schedules, request.fabric, avoid=frozenset())
    simple = const.PROTOCOLS.index("simple")
    hop = "net" if comm.nodes > 1 else comm.intra
    latency_us = const.BASE_US["ring"][simple] + const.HOP_US[hop, "ring"][simple]
    return Estimate(
        time_us=latency_us + links.latency_us + links.transfer_us,
        algorithm=schedules[0][0].algorithm,
        protocol="simple",
        bottleneck=links.busiest or "latency of the steps",
        busy_us=links.transfer_us if links.busiest else latency_us,
        provenance=(
            Constant("point-to-point latency", latency_us, "µs", const.SOURCE),
            *links.constants,
        ),
        notes=("NCCL has no model for this collective: one latency and the load on the links",),
    )


def _schedule(name: str, n: int, size_bytes: float) -> Schedule:
    if name == "send":
        return one_message(size_bytes)
    if name == "all_to_all":
        return direct_all_to_all(n, size_bytes)
    return ring_shift(n, size_bytes)
