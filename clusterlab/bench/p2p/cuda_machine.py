"""Copies and the kernel on this process's GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from clusterlab.bench.check import compare, corrupt_element, fill, poison
from clusterlab.bench.data import Expected, sent
from clusterlab.bench.p2p.batches import Batches, Lane, per_batch
from clusterlab.bench.p2p.plan import CopyStep, KernelStep
from clusterlab.bench.p2p.probe import Measured
from clusterlab.bench.p2p.ptx import load_bytes
from clusterlab.core.p2p import HOST, Place, Way, Wrong

if TYPE_CHECKING:
    import torch

_DTYPE = "uint8"
_ENABLING_BYTES = 256


class CudaMachine:
    """Buffers are made once, for the largest step: one to send from and one to receive in, at each place.

    What is sent is never written again; what is received is poisoned before every step.
    """

    def __init__(self, gpus: int, largest_bytes: int, batches: int, corrupt: int | None) -> None:
        """``corrupt`` spoils that byte of what arrives, to see the check catch it."""
        self._gpus = gpus
        self._largest = largest_bytes
        self._count = batches
        self._corrupt = corrupt
        self._batches = Batches()
        self._buffers: dict[tuple[Place, str], torch.Tensor] = {}
        self._streams: dict[tuple[int, str], torch.cuda.Stream] = {}
        self._enabled: set[tuple[int, int]] = set()

    def copy(self, step: CopyStep) -> Measured:
        """As in Machine."""
        way = step.way
        ways = [way, Way(way.dst, way.src)] if way.both else [way]
        received = self._ready([(w.src, w.dst) for w in ways], step.size_bytes)
        lanes = [self._copy_lane(w, step.size_bytes) for w in ways]
        times, ahead = self._batches.measure(lanes, per_batch(step.size_bytes), self._count)
        return Measured(times, ahead, self._check(received))

    def kernel(self, step: KernelStep) -> Measured:
        """As in Machine."""
        import torch

        from clusterlab.bench.p2p.sm_kernel import THREADS, WARPS, copy_kernel

        touch = step.touch
        src, dst = (touch.peer, touch.gpu) if touch.access == "load" else (touch.gpu, touch.peer)
        self._enable_access(touch.gpu, touch.peer)
        received = self._ready([(src, dst)], step.size_bytes)
        dtype = {1: torch.int8, 2: torch.int16, 4: torch.int32}.get(step.access_bytes, torch.int64)
        # Two elements of 8 bytes make an access of 16: there is no wider integer.
        tile = THREADS * max(1, step.access_bytes // 8)
        source = self._buffer(src, "send")[: step.size_bytes].view(dtype)
        target = self._buffer(dst, "recv")[: step.size_bytes].view(dtype)
        stream = self._stream(touch.gpu, "kernel")
        compiled: list[object] = []

        def launch() -> None:
            with torch.cuda.device(touch.gpu), torch.cuda.stream(stream):
                compiled[:] = [
                    copy_kernel[(step.programs,)](
                        source, target, source.numel(), TILE=tile, num_warps=WARPS
                    )
                ]

        times, ahead = self._batches.measure(
            [Lane(stream, launch)], per_batch(step.size_bytes), self._count
        )
        asm = getattr(compiled[0], "asm", {})
        return Measured(times, ahead, self._check(received), load_bytes(str(asm.get("ptx", ""))))

    def _ready(
        self, ends: Sequence[tuple[Place, Place]], size_bytes: int
    ) -> list[tuple[Place, torch.Tensor]]:
        """What arrives in this step, poisoned, each with where it comes from."""
        for src, _ in ends:
            self._buffer(src, "send")
        received = [(src, self._buffer(dst, "recv")[:size_bytes]) for src, dst in ends]
        for _, buffer in received:
            poison(buffer, _DTYPE)
        self._finish()
        return received

    def _check(self, received: Sequence[tuple[Place, torch.Tensor]]) -> Wrong | None:
        self._finish()
        for src, buffer in received:
            if self._corrupt is not None and self._corrupt < buffer.numel():
                corrupt_element(buffer, self._corrupt)
            count, first = compare(buffer, Expected(self._data(src)), 0)
            if first is not None:
                return Wrong(count, first[0], int(first[1]), int(first[2]))
        return None

    def _data(self, place: Place) -> torch.Tensor:
        """One period of what a place sends: the host's is a rank's after the GPUs'."""
        number = self._gpus if isinstance(place, str) else place
        return sent(number, self._gpus + 1, _DTYPE, None)

    def _buffer(self, place: Place, role: str) -> torch.Tensor:
        import torch

        if (place, role) not in self._buffers:
            on_host = isinstance(place, str)
            device = torch.device("cpu") if isinstance(place, str) else torch.device("cuda", place)
            buffer = torch.empty(
                self._largest, dtype=torch.uint8, device=device, pin_memory=on_host
            )
            if role == "send":
                fill(buffer, self._data(place))
            self._buffers[place, role] = buffer
        return self._buffers[place, role]

    def _copy_lane(self, way: Way, size_bytes: int) -> Lane:
        """A peer copy runs on the source's current stream, and torch makes the destination's current stream
        wait for it: both are this way's own, so that two ways do not wait for each other.
        """
        import torch

        source = self._buffer(way.src, "send")[:size_bytes]
        target = self._buffer(way.dst, "recv")[:size_bytes]
        name = f"copy {way}"
        runs_on = way.dst if isinstance(way.src, str) else way.src
        assert not isinstance(runs_on, str), "one end of a copy is a GPU"
        own = self._stream(runs_on, name)
        streams = [own]
        if HOST not in (way.src, way.dst) and not isinstance(way.dst, str) and way.dst != runs_on:
            streams.insert(0, self._stream(way.dst, name))

        def issue() -> None:
            with ExitStack() as stack:
                for stream in streams:
                    stack.enter_context(torch.cuda.stream(stream))
                target.copy_(source, non_blocking=True)

        return Lane(own, issue)

    def _stream(self, gpu: int, name: str) -> torch.cuda.Stream:
        import torch

        if (gpu, name) not in self._streams:
            make: type[torch.cuda.Stream] = torch.cuda.Stream
            self._streams[gpu, name] = make(device=torch.device("cuda", gpu))
        return self._streams[gpu, name]

    def _enable_access(self, gpu: int, peer: int) -> None:
        """Let ``gpu`` use ``peer``'s memory: torch enables it at the first copy from one to the other."""
        import torch

        if gpu == peer or (gpu, peer) in self._enabled:
            return
        little = torch.zeros(_ENABLING_BYTES, dtype=torch.uint8, device=f"cuda:{gpu}")
        little.to(f"cuda:{peer}")
        self._finish()
        self._enabled.add((gpu, peer))

    def _finish(self) -> None:
        import torch

        for gpu in range(self._gpus):
            torch.cuda.synchronize(gpu)
