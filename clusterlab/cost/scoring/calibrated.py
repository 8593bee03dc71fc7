"""Measured rows and a calibration: which are of its machine, which lie in its intervals. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from clusterlab.core.errors import ClusterlabError, UsageError
from clusterlab.cost.bands import BANDS, size_band
from clusterlab.cost.calibrated.machine import OtherMachineError
from clusterlab.cost.nccl.case import case_of
from clusterlab.cost.scoring.asked import Asked
from clusterlab.cost.scoring.machine import SystemDescription, description_of
from clusterlab.cost.scoring.measured import MeasuredPoint
from clusterlab.cost.scoring.scored import ScoredPoint, requests
from clusterlab.topology.fabric import Fabric


@dataclass(frozen=True, slots=True)
class OfMachine:
    """``points`` of the calibrated machine (or of none that is known); ``others``: systems and their rows."""

    points: tuple[MeasuredPoint, ...]
    others: Counter[str]


def of_calibrated_machine(
    points: Sequence[MeasuredPoint], fabric: Fabric | None, asked: Asked
) -> OfMachine:
    """Those of ``points`` that ``asked.calibration`` is for.

    Raises UsageError naming both machines where none is.
    """
    alien: dict[SystemDescription, OtherMachineError | None] = {}
    kept: list[MeasuredPoint] = []
    others: Counter[str] = Counter()
    for point, request in requests(points, fabric, asked):
        description = description_of(point)
        if description not in alien and not isinstance(request, ClusterlabError):
            alien[description] = None
            try:
                case_of(request)
            except OtherMachineError as error:
                alien[description] = error
            except UsageError:
                pass  # its row says so
        if alien.get(description) is None:
            kept.append(point)
        else:
            others[point.system] += 1
    errors = [error for error in alien.values() if error is not None]
    if errors and not kept:
        raise errors[0]
    return OfMachine(tuple(kept), others)


@dataclass(frozen=True, slots=True)
class IntervalsHeld:
    """Of ``n`` rows of a collective, a size band, or all, so many percent lie in their interval."""

    group: str
    n: int
    held_pct: float


def intervals_held(scored: Sequence[ScoredPoint]) -> tuple[IntervalsHeld, ...]:
    """Of all rows that have an interval, then by collective, then by size band; empty where none has."""
    rows = [one for one in scored if one.in_interval is not None]
    groups = {"all rows": rows}
    for name in sorted({one.point.collective for one in rows}):
        groups[name] = [one for one in rows if one.point.collective == name]
    for band in BANDS:
        groups[band] = [one for one in rows if size_band(one.point.size_bytes) == band]
    return tuple(
        IntervalsHeld(name, len(found), 100 * fmean(bool(one.in_interval) for one in found))
        for name, found in groups.items()
        if found
    )
