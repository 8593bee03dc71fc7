"""What the cost room is asked and what it answers: PredictRequest in, Prediction out.

Everything behind these two may change; their meaning does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from clusterlab.core.errors import UsageError
from clusterlab.core.placement import Placement, RankPlacement

if TYPE_CHECKING:
    from clusterlab.cost.calibrated.calibration import SystemCalibration
    from clusterlab.cost.calibration import Calibration
    from clusterlab.cost.flows.crossing import Routing
    from clusterlab.topology.fabric import Fabric

Issue = Literal["eager", "graph", "library"]
"""How calls are issued: torch call by call, captured in a graph, or the library called directly (as
nccl-tests does). Below about 1 MiB an eager loop measures the host's launch cost, not the fabric."""


class NoFigureError(UsageError):
    """The fabric says nothing from which a time between these ranks could be had."""


@dataclass(frozen=True, slots=True)
class PredictRequest:
    """One point to predict.

    ``groups`` are the process groups that run the collective at the same time (one for a plain sweep),
    each its ranks in ring order, placed on ``fabric`` (RankPlacement.device names the end point; see
    topology.place). ``size_bytes`` is nccl-tests' size; ``op`` and ``root`` are None where they mean
    nothing. ``overrides`` are library variables that force a choice (``NCCL_ALGO``, …).
    ``routing`` is how switches choose among equal ways. ``calibration`` is of a host's cores for gloo, of
    a system for NCCL, None where only the fabric's own figures and its classes' constants count.
    ``uneven`` names how the parts of an all_to_all_v differ (core.uneven).
    """

    fabric: Fabric
    groups: tuple[tuple[RankPlacement, ...], ...]
    collective: str
    size_bytes: int
    dtype: str = "float32"
    op: str | None = "sum"
    root: int | None = 0
    in_place: bool = False
    backend: str = "gloo"
    issue: Issue = "eager"
    library_version: str | None = None
    overrides: Mapping[str, str] = field(default_factory=dict)
    routing: Routing = "adaptive"
    calibration: Calibration | SystemCalibration | None = None
    uneven: str | None = None


def one_group(placement: Placement) -> tuple[tuple[RankPlacement, ...], ...]:
    """``groups`` for a plain sweep: all ranks, in rank order."""
    return (placement.ranks,)


@dataclass(frozen=True, slots=True)
class Bound:
    """What no schedule can beat on this fabric. ``limited_by`` names the cut or the latency.

    ``busbw_GBps`` is infinite where nothing known limits the collective (time_us 0).
    """

    time_us: float
    busbw_GBps: float
    limited_by: str


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """The resource that sets the time, and the share of its capacity in use (0 to 1)."""

    name: str
    utilisation: float


@dataclass(frozen=True, slots=True)
class Interval:
    """Times (µs) between which the measurement is expected, and what share of points that held for."""

    low_us: float
    high_us: float
    coverage: float


@dataclass(frozen=True, slots=True)
class Constant:
    """One number a prediction used: where it came from is part of the answer."""

    name: str
    value: float
    unit: str
    source: str


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another way the library could have gone, and what it would take."""

    algorithm: str
    protocol: str | None
    time_us: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the model says one point takes. ``time_us`` is never below ``bound.time_us``.

    ``alternatives`` are the other algorithms × protocols the model weighed, fastest first. ``notes``
    say what the reader must know: figures left out because they are unknown, a size outside what the
    calibration saw. ``library_time_us`` is what the library's own model says for the same choice; None
    where it has none. ``outside``: why the interval is not known to hold here.
    """

    time_us: float
    algbw_GBps: float
    busbw_GBps: float
    bound: Bound
    algorithm: str
    protocol: str | None
    bottleneck: Bottleneck
    interval: Interval | None
    provenance: tuple[Constant, ...]
    alternatives: tuple[Alternative, ...] = ()
    notes: tuple[str, ...] = ()
    library_time_us: float | None = None
    outside: tuple[str, ...] = ()
