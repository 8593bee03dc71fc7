"""How long calls take: a whole loop without a clock inside, and each call on its own.

gloo works on the calling thread, so a monotonic clock tells its time. NCCL works on a stream, so two
CUDA events on that stream tell its time, and the host waits only at the end.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from clusterlab.bench.ops import Call

if TYPE_CHECKING:
    import torch


class Timer(Protocol):
    """A way to time ``call``. Times are this rank's, in microseconds."""

    def loop_us(self, call: Call, iterations: int) -> float:
        """Time of ``iterations`` calls with nothing between them, divided by ``iterations``."""
        ...

    def each_us(self, call: Call, iterations: int) -> list[float]:
        """Time of each of ``iterations`` calls."""
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

    def each_us(self, call: Call, iterations: int) -> list[float]:
        """As in Timer; an iteration ends where the next begins."""
        marks_ns = [time.perf_counter_ns()]
        for _ in range(iterations):
            call()
            marks_ns.append(time.perf_counter_ns())
        return [(b - a) / 1e3 for a, b in itertools.pairwise(marks_ns)]

    def finish(self) -> None:
        """Nothing is ever outstanding."""


class CudaEventTimer:
    """For calls that put work on the current stream of ``device``, or make it wait for theirs."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def loop_us(self, call: Call, iterations: int) -> float:
        """As in Timer; one event before the loop and one after it."""
        start, stop = self._events(2)
        start.record()
        for _ in range(iterations):
            call()
        stop.record()
        self.finish()
        return float(start.elapsed_time(stop)) * 1e3 / iterations  # elapsed_time is in ms

    def each_us(self, call: Call, iterations: int) -> list[float]:
        """As in Timer; events are made beforehand and read afterwards."""
        events = self._events(iterations + 1)
        events[0].record()
        for event in events[1:]:
            call()
            event.record()
        self.finish()
        return [a.elapsed_time(b) * 1e3 for a, b in itertools.pairwise(events)]

    def finish(self) -> None:
        """Wait for the device."""
        import torch

        torch.cuda.synchronize(self._device)

    def _events(self, count: int) -> list[torch.cuda.Event]:
        import torch

        make: Callable[..., torch.cuda.Event] = torch.cuda.Event  # torch leaves it untyped
        return [make(enable_timing=True) for _ in range(count)]


def timer_for(device: torch.device) -> Timer:
    """The timer that fits collectives on ``device``."""
    return CudaEventTimer(device) if device.type == "cuda" else MonotonicTimer()


@dataclass(frozen=True, slots=True)
class Summary:
    """Quantiles of one sample of times, in µs. ``cv``: standard deviation over mean."""

    p50_us: float
    min_us: float
    max_us: float
    p95_us: float
    cv: float


def summarise(samples_us: Sequence[float]) -> Summary:
    """The Summary of at least one time. ``cv`` divides by n - 1 and is 0 for a single time."""
    times = sorted(samples_us)
    mean = math.fsum(times) / len(times)
    spread = 0.0
    if len(times) > 1:
        spread = math.sqrt(math.fsum((t - mean) ** 2 for t in times) / (len(times) - 1))
    return Summary(
        p50_us=quantile(times, 0.5),
        min_us=times[0],
        max_us=times[-1],
        p95_us=quantile(times, 0.95),
        cv=spread / mean if mean > 0 else 0.0,
    )


def quantile(ordered: Sequence[float], share: float) -> float:
    """The ``share`` quantile (0 to 1) of ascending values, linear between neighbours (numpy's default)."""
    at = share * (len(ordered) - 1)
    below = math.floor(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (at - below)
