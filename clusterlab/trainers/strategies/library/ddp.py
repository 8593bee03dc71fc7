"""Data parallelism by torch's own DistributedDataParallel; beside it the explicit form, strategies/dp.py.

      model ──── DistributedDataParallel ──── forward of a micro-batch
                 │  its Reducer hooks every parameter, fills buckets and calls
                 └─ hook(bucket): all_reduce, with an entry in the ledger; gradients are views of the bucket

Torch would divide by the number of ranks; ours are parts of one sum, so the hook only adds. Micro-batches but
the last go under ``no_sync``. The first step has one bucket of all; from the second on they are laid out in
the order in which gradients came (torch's Reducer::rebuild_buckets), which is that of the explicit form.
Parameters start as rank 0's by a broadcast of torch's own, which the ledger does not see.
"""

# No ``from __future__ import annotations``: register_comm_hook compares the hook's annotations with classes.

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from clusterlab.trainers.axis import noted
from clusterlab.trainers.model import Transformer
from clusterlab.trainers.step import LocalUpdate, OnRank


class TorchDdpUpdate(LocalUpdate):
    """Around ``model``: call it by ``forward_of``."""

    def __init__(
        self, rank: OnRank, model: Transformer, parameters: Mapping[str, nn.Parameter]
    ) -> None:
        super().__init__(parameters)
        self._axis, self._last = rank.axes["dp"], False
        self._waited: list[Any] = []
        self._module = DistributedDataParallel(
            model,
            process_group=self._axis.group,
            bucket_cap_mb=rank.setup.train.bucket_bytes / 2**20,
            gradient_as_bucket_view=True,
        )
        self._module.register_comm_hook(None, self._add)

    def begin(self) -> None:
        """As in Update."""
        super().begin()
        self._last = False

    def last_backward(self) -> None:
        """As in Update."""
        self._last = True

    def forward_of(self, model: Transformer) -> Callable[[torch.Tensor], torch.Tensor]:
        """As in Update: through torch's wrapper."""
        assert self._module.module is model, "the model it was made for"
        return self._forward

    def _forward(self, x: torch.Tensor) -> torch.Tensor:
        with nullcontext() if self._last else self._module.no_sync():
            y: torch.Tensor = self._module(x)
        return y

    def _add(self, _state: None, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        axis, buffer = self._axis, bucket.buffer()
        ledger = axis.ledger
        entry = noted(axis, "all_reduce", buffer)
        work = dist.all_reduce(buffer, group=axis.group, async_op=True)
        assert work is not None, "asynchronous"
        ledger.issued(entry)
        self._waited.append(entry)
        if bucket.is_last():
            # Every gradient is made; what is still under way is waited for.
            for one in self._waited:
                ledger.waiting(one)
            self._waited.clear()

        def done(future: torch.futures.Future[list[torch.Tensor]]) -> torch.Tensor:
            ledger.end(entry)
            return future.value()[0]

        summed: torch.futures.Future[torch.Tensor] = work.get_future().then(done)
        return summed
