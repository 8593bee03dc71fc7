"""What a backend's model answers for one group, and how flows of several groups meet on links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clusterlab.core.placement import RankPlacement
from clusterlab.cost.schedules.schedule import Flow, Load, Phase, Schedule, load_of
from clusterlab.cost.types import Alternative, Constant, Interval
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.routing.fluid import Crossing, route

Ways = Mapping[tuple[str, str], tuple[Crossing, ...]]
"""The links from a device to another, in the order of crossing, with shares."""


@dataclass(frozen=True, slots=True)
class Group:
    """Ranks of one process group in ring order, their end points on the fabric, the root's index."""

    ranks: tuple[RankPlacement, ...]
    devices: tuple[str, ...]
    root: int


@dataclass(frozen=True, slots=True)
class Estimate:
    """A model's answer before it is compared with the bound.

    ``bottleneck`` is busy for ``busy_us`` of ``time_us``. ``library_time_us`` is the library's own estimate.
    ``outside``: why the interval is not known to hold.
    """

    time_us: float
    algorithm: str
    protocol: str | None
    bottleneck: str
    busy_us: float
    provenance: tuple[Constant, ...]
    interval: Interval | None = None
    alternatives: tuple[Alternative, ...] = ()
    notes: tuple[str, ...] = ()
    library_time_us: float | None = None
    outside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OnLinks:
    """What a schedule takes by the fabric's links alone: bytes over capacity, and known latencies.

    ``busiest`` is the link that holds up most of ``transfer_us``, None where no bandwidth is known;
    ``unknown`` names the links that were left out.
    """

    transfer_us: float
    latency_us: float
    busiest: str | None
    constants: tuple[Constant, ...]
    unknown: tuple[str, ...]


def on_links(
    schedules: Sequence[tuple[Schedule, Group]],
    fabric: Fabric,
    *,
    avoid: frozenset[str],
    ways: Ways | None = None,
    of: Group | None = None,
) -> OnLinks:
    """Time of schedules of equal shape that run side by side, phase by phase, sharing the links.

    ``ways`` are those of all their flows; without them bytes spread over the nearest links (``fluid``).
    ``of`` one of the groups: its own time, by the links that it crosses; None: the slowest's.
    """
    if of is not None:
        schedules = sorted(schedules, key=lambda entry: entry[1] is not of)
    transfer_us = latency_us = 0.0
    held: dict[str, float] = {}
    constants: dict[str, Constant] = {}
    unknown: set[str] = set()
    phases: Sequence[tuple[Phase, ...]] = [s.phases for s, _ in schedules]
    for index in range(max(len(p) for p in phases)):
        at_once = [(s.phases[index], g) for s, g in schedules if index < len(s.phases)]
        mine = None if of is None else int(index < len(schedules[0][0].phases))
        load, steps = _together(at_once, fabric, avoid, ways, mine)
        transfer_us += steps * load.time_us
        latency_us += steps * load.latency_us
        unknown |= load.unknown
        if load.busiest is not None:
            link = load.busiest
            held[link.name] = held.get(link.name, 0.0) + steps * load.time_us
            constants[link.name] = Constant(
                f"{link.name} {link.link_class}",
                link.capacity_GBps or 0.0,
                "GB/s",
                link.GBps_source,
            )
    busiest = max(held, key=lambda name: held[name]) if held else None
    return OnLinks(
        transfer_us,
        latency_us,
        busiest,
        tuple(constants.values()),
        tuple(sorted(unknown)),
    )


def _together(
    at_once: Sequence[tuple[Phase, Group]],
    fabric: Fabric,
    avoid: frozenset[str],
    ways: Ways | None,
    first: int | None,
) -> tuple[Load, int]:
    """The load of one step of all these phases, and the most steps any of them has. ``first`` so many of
    them count, the others are beside them; None: all.
    """
    flows: list[tuple[Flow, tuple[Crossing, ...]]] = []
    counted = 0
    for number, (phase, group) in enumerate(at_once):
        for f in phase.flows:
            src, dst = group.devices[f.src], group.devices[f.dst]
            flows.append((f, ways[src, dst] if ways else route(fabric, src, dst, avoid=avoid)))
        if first is None or number < first:
            counted = len(flows)
    steps = max((phase.steps for phase, _ in at_once[:first]), default=0)
    return load_of(flows, counted), steps
