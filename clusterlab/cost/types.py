"""What the cost room is asked and what it answers: PredictRequest in, Prediction out.

Everything behind these two may change; their meaning does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from clusterlab.core.placement import RankPlacement

if TYPE_CHECKING:
    from clusterlab.cost.calibration import Calibration
    from clusterlab.topology.fabric import Fabric


@dataclass(frozen=True, slots=True)
class PredictRequest:
    """One point to predict.

    ``groups`` are the process groups that run the collective at the same time (one for a plain sweep),
    each its ranks in ring order, placed on ``fabric``. ``size_bytes`` is nccl-tests' size.
    ``overrides`` are library variables that force a choice (``NCCL_ALGO``, …). ``calibration`` is None
    where only the fabric's own figures count.
    """

    fabric: Fabric
    groups: tuple[tuple[RankPlacement, ...], ...]
    collective: str
    size_bytes: int
    dtype: str = "float32"
    op: str | None = "sum"
    in_place: bool = False
    backend: str = "gloo"
    library_version: str | None = None
    overrides: Mapping[str, str] = field(default_factory=dict)
    calibration: Calibration | None = None


@dataclass(frozen=True, slots=True)
class Bound:
    """What no schedule can beat on this fabric. ``limited_by`` names the cut or the latency."""

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
class Prediction:
    """What the model says one point takes. ``time_us`` is never below ``bound.time_us``."""

    time_us: float
    algbw_GBps: float
    busbw_GBps: float
    bound: Bound
    algorithm: str
    protocol: str | None
    bottleneck: Bottleneck
    interval: Interval | None
    provenance: tuple[Constant, ...]
