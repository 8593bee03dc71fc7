"""Made-up measurements: what ``predict`` says, on a machine whose constants differ as a test wants."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from random import Random

from clusterlab.cost.calibrated.build import build_calibration
from clusterlab.cost.calibrated.calibration import SourceFile, SystemCalibration
from clusterlab.cost.calibrated.parameters import moved_effects
from clusterlab.cost.calibrated.points import FitPoint, fit_point
from clusterlab.cost.effects.formula import time_us
from clusterlab.cost.types import PredictRequest, one_group
from clusterlab.topology.design.load import load_fabric
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.place import place_on

SIZES = tuple(1 << exponent for exponent in range(10, 30, 2))
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
VERSION = "2.27.5"
SOURCE = SourceFile("made up.csv", "0" * 64, 1)

fabric_of = cache(load_fabric)


def request(
    fabric: Fabric | str,
    ranks: int,
    collective: str,
    size_bytes: int,
    calibration: SystemCalibration | None = None,
    version: str | None = VERSION,
) -> PredictRequest:
    """As nccl-tests would run it."""
    found = fabric_of(fabric) if isinstance(fabric, str) else fabric
    return PredictRequest(
        found, one_group(place_on(found, ranks)), collective, size_bytes, backend="nccl",
        issue="library", library_version=version, calibration=calibration,
    )  # fmt: skip


def made_points(
    fabric: str,
    ranks: Iterable[int],
    *,
    collectives: Iterable[str] = COLLECTIVES,
    sizes: Iterable[int] = SIZES,
    taking: Callable[[PredictRequest], float],
) -> list[FitPoint]:
    """A point of each kind that took what ``taking`` says."""
    asked = [request(fabric, n, c, s) for c in collectives for n in ranks for s in sizes]
    return [fit_point(r, taking(r)) for r in asked]


def elsewhere(points: Iterable[FitPoint], **log_factors: float) -> list[FitPoint]:
    """The same calls on a machine whose constants are e^x times the class's."""
    return [
        replace(p, time_us=float(time_us(p.terms, moved_effects(p.effects, log_factors))))
        for p in points
    ]


def noisy(points: Iterable[FitPoint], *, noise: float, outliers: float = 0.0) -> list[FitPoint]:
    """Times with log-normal ``noise``; a share of ``outliers`` takes twice to five times as long."""
    rng = Random(3)
    found = []
    for p in points:
        factor = math.exp(rng.gauss(0.0, noise))
        if rng.random() < outliers:
            factor *= rng.uniform(2.0, 5.0)
        found.append(replace(p, time_us=p.time_us * factor))
    return found


def built(points: list[FitPoint], system: str = "made up") -> SystemCalibration:
    """Their calibration."""
    return build_calibration(
        points, system=system, sources=[SOURCE], date_utc="2026-11-30T12:00:00Z",
        made_by="clusterlab test",
    )  # fmt: skip


@cache
def calibration(fabric: str = "hgx-h100", ranks: tuple[int, ...] = (2, 8)) -> SystemCalibration:
    """Of a machine with slower starts and a lower plateau than its class, measured with some noise."""
    points = made_points(fabric, ranks, taking=lambda _: 1.0)
    there = elsewhere(points, base_us=0.4, hop_ll_us=0.2, rate_simple=-0.1, p2p_rate=-0.1)
    return built(noisy(there, noise=0.03))
