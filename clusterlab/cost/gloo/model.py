"""The estimate for gloo: its real schedule on the host's cores and on the fabric's links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from clusterlab.cost.calibration import Calibration
from clusterlab.cost.estimate import Estimate, Group, OnLinks, on_links
from clusterlab.cost.gloo.host import (
    PLAIN_REDUCTION,
    constants_used,
    host_time,
    reduction_constant,
)
from clusterlab.cost.gloo.played import played_us
from clusterlab.cost.gloo.schedule import gloo_schedule
from clusterlab.cost.gloo.ways import gloo_ways
from clusterlab.cost.schedules.schedule import Flow, Phase, Schedule, beside
from clusterlab.cost.types import Interval, NoFigureError, PredictRequest
from clusterlab.topology.routing.fluid import ACCELERATOR_LINKS


def gloo_estimate(
    request: PredictRequest, name: str, group: Group, groups: Sequence[Group]
) -> Estimate:
    """Host part and link part run side by side: the slower one sets the time."""
    size = request.size_bytes
    schedules = [
        (gloo_schedule(name, len(g.ranks), size, root=g.root, uneven=request.uneven), g)
        for g in groups
    ]
    schedule = next(s for s, g in schedules if g is group)
    links, waits_us = _links(request, name, schedules, group)
    calibration = request.calibration
    if not isinstance(calibration, Calibration):
        return _links_only(request, schedule, links, waits_us)
    # Ranks that share a host's cores share them with the other groups' ranks too.
    shared = request.fabric.origin == "this host"
    work = beside([s for s, _ in schedules]) if shared else schedule
    host = host_time(work, calibration, request.dtype, request.op)
    link_us = links.transfer_us + waits_us + links.latency_us
    on_host = host.time_us >= link_us
    time_us = max(host.time_us, link_us)
    return Estimate(
        time_us=time_us,
        algorithm=schedule.algorithm,
        protocol=None,
        bottleneck=host.bottleneck if on_host or links.busiest is None else links.busiest,
        busy_us=host.busy_us if on_host else links.transfer_us,
        provenance=(
            *constants_used(schedule, calibration, request.dtype, request.op),
            *links.constants,
        ),
        interval=_interval(calibration, name, len(group.ranks), size, time_us),
        notes=(
            *_outside(calibration, sum(len(g.ranks) for g in groups), size),
            *_not_measured(schedule, calibration, request),
            *([] if on_host else _waits(links, waits_us)),
        ),
    )


def _links(
    request: PredictRequest, name: str, schedules: Sequence[tuple[Schedule, Group]], own: Group
) -> tuple[OnLinks, float]:
    """What the links take for the group ``own`` beside the others, and how long (µs) the busiest has
    nothing to do as ranks wait for each other.
    """
    fabric, routing = request.fabric, request.routing
    pairs: dict[tuple[str, str], None] = {}
    for schedule, group in schedules:
        for flow in (flow for phase in schedule.phases for flow in phase.flows):
            src, dst = group.devices[flow.src], group.devices[flow.dst]
            pairs[src, dst] = pairs[dst, src] = None
    ways = gloo_ways(fabric, tuple(pairs), routing)
    if routing != "adaptive" and request.uneven is None:
        groups = [group for _, group in schedules]
        call_us = played_us(
            fabric, name, groups, ways, size_bytes=request.size_bytes, routing=routing, own=own
        )
        if call_us is not None:
            at_once = [(_at_once(schedule), group) for schedule, group in schedules]
            links = on_links(at_once, fabric, avoid=ACCELERATOR_LINKS, ways=ways, of=own)
            return links, max(0.0, call_us - links.transfer_us)
    return on_links(schedules, fabric, avoid=ACCELERATOR_LINKS, ways=ways, of=own), 0.0


def _at_once(schedule: Schedule) -> Schedule:
    """The same with all its bytes under way together: what the busiest link carries in a call."""
    flows = tuple(
        Flow(f.src, f.dst, f.size_bytes * phase.sends / len(phase.flows))
        for phase in schedule.phases
        for f in phase.flows
    )
    return replace(schedule, phases=(Phase("call", flows, 1),))


def _waits(links: OnLinks, waits_us: float) -> list[str]:
    """What to say of them where they count. One rank has neither waits nor transfers."""
    if waits_us <= _WORTH_SAYING * links.transfer_us:
        return []
    share = waits_us / (links.transfer_us + waits_us)
    return [f"{share:.0%} of the time the busiest link is idle: ranks wait for each other"]


_WORTH_SAYING = 0.05


def _not_measured(
    schedule: Schedule, calibration: Calibration, request: PredictRequest
) -> list[str]:
    own = reduction_constant(request.dtype, request.op)
    if not schedule.reduced_bytes or calibration.has(own):
        return []
    return [f"{own} was not measured: {PLAIN_REDUCTION} stands for it"]


def _links_only(
    request: PredictRequest, schedule: Schedule, links: OnLinks, waits_us: float
) -> Estimate:
    if links.busiest is None and schedule.world_size > 1:
        raise NoFigureError(
            "no bandwidth is known between the ranks",
            where=f"fabric {request.fabric.name}",
            expected="figures for its links, or a calibration of this host",
        )
    notes = ["the hosts' own cost is not counted (no calibration)", *_waits(links, waits_us)]
    if links.unknown:
        shown = ", ".join(links.unknown[:3]) + (", …" if len(links.unknown) > 3 else "")
        notes.append(f"left out, bandwidth unknown: {shown}")
    return Estimate(
        time_us=links.transfer_us + waits_us + links.latency_us,
        algorithm=schedule.algorithm,
        protocol=None,
        bottleneck=links.busiest or "one rank",
        busy_us=links.transfer_us,
        provenance=links.constants,
        notes=tuple(notes),
    )


def _interval(
    calibration: Calibration, name: str, n: int, size_bytes: int, time_us: float
) -> Interval | None:
    residual = calibration.residual(name)
    if residual is None or any(_outside(calibration, n, size_bytes)):
        return None
    return Interval(time_us * residual.low, time_us * residual.high, residual.coverage)


def _outside(calibration: Calibration, n: int, size_bytes: int) -> list[str]:
    """What leaves the range that the constants were fitted on."""
    notes = []
    (low_n, high_n), (low, high) = calibration.world_sizes, calibration.sizes_bytes
    if not low_n <= n <= high_n:
        span = f"{low_n}" if low_n == high_n else f"{low_n} to {high_n}"
        notes.append(f"{n} ranks: calibrated with {span}")
    if not low <= size_bytes <= high:
        notes.append(f"{size_bytes} B: calibrated from {low} to {high} B")
    return notes
