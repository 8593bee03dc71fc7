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
        return [max(column) for column in zip(*self.gather(values), strict=True)]

    def gather(self, values: Sequence[float]) -> list[list[float]]:
        """Every rank's values, in rank order."""
        import torch

        table = torch.zeros(self.world_size, len(values), dtype=torch.float64)
        table[self.rank] = torch.tensor(values, dtype=torch.float64)
        return cast(
            "list[list[float]]", self._summed(table.view(torch.int64)).view(torch.float64).tolist()
        )

    def share(self, data: bytes | None, source: int, length: int) -> bytes:
        """The ``length`` bytes that rank ``source`` has; the others pass None."""
        import torch

        values = list(data) if data is not None and self.rank == source else [0] * length
        return bytes(self._summed(torch.tensor(values, dtype=torch.int64)).tolist())

    def _summed(self, whole: torch.Tensor) -> torch.Tensor:
        """The sum of all ranks' int64, on the host. Where each place is 0 on all ranks but one it is that
        rank's bits. One all_reduce: it alone has every algorithm, so that NCCL_ALGO=Tree or NVLS, set to
        measure all_reduce with it, does not refuse the harness its own calls.
        """
        import torch.distributed as dist

        tensor = whole.to(self.device)
        dist.all_reduce(tensor)
        return tensor.cpu()

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
