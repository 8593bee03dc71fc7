"""The data check over all ranks: one outcome that every rank knows."""

from __future__ import annotations

from dataclasses import astuple, dataclass

from clusterlab.bench.buffers import Buffers
from clusterlab.bench.check import Found, check_call, checkable
from clusterlab.bench.control import Control
from clusterlab.bench.ops import Operation
from clusterlab.core.measurement import WrongElement
from clusterlab.core.rows import Point


@dataclass(frozen=True, slots=True)
class Outcome:
    """Wrong elements over all ranks, and the first of the lowest rank that has any."""

    wrong: int
    first: WrongElement | None


def agree(found: Found, control: Control) -> Outcome:
    """What all ranks found. Collective."""
    everyone = control.gather([float(value) for value in astuple(found)])
    first = next(
        (WrongElement(r, int(row[1]), row[2], row[3]) for r, row in enumerate(everyone) if row[0]),
        None,
    )
    return Outcome(int(sum(row[0] for row in everyone)), first)


def check_together(
    point: Point,
    buffers: Buffers,
    operation: Operation,
    rank: int,
    control: Control,
    *,
    corrupt: tuple[int, int] | None = None,
) -> Outcome | None:
    """Call once on fresh data and check every rank's; None where nothing is defined. Collective.

    ``corrupt``: (rank, index), as in BenchOptions.
    """
    if not checkable(point):
        return None
    mine = corrupt[1] if corrupt is not None and corrupt[0] == rank else None
    return agree(check_call(point, buffers, operation, rank, corrupt=mine), control)
