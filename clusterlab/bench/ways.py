"""The ways to call a point: torch's calls, replays of a CUDA graph of them, NCCL's own calls."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from clusterlab.bench.buffers import Buffers
from clusterlab.bench.coalesced import coalesced, coalesced_transfers
from clusterlab.bench.control import Control
from clusterlab.bench.direct import open_direct
from clusterlab.bench.graphs import captured
from clusterlab.bench.groups import Groups, Seat, whole_run
from clusterlab.bench.ops import Call, Operation, bind
from clusterlab.bench.options import BenchOptions
from clusterlab.bench.timing import Timer, timer_for
from clusterlab.bench.transfers import ring_shift
from clusterlab.core.rows import Point

if TYPE_CHECKING:
    import torch

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Bound:
    """One point's calls on this rank. ``operation``: one call, as it is warmed up; ``timed``: what is timed,
    a group of calls where they are aggregated; ``checked``: one call in the way that is timed.
    """

    operation: Operation
    timed: Call
    checked: Operation
    calls_per_graph: int | None = None


@dataclass(frozen=True, slots=True)
class Way:
    """How points of one timing mode are called.

    ``bind`` makes the calls of a seat, on one place of memory after the other. ``fix``, once they have been
    made and connections stand, puts them into graphs of so many, where the mode does. ``inside`` is entered
    around all of a step; ``close`` ends the way when the sweep is over. ``least_warmup`` are calls that must
    come first.
    """

    bind: Callable[[Seat, Sequence[Buffers]], Bound]
    timer: Timer
    fix: Callable[[Bound, int | None], Bound] = lambda bound, _per_graph: bound
    inside: Callable[[], AbstractContextManager[object]] = nullcontext
    close: Callable[[], object] = lambda: None
    least_warmup: int = 0


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a way is made from: who is in which group, where the data is, how to call."""

    points: tuple[Point, ...]
    groups: Groups
    control: Control
    options: BenchOptions

    @property
    def device(self) -> torch.device:
        """Where the data is."""
        return self.control.device


def open_ways(
    points: Iterable[Point], groups: Groups, control: Control, options: BenchOptions
) -> dict[str, Way]:
    """A Way for every timing mode among ``points``; ``support.refuse_ways`` has let them pass. Collective."""
    makers = {"eager": _eager, "graph": _graph, "direct": _direct}
    around = Surroundings(tuple(points), groups, control, options)
    return {mode: makers[mode](around) for mode in dict.fromkeys(p.timing for p in around.points)}


def _eager(around: Surroundings) -> Way:
    """One torch.distributed call after the other, on the current stream."""
    return Way(_torch_calls(around, _by_torch), timer_for(around.device))


def _by_torch(seat: Seat, buffers: Buffers, around: Surroundings) -> Operation:
    return bind(seat.point, buffers, seat.rank, around.groups.of(seat.point))


def _torch_calls(
    around: Surroundings, one: Callable[[Seat, Buffers, Surroundings], Operation]
) -> Callable[[Seat, Sequence[Buffers]], Bound]:
    """A Way's ``bind`` of torch's calls, each of which is ``one``'s."""
    many, device = around.options.aggregated, around.device

    def bound(seat: Seat, places: Sequence[Buffers]) -> Bound:
        point, group = seat.point, around.groups.of(seat.point)
        operations = [one(seat, buffers, around) for buffers in places]
        if many == 1:
            calls = [operation.call for operation in operations]
        elif point.collective in ("send_recv", "send"):
            calls = [coalesced_transfers(seat, some, group) for some in in_groups(places, many)]
        else:
            calls = [
                coalesced([each.call for each in some], point.collective, group, device)
                for some in in_groups(operations, many)
            ]
        return Bound(operations[0], _timed(calls, around), operations[0])

    return bound


def _in_graph(seat: Seat, buffers: Buffers, around: Surroundings) -> Operation:
    """As eager but for a shift over all ranks of a group, which stays on the graph's stream."""
    point, group = seat.point, around.groups.of(seat.point)
    alone = group is not None or whole_run(point, around.control.world_size)
    if point.collective == "send_recv" and alone:
        return Operation(ring_shift(point, buffers, seat.rank, group), lambda: None)
    return _by_torch(seat, buffers, around)


def _graph(around: Surroundings) -> Way:
    """Replays of a CUDA graph of torch's calls, captured and replayed on a stream of its own."""
    stream = _new_stream(around.device)

    def fixed(bound: Bound, per_graph: int | None) -> Bound:
        assert per_graph is not None, "a graph has calls"
        graph = captured(bound.timed, per_graph, stream)
        once = captured(bound.operation.call, 1, stream)
        for replay in (graph, once):  # the first replay of a graph carries it to the GPU
            replay()
        return replace(
            bound,
            timed=graph,
            checked=Operation(once, bound.operation.stage),
            calls_per_graph=per_graph,
        )

    timer = timer_for(around.device, paired=True)
    return Way(_torch_calls(around, _in_graph), timer, fixed, lambda: _on(stream), least_warmup=2)


def _direct(around: Surroundings) -> Way:
    """NCCL's own calls, on communicators and a stream of our own."""
    stream = _new_stream(around.device)
    direct = open_direct(around.points, around.control, stream.cuda_stream)
    many = around.options.aggregated

    def bound(seat: Seat, places: Sequence[Buffers]) -> Bound:
        operations = [direct.bind(seat, buffers) for buffers in places]
        calls = [direct.grouped([one.call for one in some]) for some in in_groups(operations, many)]
        return Bound(operations[0], _timed(calls, around), operations[0])

    return Way(bound, timer_for(around.device), inside=lambda: _on(stream), close=direct.close)


def in_groups(items: Sequence[T], many: int) -> list[list[T]]:
    """Groups of ``many`` in turn, until every item was there once; at the end it begins again."""
    count = -(-len(items) // many)
    return [[items[(i * many + j) % len(items)] for j in range(many)] for i in range(count)]


def rotated(calls: Sequence[Call]) -> Call:
    """Each of ``calls`` in turn, over and over."""
    if len(calls) == 1:
        return calls[0]
    # No function of Python's between the loop and the call: that would be 0.1 of 10 µs.
    return partial(next, map(operator.call, itertools.cycle(calls)))


def _timed(calls: Sequence[Call], around: Surroundings) -> Call:
    """What is timed: ``calls`` in turn, the host waiting after each where it should."""
    call = rotated(calls)
    return _waited(call, around.device) if around.options.blocking else call


def _waited(call: Call, device: torch.device) -> Call:
    """``call``, and then the host waits for it."""
    import torch

    if device.type != "cuda":
        return call  # gloo returns when it is done

    def waited() -> None:
        call()
        torch.cuda.current_stream(device).synchronize()

    return waited


def _new_stream(device: torch.device) -> torch.cuda.Stream:
    import torch

    make: Callable[..., torch.cuda.Stream] = torch.cuda.Stream  # torch leaves it untyped
    return make(device)


@contextmanager
def _on(stream: torch.cuda.Stream) -> Iterator[None]:
    """On ``stream``, with nothing outstanding on others before or on it afterwards."""
    import torch

    torch.cuda.synchronize(stream.device)
    with torch.cuda.stream(stream):
        yield
    stream.synchronize()
