"""Messages between two ranks that may never arrive: timed one by one, and given up after a deadline.

Under gloo a message that is given up breaks the connection of its two ranks, not the others'. Under NCCL what
hangs cannot be taken back: the rank is ``stuck``, and its process must end.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from clusterlab.bench.opening import current_device

if TYPE_CHECKING:
    import torch

_LOOK_S = 0.0005

Turn = tuple[str, ...]
"""What a rank does at once: ``send``, ``receive`` or both."""

Turns = tuple[Turn, ...]


def turns_of(backend: str, *, both: bool, first: bool) -> Turns:
    """What the ``first`` of two ranks does, or the other: all messages of one turn, then those of the next.

    Over gloo, both ways are taken in turn: on one TCP connection the acknowledgements of one direction
    wait behind the data of the other, and each gets about half.
    """
    if not both:
        return (("send",),) if first else (("receive",),)
    if backend == "nccl":
        return (("send", "receive"),)
    return (("send",), ("receive",)) if first else (("receive",), ("send",))


@dataclass
class Messenger:
    """Sends ``size_bytes`` at a time. ``broken`` are the peers a message was given up with."""

    size_bytes: int
    deadline_s: float
    broken: set[int] = field(default_factory=set)
    stuck: bool = False
    _buffers: tuple[torch.Tensor, torch.Tensor] | None = None

    def times_us(self, peer: int, calls: int, turns: Turns) -> list[list[float]] | None:
        """Of each turn the times of ``calls`` messages, after one that is not timed; None: they did not come
        through. Who sends may hand over early: what counts is the time of a rank that receives.
        """
        if self.stuck or peer in self.broken:
            return None
        end = time.monotonic() + self.deadline_s
        times: list[list[float]] = [[] for _ in turns]
        for own, turn in zip(times, turns, strict=True):
            for _ in range(calls + 1):
                began = time.perf_counter()
                if not self._once(peer, end, turn):
                    self.broken.add(peer)
                    return None
                own.append((time.perf_counter() - began) * 1e6)
        return [own[1:] for own in times]

    def _once(self, peer: int, end: float, turn: Turn) -> bool:
        import torch.distributed as dist

        out, back = self._tensors()
        batch = [
            dist.P2POp(dist.isend, out, peer)
            if what == "send"
            else dist.P2POp(dist.irecv, back, peer)
            for what in turn
        ]
        try:
            works = dist.batch_isend_irecv(batch)
            if out.device.type == "cuda":
                return self._finished(works, end)
            return all(
                work.wait(timedelta(seconds=max(0.001, end - time.monotonic()))) for work in works
            )
        except (
            RuntimeError
        ):  # given up, or the connection is gone: torch has one type for all of it
            return False

    def _finished(self, works: list[Any], end: float) -> bool:
        import torch

        for work in works:
            work.wait()
        stream = torch.cuda.current_stream()
        while not stream.query():
            if time.monotonic() > end:
                self.stuck = True
                return False
            time.sleep(_LOOK_S)
        return True

    def _tensors(self) -> tuple[torch.Tensor, torch.Tensor]:
        if self._buffers is None:
            import torch

            kind: dict[str, Any] = {"dtype": torch.uint8, "device": current_device()}
            self._buffers = (
                torch.ones(self.size_bytes, **kind),
                torch.zeros(self.size_bytes, **kind),
            )
        return self._buffers
