"""A baseline: what each point should take, how far it may be off, and where that is known from. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from clusterlab.verdict.against.noise import Noise
from clusterlab.verdict.against.side import Side, Timed

VERSIONS = ("library_version", "driver_version", "memory")
"""What a point's time may depend on, besides the machine."""


@dataclass(frozen=True, slots=True)
class Reference:
    """One point. ``point`` holds the median over ``runs`` of their medians and of their loop times.

    ``spread`` is the standard deviation of the runs' times, relative; None of one run. ``slower`` and
    ``faster`` are shares: beyond time × (1 + slower), or below time × (1 - faster), a run is outside; None:
    no limit on that side.
    """

    point: Timed
    runs: int
    spread: float | None
    slower: float | None
    faster: float | None


@dataclass(frozen=True, slots=True)
class Made:
    """Who made it, when, and of which runs."""

    by: str
    host: str
    when_utc: str
    clusterlab: str
    runs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Baseline:
    """``tolerance`` says in words where the tolerances are from; ``stated`` is the share that somebody gave.

    ``noise`` by band is what a further run differs by; empty where tolerances were given. ``machine`` is what
    was measured (backend, gpus, layout, fabric, fabric_sha256, hardware), ``versions`` of VERSIONS; None
    where not known. ``foreign``: of another tool's file, which says less.
    """

    name: str
    made: Made
    tolerance: str
    points: tuple[Reference, ...]
    stated: float | None = None
    noise: Mapping[str, Noise] = field(default_factory=dict)
    machine: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, Any] = field(default_factory=dict)
    foreign: bool = False

    @property
    def side(self) -> Side:
        """Its points as a side of a comparison."""
        hardware = self.machine.get("hardware")
        gpus = self.machine.get("gpus")
        return Side(
            name=self.name,
            points=tuple(reference.point for reference in self.points),
            machine=None if hardware is None else tuple(hardware),
            gpus=None if gpus is None else tuple(gpus),
            fabric=self.machine.get("fabric"),
            layout=self.machine.get("layout"),
            backend=self.machine.get("backend"),
            missing=0,
            foreign=self.foreign,
        )
