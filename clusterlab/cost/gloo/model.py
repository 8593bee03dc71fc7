"""The estimate for gloo: its real schedule on the host's cores and on the fabric's links."""

from __future__ import annotations

from collections.abc import Sequence

from clusterlab.cost.calibration import Calibration
from clusterlab.cost.estimate import Estimate, Group, OnLinks, on_links
from clusterlab.cost.gloo.host import (
    PLAIN_REDUCTION,
    constants_used,
    host_time,
    reduction_constant,
)
from clusterlab.cost.gloo.schedule import gloo_schedule
from clusterlab.cost.schedules.schedule import Schedule
from clusterlab.cost.types import Interval, NoFigureError, PredictRequest
from clusterlab.topology.routing.fluid import ACCELERATOR_LINKS


def gloo_estimate(
    request: PredictRequest, name: str, group: Group, groups: Sequence[Group]
) -> Estimate:
    """Host part and link part run side by side: the slower one sets the time."""
    size = request.size_bytes
    schedules = [(gloo_schedule(name, len(g.ranks), size, root=g.root), g) for g in groups]
    schedule = next(s for s, g in schedules if g is group)
    links = on_links(schedules, request.fabric, avoid=ACCELERATOR_LINKS)
    calibration = request.calibration
    if not isinstance(calibration, Calibration):
        return _links_only(request, schedule.algorithm, len(group.ranks), links)
    host = host_time(schedule, calibration, request.dtype, request.op)
    link_us = links.transfer_us + links.latency_us
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
        ),
    )


def _not_measured(
    schedule: Schedule, calibration: Calibration, request: PredictRequest
) -> list[str]:
    own = reduction_constant(request.dtype, request.op)
    if not schedule.reduced_bytes or calibration.has(own):
        return []
    return [f"{own} was not measured: {PLAIN_REDUCTION} stands for it"]


def _links_only(request: PredictRequest, algorithm: str, n: int, links: OnLinks) -> Estimate:
    if links.busiest is None and n > 1:
        raise NoFigureError(
            "no bandwidth is known between the ranks",
            where=f"fabric {request.fabric.name}",
            expected="figures for its links, or a calibration of this host",
        )
    notes = ["the hosts' own cost is not counted (no calibration)"]
    if links.unknown:
        shown = ", ".join(links.unknown[:3]) + (", …" if len(links.unknown) > 3 else "")
        notes.append(f"left out, bandwidth unknown: {shown}")
    return Estimate(
        time_us=links.transfer_us + links.latency_us,
        algorithm=algorithm,
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
