"""Times of operations on streams: batches that the host has queued before the GPU begins them.

A peer copy through torch costs the host some 20 µs, more than the copy of a mebibyte takes. So a stretch of
other work goes first, and a batch is queued while that runs; whether it was is looked at, not assumed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

_LEAD_BYTES = 64 << 20
_MOST_LEAD = 4096  # fills of 64 MiB: 0.1 to 0.3 s
_BATCH_BYTES = 64 << 20
_MOST_PER_BATCH = 16


@dataclass(frozen=True, slots=True)
class Lane:
    """Operations of one direction: ``issue`` puts one on ``stream``."""

    stream: torch.cuda.Stream
    issue: Callable[[], None]


def per_batch(size_bytes: int) -> int:
    """Operations in a batch: some 64 MiB, 1 to 16 operations."""
    return max(1, min(_MOST_PER_BATCH, _BATCH_BYTES // max(1, size_bytes)))


class Batches:
    """Times batches; the lead's length is learnt and kept."""

    def __init__(self) -> None:
        self._lead: dict[torch.device, torch.Tensor] = {}
        self._fills = 16

    def measure(self, lanes: Sequence[Lane], count: int, batches: int) -> tuple[list[float], bool]:
        """µs per operation of each batch of ``count`` on the slowest lane, and whether the host kept ahead.

        All lanes begin at once. The first batch is not counted.
        """
        self._batch(lanes, count)
        while True:
            found = [self._batch(lanes, count) for _ in range(batches)]
            ahead = all(kept for _, kept in found)
            if ahead or self._fills >= _MOST_LEAD:
                return [time_us for time_us, _ in found], ahead
            self._fills *= 4

    def _batch(self, lanes: Sequence[Lane], count: int) -> tuple[float, bool]:
        import torch

        event: Callable[..., torch.cuda.Event] = torch.cuda.Event  # torch leaves it untyped
        first = lanes[0].stream
        go = event()
        with torch.cuda.stream(first):
            lead = self._buffer(first.device)
            for _ in range(self._fills):
                lead.zero_()
            go.record(first)
        marks = []
        for lane in lanes:
            lane.stream.wait_event(go)
            with torch.cuda.device(lane.stream.device):
                start, stop = event(enable_timing=True), event(enable_timing=True)
                start.record(lane.stream)
            marks.append((start, stop))
        for _ in range(count):  # in turn, so that no lane waits for another's whole batch
            for lane in lanes:
                lane.issue()
        for lane, (_, stop) in zip(lanes, marks, strict=True):
            with torch.cuda.device(lane.stream.device):
                stop.record(lane.stream)
        passed: Callable[[], bool] = go.query  # untyped, too
        ahead = not passed()
        for _, stop in marks:
            stop.synchronize()
        slowest_ms = max(float(start.elapsed_time(stop)) for start, stop in marks)
        return slowest_ms * 1e3 / count, ahead

    def _buffer(self, device: torch.device) -> torch.Tensor:
        import torch

        if device not in self._lead:
            self._lead[device] = torch.empty(_LEAD_BYTES, dtype=torch.uint8, device=device)
        return self._lead[device]
