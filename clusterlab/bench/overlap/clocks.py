"""How one round is timed: each side alone, then both at once, on a CPU and on a GPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from clusterlab.bench.overlap.calls import Start, Waitable, finish

if TYPE_CHECKING:
    import torch

_LEAST_ROUND_US = 2000.0
_MOST_CALLS = 20
_LAUNCH_US = 120.0
"""Host time to issue one call of both sides; generous, since torch's eager calls take about 40 µs each."""


class Clock(Protocol):
    """Times a side alone, or two sides that start together. Times are this rank's, µs a call."""

    def calls(self, alone_us: float) -> int:
        """How many calls of a side that takes ``alone_us`` make one round."""

    def alone(self, side: Start, calls: int) -> float:
        """``calls`` calls, divided by ``calls``."""

    def together(self, side: Start, other: Start, calls: int) -> tuple[float, float]:
        """When each side was done with its ``calls`` calls, counted from the common start."""

    def finish(self) -> None:
        """Wait until everything started so far is done."""

    def close(self) -> None:
        """Let go of threads."""


class HostClock:
    """For gloo: its own threads move the data, so one side runs there while the caller runs the other.

    A thread of ours waits for the collective and takes the time, since the caller is busy.
    """

    def __init__(self) -> None:
        self._waiter = ThreadPoolExecutor(1, "overlap")

    def calls(self, _alone_us: float) -> int:
        """One: gloo would run several calls of one group at once, in its two threads."""
        return 1

    def alone(self, side: Start, calls: int) -> float:
        """As in Clock."""
        start_ns = time.perf_counter_ns()
        for _ in range(calls):
            finish(side())
        return (time.perf_counter_ns() - start_ns) / 1e3 / calls

    def together(self, side: Start, other: Start, calls: int) -> tuple[float, float]:
        """As in Clock."""
        start_ns = time.perf_counter_ns()
        side_us = other_us = 0.0
        for _ in range(calls):
            done = self._waiter.submit(_finish_and_stamp, side())
            finish(other())
            other_us = (time.perf_counter_ns() - start_ns) / 1e3
            side_us = (done.result() - start_ns) / 1e3
        return side_us / calls, other_us / calls

    def finish(self) -> None:
        """Nothing is ever outstanding."""

    def close(self) -> None:
        """End the thread."""
        self._waiter.shutdown()


def _finish_and_stamp(works: Sequence[Waitable]) -> int:
    finish(works)
    return time.perf_counter_ns()


@dataclass(slots=True)
class DeviceClock:
    """For NCCL: two streams that both wait for one event, behind a product that takes longer than it
    takes the host to issue all calls. So the time is the device's, not that of the host's launches.
    """

    device: torch.device
    _streams: list[torch.cuda.Stream] = field(default_factory=list)
    _gate: Callable[[int], None] = lambda _calls: None

    def __post_init__(self) -> None:
        import torch

        make: Callable[..., torch.cuda.Stream] = torch.cuda.Stream  # torch leaves it untyped
        self._streams = [make(self.device), make(self.device)]
        self._gate = _gate(self.device)

    def calls(self, alone_us: float) -> int:
        """As many as fill 2 ms, up to 20: what begins and ends a round then counts little."""
        return max(1, min(_MOST_CALLS, round(_LEAST_ROUND_US / max(alone_us, 1.0))))

    def alone(self, side: Start, calls: int) -> float:
        """As in Clock."""
        return self._run((side,), calls)[0]

    def together(self, side: Start, other: Start, calls: int) -> tuple[float, float]:
        """As in Clock."""
        side_us, other_us = self._run((side, other), calls)
        return side_us, other_us

    def _run(self, sides: tuple[Start, ...], calls: int) -> list[float]:
        import torch

        make: Callable[..., torch.cuda.Event] = torch.cuda.Event  # torch leaves it untyped
        begin = make(enable_timing=True)
        ends = [make(enable_timing=True) for _ in sides]
        self._gate(calls)
        begin.record()
        streams = self._streams[: len(sides)]
        for stream in streams:
            stream.wait_event(begin)
        for _ in range(calls):
            for side, stream in zip(sides, streams, strict=True):
                with torch.cuda.stream(stream):
                    finish(side())
        for end, stream in zip(ends, streams, strict=True):
            end.record(stream)
        self.finish()
        return [float(begin.elapsed_time(end)) * 1e3 / calls for end in ends]  # ms to µs

    def finish(self) -> None:
        """Wait for the device."""
        import torch

        torch.cuda.synchronize(self.device)

    def close(self) -> None:
        """Nothing to end."""


def _gate(device: torch.device) -> Callable[[int], None]:
    """Keeps the device busy while the host issues so many calls of two sides."""
    import torch

    square = torch.ones((4096, 4096), dtype=torch.bfloat16, device=device)
    out = torch.empty_like(square)

    def run(times: int) -> None:
        for _ in range(times):
            torch.mm(square, square, out=out)

    run(3)
    torch.cuda.synchronize(device)
    start = time.perf_counter()
    run(10)
    torch.cuda.synchronize(device)
    product_us = (time.perf_counter() - start) * 1e6 / 10
    return lambda calls: run(1 + int((calls + 1) * _LAUNCH_US / product_us))


def clock_for(device: torch.device) -> Clock:
    """The clock that fits ``device``."""
    clock: Any = DeviceClock(device) if device.type == "cuda" else HostClock()
    chosen: Clock = clock
    return chosen
