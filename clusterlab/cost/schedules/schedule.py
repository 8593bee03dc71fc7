"""A schedule: an algorithm as phases of flows between ranks. The centre of the cost room.

A phase is a number of equal steps. In one step all its flows run at once; the next step begins when
the slowest has arrived. A pipelined algorithm is a phase whose flows are those of the full pipe and
whose steps count filling and draining, so one rule times everything:

    time = sum over phases of  steps × (latency of a step + largest load of a link / its capacity)

Closed forms (ring: 2(n-1) steps of S/n) are what this gives on a fabric where all links are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from clusterlab.topology.parts import Link
from clusterlab.topology.routing.fluid import Crossing


@dataclass(frozen=True, slots=True)
class Flow:
    """``size_bytes`` from one rank of the group to another, once per step."""

    src: int
    dst: int
    size_bytes: float


@dataclass(frozen=True, slots=True)
class Phase:
    """``steps`` equal steps of ``flows``. ``sends`` is how many sends really happen, over all steps and
    ranks (fewer than steps × flows while a pipe fills and drains). ``reduces``: what arrives is
    combined with what is there.
    """

    name: str
    flows: tuple[Flow, ...]
    steps: int
    reduces: bool = False
    sends: int = -1

    def __post_init__(self) -> None:
        if self.sends < 0:
            object.__setattr__(self, "sends", self.steps * len(self.flows))

    @property
    def sent_bytes(self) -> float:
        """Bytes sent in the whole phase, over all ranks."""
        if not self.flows:
            return 0.0
        return self.sends * sum(f.size_bytes for f in self.flows) / len(self.flows)


@dataclass(frozen=True, slots=True)
class Schedule:
    """One collective of ``size_bytes`` (nccl-tests' size) among ``world_size`` ranks.

    ``copied_bytes`` are copied by the ranks within their own memory beside what is sent (over all
    ranks).
    """

    collective: str
    algorithm: str
    world_size: int
    size_bytes: float
    phases: tuple[Phase, ...]
    copied_bytes: float = 0.0

    @property
    def steps(self) -> int:
        """Steps one after the other: the latency terms."""
        return sum(p.steps for p in self.phases)

    @property
    def sends(self) -> int:
        """Messages, over all ranks."""
        return sum(p.sends for p in self.phases)

    @property
    def sent_bytes(self) -> float:
        """Bytes sent, over all ranks."""
        return sum(p.sent_bytes for p in self.phases)

    @property
    def reduced_bytes(self) -> float:
        """Bytes combined with a reduction, over all ranks."""
        return sum(p.sent_bytes for p in self.phases if p.reduces)


def beside(schedules: Sequence[Schedule]) -> Schedule:
    """Several of one collective at the same time as one: ranks are counted on, phases go side by side."""
    if len(schedules) == 1:
        return schedules[0]
    phases: list[Phase] = []
    for number in range(max(len(s.phases) for s in schedules)):
        first, flows, parts = 0, [], []
        for s in schedules:
            if number < len(s.phases):
                parts.append(s.phases[number])
                flows += [Flow(f.src + first, f.dst + first, f.size_bytes) for f in parts[-1].flows]
            first += s.world_size
        steps, sends = max(p.steps for p in parts), sum(p.sends for p in parts)
        phases.append(
            Phase(parts[0].name, tuple(flows), steps, any(p.reduces for p in parts), sends)
        )
    return replace(
        schedules[0],
        world_size=sum(s.world_size for s in schedules),
        phases=tuple(phases),
        copied_bytes=sum(s.copied_bytes for s in schedules),
    )


Router = Callable[[int, int], tuple[Crossing, ...]]
"""The links between two ranks of the group, with shares."""


@dataclass(frozen=True, slots=True)
class Load:
    """What one step of a phase puts on the fabric: the busiest link, and its time."""

    busiest: Link | None
    time_us: float
    latency_us: float
    unknown: frozenset[str]


def step_load(phase: Phase, router: Router) -> Load:
    """Put one step's flows on the links. Links without a known bandwidth are named in ``unknown``."""
    return load_of([(f, router(f.src, f.dst)) for f in phase.flows])


def load_of(flows: Iterable[tuple[Flow, tuple[Crossing, ...]]], counted: int | None = None) -> Load:
    """The Load of flows that run at once, each with its route: of all, or for the first ``counted``."""
    carried: dict[int, float] = {}
    links: dict[int, Link] = {}
    latency_us = 0.0
    for number, (flow, crossings) in enumerate(flows):
        mine = counted is None or number < counted
        flow_latency_us = 0.0
        for c in crossings:
            key = id(c.link)
            if mine:
                links[key] = c.link
            carried[key] = carried.get(key, 0.0) + c.share * flow.size_bytes
            flow_latency_us += c.share * (c.link.latency_us or 0.0)
        if mine:
            latency_us = max(latency_us, flow_latency_us)
    busiest, longest_us = None, 0.0
    unknown = set()
    for key, link in links.items():
        if link.capacity_GBps is None:
            unknown.add(link.name)
            continue
        time_us = carried[key] / (link.capacity_GBps * 1e3)
        if busiest is None or time_us > longest_us:
            busiest, longest_us = link, time_us
    return Load(busiest, longest_us, latency_us, frozenset(unknown))
