"""One table's machines as a curve of times over sizes, and the same machines with one thing changed. Pure.

A ``World`` is NCCL's case (``cost/nccl/case.py``): the communicator, its graphs and the constants. A change
replaces part of it, and the whole curve follows: NCCL's choice, and the time of that choice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from clusterlab.core.collectives import collective as named
from clusterlab.cost.calibrated.calibration import SystemCalibration, calibrated_table
from clusterlab.cost.effects.constants import shipped_effects
from clusterlab.cost.effects.features import message_wire_us
from clusterlab.cost.host_overhead import LAUNCH_US
from clusterlab.cost.nccl.case import Case, case_of, groups_of
from clusterlab.cost.nccl.choice import ranked
from clusterlab.cost.nccl.communicator import Communicator
from clusterlab.cost.nccl.hindered import hindered_effects, socket_shares
from clusterlab.cost.nccl.message_links import message_limit
from clusterlab.cost.nccl.words import COLLECTIVES
from clusterlab.cost.types import PredictRequest

Curve = NDArray[np.float64]
"""µs by size, or the logarithm of them."""


@dataclass(frozen=True, slots=True)
class World:
    """``case`` of ``request``; ``wire`` the factor on messages' time on the links of this fabric."""

    request: PredictRequest
    case: Case
    wire: float = 1.0

    @property
    def comm(self) -> Communicator:
        """The machines as NCCL sees them."""
        return self.case.comm

    def with_variables(self, variables: Mapping[str, str]) -> World:
        """The same under NCCL's variables, searched anew. Raises UsageError where NCCL would stop."""
        request = replace(self.request, overrides={**self.request.overrides, **variables})
        return world_of(request)

    def with_comm(self, comm: Communicator) -> World:
        """The same constants' classes on other machines."""
        calibration = self.request.calibration
        table = (
            calibrated_table(calibration)
            if isinstance(calibration, SystemCalibration)
            else shipped_effects()
        )
        plain = self.case.plain
        effects = hindered_effects(table, comm, plain)
        case = replace(
            self.case,
            comm=comm,
            with_peers=comm,
            effects=effects,
            effects_with_peers=effects,
            sockets=socket_shares(comm, plain, effects),
        )
        return replace(self, case=case)

    def curve(self, sizes: Sequence[int]) -> Curve:
        """µs at ``sizes``, rising; not below what issuing a call takes."""
        case = self.case
        grid = _grid(sizes)
        times = [self._time_us(case, int(size)) for size in grid]
        rising = np.maximum.accumulate(np.array(times))
        floor = LAUNCH_US[self.request.issue]
        found = np.exp(np.interp(np.log(np.array(sizes, float)), np.log(grid), np.log(rising)))
        return np.asarray(np.maximum(found, floor), dtype=np.float64)

    def choices(self, sizes: Sequence[int]) -> list[tuple[str, str]]:
        """NCCL's algorithm and protocol at each size; empty words for messages."""
        case = self.case
        if case.collective not in COLLECTIVES:
            return [("", "")] * len(sizes)
        best = [self._best(case, size) for size in sizes]
        return [(one[0], one[1]) for one in best]

    def channels(self, size: int) -> int | None:
        """Channels that NCCL would give a call of ``size``; None for messages."""
        case = self.case
        if case.collective not in COLLECTIVES:
            return None
        best, *_ = ranked(
            case.collective, size, case.comm, case.overrides, dtype=case.dtype, op=case.op
        )
        return best.channels

    def _best(self, case: Case, size: int) -> tuple[str, str]:
        best, *_ = ranked(
            case.collective, size, case.comm, case.overrides, dtype=case.dtype, op=case.op
        )
        return best.algorithm, best.protocol

    def _time_us(self, case: Case, size: int) -> float:
        if case.collective in COLLECTIVES:
            return case.time_us(*self._best(case, size), size)
        return case.message_us(size, self._wire_us(case, size))

    def _wire_us(self, case: Case, size: int) -> float:
        if case.comm.nodes > 1:
            return message_wire_us(case.comm, case.collective, size) / case.nic_share("direct")
        limit = message_limit(self.request.fabric, case, size, groups_of(self.request))
        return limit.busy_us * self.wire


def world_of(request: PredictRequest) -> World:
    """The world of a request, whatever its size. Raises UsageError for what cannot be predicted."""
    return World(request, case_of(replace(request, collective=named(request.collective).name)))


def _grid(sizes: Sequence[int]) -> NDArray[np.float64]:
    """The sizes themselves, and where two are further apart than a factor of two, steps between."""
    distinct = np.unique(np.array(sizes, float))
    between = [
        np.round(2.0 ** np.arange(np.floor(np.log2(a)) + 1, np.log2(b)))
        for a, b in pairwise(distinct)
        if b > 2 * a
    ]
    return np.unique(np.concatenate([distinct, *between]))
