"""The ledger: every collective a step makes, with its bytes and when it ran.

Bytes follow nccl-tests' convention (the whole buffer for all_gather, reduce_scatter and all_to_all), so that
rates compare with the sweeps'. Times are the host's monotonic clock on CPUs and CUDA events on GPUs.

What runs beside computation ends when it ends, not when the rank comes to wait for it (completion.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from clusterlab.core.stepping import P2P, Entry, Span

if TYPE_CHECKING:
    import torch

__all__ = ["DeviceMark", "Entry", "HostMark", "Ledger", "Mark", "OpenEntry", "Span"]


class Mark(Protocol):
    """An instant that may still lie ahead."""

    def us_since(self, origin: Mark) -> float:
        """µs since ``origin``, waiting for both where needed."""
        ...


class HostMark:
    """The host's clock, now."""

    def __init__(self) -> None:
        self.ns = time.perf_counter_ns()

    def us_since(self, origin: Mark) -> float:
        """As in Mark."""
        assert isinstance(origin, HostMark)
        return (self.ns - origin.ns) / 1e3


class DeviceMark:
    """When the current stream of the GPU gets here."""

    def __init__(self) -> None:
        import torch

        self.event: torch.cuda.Event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        self.event.record()

    def us_since(self, origin: Mark) -> float:
        """As in Mark; waits for the event."""
        assert isinstance(origin, DeviceMark)
        self.event.synchronize()
        return float(origin.event.elapsed_time(self.event)) * 1e3


@dataclass(slots=True)
class OpenEntry:
    """An Entry in the making."""

    op: str
    axis: str
    ranks: tuple[int, ...]
    size_bytes: int
    dtype: str
    phase: str
    micro_batch: int | None
    start: Mark
    waited: Mark | None = None
    issued: Mark | None = None
    end: Mark | None = None
    at_most: bool = False


class Ledger:
    """One rank's. ``phase`` and ``micro_batch`` of what is recorded are set by ``during``."""

    def __init__(self, *, on_gpu: bool = False) -> None:
        self.on_gpu = on_gpu
        self._mark = DeviceMark if on_gpu else HostMark
        self._phase = "start"
        self._micro_batch: int | None = None
        self._step = -1
        self._origin: Mark | None = None
        self._open: list[OpenEntry] = []
        self._spans: list[tuple[str, int | None, Mark, Mark]] = []
        self.entries: list[Entry] = []
        self.spans: list[Span] = []

    def mark(self) -> Mark:
        """This instant, on the clock that collectives are timed by."""
        return self._mark()

    @contextmanager
    def step(self, number: int) -> Iterator[None]:
        """All that is recorded inside is of step ``number``; read when it ends. A span ``step`` covers it."""
        self._step, self._origin = number, self.mark()
        self._open.clear()
        self._spans.clear()
        try:
            yield
        finally:
            end = self.mark()
            self._settle(end)

    @contextmanager
    def during(self, phase: str, micro_batch: int | None = None) -> Iterator[None]:
        """A phase of the step, also kept as a span."""
        before = self._phase, self._micro_batch
        self._phase, self._micro_batch = phase, micro_batch
        start = self.mark()
        try:
            yield
        finally:
            self._spans.append((phase, micro_batch, start, self.mark()))
            self._phase, self._micro_batch = before

    @contextmanager
    def labelled(self, phase: str, micro_batch: int | None = None) -> Iterator[None]:
        """What is recorded inside belongs to ``phase``, which goes on or is over: no span of its own."""
        before = self._phase, self._micro_batch
        self._phase = phase
        if micro_batch is not None:
            self._micro_batch = micro_batch
        try:
            yield
        finally:
            self._phase, self._micro_batch = before

    def begin(
        self, op: str, axis: str, ranks: Sequence[int], size_bytes: int, dtype: str
    ) -> OpenEntry:
        """A collective begins now."""
        entry = OpenEntry(
            op, axis, tuple(ranks), size_bytes, dtype, self._phase, self._micro_batch, self.mark()
        )
        self._open.append(entry)
        return entry

    def issued(self, entry: OpenEntry) -> None:
        """The call has returned: the host goes on. A GPU's stream never stood still for it."""
        if self._mark is HostMark:
            entry.issued = self.mark()

    def waiting(self, entry: OpenEntry) -> None:
        """The rank goes no further until it is done: from here on it is exposed."""
        entry.waited = self.mark()

    def end(self, entry: OpenEntry) -> None:
        """It is done, or on a GPU will be when the stream gets here."""
        entry.end = self.mark()

    def seen(self, entry: OpenEntry, *, at_once: bool) -> None:
        """The rank has waited, and sees that it is done. Perhaps it was before: unless something noted its
        end, or the rank waited ``at_once``.
        """
        if entry.end is None:
            entry.at_most = not at_once
            self.end(entry)

    def _settle(self, end: Mark) -> None:
        origin = self._origin
        assert origin is not None, "inside a step"
        latest: dict[str, float] = {}
        for one in self._open:
            if one.end is None:
                one.at_most, one.end = True, end
            start_us, end_us = one.start.us_since(origin), one.end.us_since(origin)
            if one.op in P2P:
                # Posted ahead of the other side, which is waited for.
                one.at_most = True
            else:
                before = latest.get(one.axis, 0.0)
                if self.on_gpu:
                    # A communicator's calls follow each other on its stream.
                    start_us = min(max(start_us, before), end_us)
                elif start_us < before:
                    one.at_most = True  # in line for gloo's threads, for all we know
                latest[one.axis] = max(before, end_us)
            self.entries.append(
                Entry(
                    step=self._step,
                    op=one.op,
                    axis=one.axis,
                    ranks=one.ranks,
                    size_bytes=one.size_bytes,
                    dtype=one.dtype,
                    phase=one.phase,
                    micro_batch=one.micro_batch,
                    start_us=start_us,
                    end_us=end_us,
                    waited_us=None if one.waited is None else one.waited.us_since(origin),
                    issued_us=None if one.issued is None else one.issued.us_since(origin),
                    at_most=one.at_most,
                )
            )
        for name, micro_batch, start, stop in self._spans:
            self.spans.append(
                Span(self._step, name, micro_batch, start.us_since(origin), stop.us_since(origin))
            )
        self.spans.append(Span(self._step, "step", None, 0.0, end.us_since(origin)))
