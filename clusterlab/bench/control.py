"""The harness's own small exchanges between ranks, over the same process group as the measurement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Control:
    """Exchanges of a few numbers, held on ``device``. Every rank must make the same calls."""

    device: torch.device
    world_size: int

    @property
    def rank(self) -> int:
        """This process's."""
        import torch.distributed as dist

        return dist.get_rank()

    def barrier(self) -> None:
        """Return when all ranks have called and the device is idle."""
        self.largest([0.0])

    def largest(self, values: Sequence[float]) -> list[float]:
        """Element by element, the largest of all ranks' values."""
        import torch
        import torch.distributed as dist

        tensor = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(tensor, dist.ReduceOp.MAX)
        return cast("list[float]", tensor.tolist())

    def gather(self, values: Sequence[float]) -> list[list[float]]:
        """Every rank's values, in rank order."""
        import torch
        import torch.distributed as dist

        mine = torch.tensor(values, dtype=torch.float64, device=self.device)
        everyone = [torch.empty_like(mine) for _ in range(self.world_size)]
        dist.all_gather(everyone, mine)
        return [t.tolist() for t in everyone]

    def share(self, data: bytes | None, source: int, length: int) -> bytes:
        """The ``length`` bytes that rank ``source`` has; the others pass None."""
        import torch
        import torch.distributed as dist

        values = list(data) if data is not None else [0] * length
        tensor = torch.tensor(values, dtype=torch.uint8, device=self.device)
        dist.broadcast(tensor, source)
        return bytes(tensor.tolist())

    def send(self, value: float, peer: int) -> None:
        """Send one number to rank ``peer``, which receives it."""
        import torch
        import torch.distributed as dist

        tensor = torch.tensor([value], dtype=torch.float64, device=self.device)
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, tensor, peer)]):
            work.wait()

    def receive(self, peer: int) -> float:
        """The number that rank ``peer`` sends."""
        import torch
        import torch.distributed as dist

        tensor = torch.empty(1, dtype=torch.float64, device=self.device)
        for work in dist.batch_isend_irecv([dist.P2POp(dist.irecv, tensor, peer)]):
            work.wait()
        return float(tensor.item())
