"""How long calls take: a whole loop without a clock inside, and each call on its own.

gloo works on the calling thread, so a monotonic clock tells its time. NCCL works on a stream, so CUDA events
on that stream tell its time, and the host waits only at the end.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from clusterlab.bench.ops import Call

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Samples:
    """What each of some calls took, and when the host began it, by its monotonic clock. Both in µs."""

    times_us: list[float]
    begun_us: list[float]


class Timer(Protocol):
    """A way to time ``call``. Times are this rank's, in microseconds."""

    def loop_us(self, call: Call, iterations: int) -> float:
        """Time of ``iterations`` calls with nothing between them, divided by ``iterations``."""
        ...

    def each(self, call: Call, iterations: int) -> Samples:
        """Each of ``iterations`` calls."""
        ...

    def finish(self) -> None:
        """Wait until everything called so far is done."""
        ...


class MonotonicTimer:
    """For calls that return when they are done."""

    def loop_us(self, call: Call, iterations: int) -> float:
        """As in Timer."""
        start_ns = time.perf_counter_ns()
        for _ in range(iterations):
            call()
        return (time.perf_counter_ns() - start_ns) / 1e3 / iterations

    def each(self, call: Call, iterations: int) -> Samples:
        """As in Timer; an iteration ends where the next begins."""
        marks_ns = [time.perf_counter_ns()]
        for _ in range(iterations):
            call()
            marks_ns.append(time.perf_counter_ns())
        return Samples(
            [(b - a) / 1e3 for a, b in itertools.pairwise(marks_ns)],
            [mark / 1e3 for mark in marks_ns[:-1]],
        )

    def finish(self) -> None:
        """Nothing is ever outstanding."""


class CudaEventTimer:
    """For calls that put work on the current stream of ``device``, or make it wait for theirs.

    ``paired``: every call has two events of its own, as replays of a graph need, which are long against
    what lies between two of them; else a call ends where the next begins. The first call of a pass is not
    timed: it wakes a GPU that had nothing to do, and it ends on all ranks at once, so that their clocks start
    together.
    """

    def __init__(self, device: torch.device, *, paired: bool = False) -> None:
        self._device = device
        self._paired = paired
        self._made: list[torch.cuda.Event] = []

    def loop_us(self, call: Call, iterations: int) -> float:
        """As in Timer; one event before the loop and one after it."""
        start, stop = self._events(2)
        call()
        start.record()
        for _ in range(iterations):
            call()
        stop.record()
        self.finish()
        return float(start.elapsed_time(stop)) * 1e3 / iterations  # elapsed_time is in ms

    def each(self, call: Call, iterations: int) -> Samples:
        """As in Timer; events are made beforehand and read afterwards."""
        events = self._events(2 * iterations if self._paired else iterations + 1)
        begun_ns = [0] * iterations
        clock = time.perf_counter_ns
        call()
        if self._paired:
            starts, stops = events[0::2], events[1::2]
            for i in range(iterations):
                begun_ns[i] = clock()
                starts[i].record()
                call()
                stops[i].record()
        else:
            starts, stops = events[:-1], events[1:]
            starts[0].record()
            for i in range(iterations):
                begun_ns[i] = clock()
                call()
                stops[i].record()
        self.finish()
        times = [a.elapsed_time(b) * 1e3 for a, b in zip(starts, stops, strict=True)]
        return Samples(times, [begun / 1e3 for begun in begun_ns])

    def finish(self) -> None:
        """Wait for the device."""
        import torch

        torch.cuda.synchronize(self._device)

    def _events(self, count: int) -> list[torch.cuda.Event]:
        """Events, kept for the next call: the driver makes one in a few µs, at its first record."""
        import torch

        make: Callable[..., torch.cuda.Event] = torch.cuda.Event  # torch leaves it untyped
        while len(self._made) < count:
            event = make(enable_timing=True)
            event.record()
            self._made.append(event)
        return self._made[:count]


def timer_for(device: torch.device, *, paired: bool = False) -> Timer:
    """The timer that fits collectives on ``device``."""
    return CudaEventTimer(device, paired=paired) if device.type == "cuda" else MonotonicTimer()
