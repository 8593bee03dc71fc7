"""The ways to call a point: torch's calls, replays of a CUDA graph of them, NCCL's own calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterlab.bench.buffers import Buffers
from clusterlab.bench.groups import Groups, Seat
from clusterlab.bench.ops import Call, Operation, bind
from clusterlab.bench.options import BenchOptions
from clusterlab.bench.timing import Timer, timer_for
from clusterlab.core.rows import Point

if TYPE_CHECKING:
    import torch

Bind = Callable[[Seat, Buffers], Operation]


@dataclass(frozen=True, slots=True)
class Way:
    """How points of one timing mode are called.

    ``bind`` makes the call; ``unit`` what is timed as one from it and the number of calls of a graph.
    ``inside`` is entered around all of it; ``close`` ends it when the sweep is over.
    """

    bind: Bind
    timer: Timer
    unit: Callable[[Call, int | None], Call]
    inside: Callable[[], AbstractContextManager[object]] = nullcontext
    close: Callable[[], object] = lambda: None


def open_ways(
    points: Iterable[Point], groups: Groups, device: torch.device, options: BenchOptions
) -> dict[str, Way]:
    """A Way for every timing mode among ``points``; ``support.refuse_ways`` has let them pass."""
    makers = {"eager": eager_way}
    modes = dict.fromkeys(point.timing for point in points)
    return {mode: makers[mode](groups, device, options) for mode in modes}


def eager_way(groups: Groups, device: torch.device, _options: BenchOptions) -> Way:
    """One torch.distributed call after the other."""

    def bound(seat: Seat, buffers: Buffers) -> Operation:
        return bind(seat.point, buffers, seat.rank, groups.of(seat.point))

    return Way(bound, timer_for(device), lambda call, _per_graph: call)
