"""The estimate for NCCL: its choice, and what measurements say that choice takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from clusterlab.cost.calibrated.calibration import SystemCalibration
from clusterlab.cost.calibrated.interval import Asked, interval_of, outside, unseen
from clusterlab.cost.effects.constants import Effects, chip_class, network_class
from clusterlab.cost.effects.features import Features, with_bytes
from clusterlab.cost.effects.formula import host_memory_us, time_us
from clusterlab.cost.estimate import Estimate, Group
from clusterlab.cost.host_overhead import Launch, with_launch
from clusterlab.cost.nccl.busiest import NICS, Busiest, busiest
from clusterlab.cost.nccl.case import Case, made_case
from clusterlab.cost.nccl.choice import Choice, ranked
from clusterlab.cost.nccl.communicator import Communicator
from clusterlab.cost.nccl.constants import constants_for
from clusterlab.cost.nccl.graphs.chips import UNKNOWN_CHIP
from clusterlab.cost.nccl.hindered import SOCKETS_GBps
from clusterlab.cost.nccl.message_links import message_limit
from clusterlab.cost.nccl.remarks import remarks
from clusterlab.cost.nccl.words import COLLECTIVES
from clusterlab.cost.types import Alternative, Constant, PredictRequest
from clusterlab.topology.fabric import Fabric

ONE_RANK = (
    "one rank: nothing is sent, and nothing bounds it; a copy in the GPU's memory is not counted"
)

_GRID = 4
"""Sizes per doubling at which the least time of larger ones is taken."""


def nccl_estimate(
    request: PredictRequest, name: str, group: Group, groups: Sequence[Group]
) -> Estimate:
    """NCCL's choice of algorithm and protocol, timed by ``effects/``; then the host's launch."""
    case = made_case(request, _SAME_CALLS.get(name, name), group, groups)
    comm = case.comm
    if comm.ranks == 1:
        alone = Estimate(0.0, "local", None, "one rank", 0.0, (), notes=(ONE_RANK,))
        return with_launch(alone, request.issue, measured=_launches(request))
    if name in COLLECTIVES:
        estimate = _collective(request.fabric, case, request.size_bytes)
    else:
        estimate = _messages(request, case, groups)
    if isinstance(request.calibration, SystemCalibration):
        estimate = _judged(estimate, request.calibration, request, case)
    notes = [*remarks(request, case, estimate.algorithm)]
    if request.uneven is not None:
        notes.append("the parts are taken to be equal, of the size that the busiest rank has")
    if comm.gpu == UNKNOWN_CHIP:
        notes.append(f"the GPUs' model is not said: taken for one of sm_{comm.compute_capability}")
    asked = request.library_version is not None
    note = constants_for(comm.version, comm.library).note if asked else ""
    said = (*notes, *([note] if note else []))
    return with_launch(estimate, request.issue, said, _launches(request))


def _launches(request: PredictRequest) -> tuple[tuple[Launch, ...], str]:
    calibration = request.calibration
    if isinstance(calibration, SystemCalibration):
        return calibration.launches, calibration.source
    return (), ""


def _judged(
    estimate: Estimate, calibration: SystemCalibration, request: PredictRequest, case: Case
) -> Estimate:
    """With the interval of a calibrated prediction, and what the calibration did not see."""
    comm = case.comm
    asked = Asked(
        case.collective, comm.ranks, comm.nodes, request.size_bytes,
        request.library_version, comm.host_memory, request.issue,
    )  # fmt: skip
    return replace(
        estimate,
        interval=interval_of(calibration, asked, estimate.time_us),
        notes=(*estimate.notes, *unseen(calibration, asked)),
        outside=outside(calibration, asked),
    )


def _collective(fabric: Fabric, case: Case, size_bytes: int) -> Estimate:
    choices = _ranked(case, size_bytes)
    best, *others = choices
    curve = fabric.memo.setdefault(("nccl curve", case), {})
    taken_us = _monotone_us(curve, lambda size: _chosen_us(case, size), size_bytes)
    comm = case.comm_of(best.algorithm)
    point = case.features(best.algorithm, best.protocol, size_bytes)
    limit = _or_host_memory(
        busiest(comm, case.collective, best.algorithm, size_bytes, case.nic_share(best.algorithm)),
        point,
        case.effects_of(best.algorithm),
    )
    alternatives = sorted(
        (Alternative(c.algorithm, c.protocol, _time_us(case, c, size_bytes)) for c in others),
        key=lambda other: other.time_us,
    )
    return _estimate(
        case, taken_us, best.algorithm, best.protocol, limit, point=point,
        constants=(
            Constant("NCCL's latency", best.latency_us, "µs", _tables(case.comm)),
            Constant("NCCL's algbw", best.algbw_GBps, "GB/s", _tables(case.comm)),
            Constant("channels of the call", best.channels, "1", _tables(case.comm)),
            *_graph_constants(case.comm, best.algorithm),
        ),
        alternatives=tuple(alternatives),
        library_time_us=best.time_us,
    )  # fmt: skip


def _estimate(
    case: Case,
    taken_us: float,
    algorithm: str,
    protocol: str,
    limit: Busiest,
    *,
    point: Features,
    constants: tuple[Constant, ...],
    alternatives: tuple[Alternative, ...] = (),
    library_time_us: float | None = None,
    notes: tuple[str, ...] = (),
) -> Estimate:
    effects = case.effects_of(algorithm)
    if limit.name == NICS and (cable := case.beyond.of(algorithm).cable) is not None:
        limit = replace(limit, name=cable)
    if limit.busy_us < 0.5 * taken_us:
        # No link is busy for half of it: the bytes on NCCL's channels are, or what comes before them.
        bytes_us = min(_bytes_us(point, effects), taken_us)
        by_bytes = bytes_us >= 0.5 * taken_us
        limit = (
            Busiest("rate of the channels", bytes_us)
            if by_bytes
            else Busiest("latency of the steps", taken_us - bytes_us)
        )
    return Estimate(
        time_us=taken_us,
        algorithm=algorithm,
        protocol=protocol,
        bottleneck=limit.name,
        busy_us=limit.busy_us,
        provenance=(*constants, *_effect_constants(case, algorithm)),
        alternatives=alternatives,
        notes=notes,
        library_time_us=library_time_us,
    )


def _bytes_us(point: Features, effects: Effects) -> float:
    """What the bytes add to the steps that precede them."""
    return float(time_us(point, effects) - time_us(with_bytes(point, 0.0), effects))


def _time_us(case: Case, choice: Choice, size_bytes: float) -> float:
    return case.time_us(choice.algorithm, choice.protocol, size_bytes)


def _or_host_memory(links: Busiest, point: Features, effects: Effects) -> Busiest:
    """Without peer access the copies through the host's memory often take longer than any link."""
    copies_us = float(host_memory_us(point, effects))
    return Busiest("memory of each host", copies_us) if copies_us > links.busy_us else links


TimeOf = Callable[[int], float]
"""µs of a size in bytes."""


def _monotone_us(curve: dict[int, float], time_us: TimeOf, size_bytes: int) -> float:
    """``time_us``, but no less than any smaller size takes; ``curve`` keeps what was found.

    NCCL's switch to another algorithm or protocol can make a larger buffer faster than a smaller one, and so
    can a measured correction; a buffer could be sent as the smaller one's padded copy. The least such
    curve runs through a grid of sizes, which has every power of two.
    """
    low = _grid_below(size_bytes)
    below = _envelope_us(curve, time_us, low)
    step = max(1, (1 << low.bit_length() - 1) // _GRID)
    if low == size_bytes:
        return below
    above = _envelope_us(curve, time_us, low + step)
    return below + (above - below) * (size_bytes - low) / step


def _ranked(case: Case, size_bytes: int) -> tuple[Choice, ...]:
    return ranked(
        case.collective, size_bytes, case.comm, case.overrides, dtype=case.dtype, op=case.op
    )


def _grid_below(size_bytes: int) -> int:
    step = max(1, (1 << size_bytes.bit_length() - 1) // _GRID)
    return size_bytes // step * step


def _chosen_us(case: Case, size_bytes: int) -> float:
    """The time of NCCL's choice for one size."""
    best, *_ = _ranked(case, size_bytes)
    return _time_us(case, best, size_bytes)


def _envelope_us(curve: dict[int, float], time_us: TimeOf, size_bytes: int) -> float:
    """Running maximum over the grid up to ``size_bytes``, a size of it."""
    if size_bytes in curve:
        return curve[size_bytes]
    missing = []
    size = size_bytes
    while size >= 1 and size not in curve:
        missing.append(size)
        size = _grid_below(size - 1) if size > 1 else 0
    most = curve.get(size, 0.0)
    for at in reversed(missing):
        most = max(most, time_us(at))
        curve[at] = most
    return most


def _messages(request: PredictRequest, case: Case, groups: Sequence[Group]) -> Estimate:
    """all_to_all, gather, scatter, send_recv and send, which NCCL has no model for."""
    size, comm = request.size_bytes, case.comm
    notes: tuple[str, ...] = ("NCCL itself has no model for this collective",)
    limit = message_limit(request.fabric, case, size, groups)
    wire_us = limit.busy_us
    alone = len(groups) == 1
    curve = request.fabric.memo.setdefault(("nccl curve", case), {}) if alone else {}
    point = case.message_features(size, wire_us)
    limit = _or_host_memory(limit, point, case.effects)
    return _estimate(
        case, _messages_us(curve, case, size, wire_us), _MESSAGE_ALGORITHMS[case.collective][_relayed(case)],
        point.protocol, limit, point=point, constants=_graph_constants(comm, "ring"), notes=notes,
    )  # fmt: skip


def _messages_us(curve: dict[int, float], case: Case, size_bytes: int, wire_us: float) -> float:
    """The formula rises with the size by the classes' constants; by a system's own it need not."""
    if not case.calibrated:
        return case.message_us(size_bytes, wire_us)
    return _monotone_us(
        curve, lambda at: case.message_us(at, wire_us * at / size_bytes), size_bytes
    )


def _relayed(case: Case) -> bool:
    """Whether messages to another rail go by the peer on it (PXN), which takes NVLink between them."""
    comm, off = case.comm, case.overrides.graph.pxn_disable
    joined = comm.ranks_per_node > 1 and comm.intra != "pcie"
    return comm.nodes > 1 and joined and not off


_MESSAGE_ALGORITHMS = {
    "all_to_all": ("direct", "pxn"),
    "gather": ("direct", "pxn"),
    "scatter": ("direct", "pxn"),
    "send_recv": ("ring_shift", "ring_shift"),
    "send": ("one_message", "one_message"),
    "ping_pong": ("one_message", "one_message"),
}
"""Sent straight, and by PXN."""

_SAME_CALLS = {"all_to_all_v": "all_to_all"}
"""The same sends and receives in one group."""


def _tables(comm: Communicator) -> str:
    return constants_for(comm.version, comm.library).source


def _graph_constants(comm: Communicator, algorithm: str) -> tuple[Constant, ...]:
    graph = (
        comm.graphs.get("nvls" if algorithm.startswith("nvls") else algorithm)
        or comm.graphs["ring"]
    )
    source = "NCCL's search (src/graph/search.cc)"
    found = [
        Constant("channels found", graph.channels, "1", source),
        Constant("GB/s of a channel inside a host", graph.intra_GBps, "GB/s", source),
    ]
    if comm.nodes > 1:
        found.append(Constant("GB/s of a channel between hosts", graph.inter_GBps, "GB/s", source))
    return tuple(found)


def _effect_constants(case: Case, algorithm: str) -> tuple[Constant, ...]:
    """Those of the classes, or of the calibrated system; the others stand in constants.yaml or its file."""
    k, source = case.effects_of(algorithm), case.source
    chip = chip_class(case.comm_of(algorithm))
    found = [
        Constant(f"base ({chip})", k.base_us, "µs", source),
        Constant(f"hop by LL ({chip})", k.hop_ll_us, "µs", source),
        Constant(f"hop by Simple ({chip})", k.hop_simple_us, "µs", source),
        Constant(f"share of the channels' rate ({chip})", k.rate_simple, "1", source),
    ]
    if case.comm.nvls:
        found.append(Constant(f"share of NVLS's rate ({chip})", k.nvls_rate, "1", source))
    if case.comm.nodes > 1:
        network = network_class(case.comm)
        found += [
            Constant(f"step of the network ({network})", k.network_step_us, "µs", source),
            Constant(f"share of the NICs' rate ({network})", k.network_rate, "1", source),
        ]
    for crossing in dict.fromkeys((case.beyond.ring, case.beyond.tree)):
        if crossing.cable is not None:
            name = f"share of the NICs' rate that {crossing.cable} leaves"
            found.append(Constant(name, crossing.share, "1", "the fabric's links"))
            if crossing.worst < crossing.share:
                name = "the same with the unluckiest of eight hashes"
                found.append(Constant(name, crossing.worst, "1", "the fabric's links"))
    if case.sockets.nics < 1:
        source = "measured with NCCL_NET=Socket"
        found.append(Constant("sockets of a rank carry", SOCKETS_GBps, "GB/s", source))
    return tuple(found)
