"""CudaMachine with its buffers in the host's memory and no streams: what it does with data is its own."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch

from clusterlab.bench.check import fill
from clusterlab.bench.p2p.batches import Lane
from clusterlab.bench.p2p.cuda_machine import CudaMachine
from clusterlab.core.p2p import Place


class AtOnce:
    """Batches that do their work when it is issued."""

    def measure(self, lanes: Sequence[Lane], count: int, batches: int) -> tuple[list[float], bool]:
        for _ in range(count):
            for lane in lanes:
                lane.issue()
        return [1.0] * batches, True


class CpuMachine(CudaMachine):
    """``lost`` is a way whose copies never arrive; ``enabled`` the accesses asked for."""

    def __init__(self, gpus: int, largest_bytes: int, corrupt: int | None = None) -> None:
        super().__init__(gpus, largest_bytes, 3, corrupt)
        self._batches: Any = AtOnce()
        self.lost: set[tuple[Place, Place]] = set()
        self.enabled: list[tuple[int, int]] = []

    def _buffer(self, place: Place, role: str) -> torch.Tensor:
        if (place, role) not in self._buffers:
            buffer = torch.empty(self._largest, dtype=torch.uint8)
            if role == "send":
                fill(buffer, self._data(place))
            self._buffers[place, role] = buffer
        return self._buffers[place, role]

    def _stream(self, gpu: int, name: str) -> Any:
        return (gpu, name)

    def _copy_lane(self, way: Any, size_bytes: int) -> Lane:
        lane = super()._copy_lane(way, size_bytes)
        if (way.src, way.dst) in self.lost:
            return Lane(lane.stream, lambda: None)
        return lane

    def _enable_access(self, gpu: int, peer: int) -> None:
        self.enabled.append((gpu, peer))

    def _finish(self) -> None: ...


def without_streams(monkeypatch: Any) -> None:
    monkeypatch.setattr("torch.cuda.stream", lambda _stream: nullcontext())
    monkeypatch.setattr("torch.cuda.device", lambda _device: nullcontext())
