"""A stage of torch's pipelines that says what it computes, and what its messages belong to."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage

from clusterlab.trainers.ledger import Ledger


class NotedStage(PipelineStage):
    """The ledger has a span of each thing it computes; ``labels`` say what its messages belong to."""

    ledger: Ledger
    labels: dict[int, tuple[str, int]]

    def forward_one_chunk(self, fwd_chunk_id: int, *args: Any, **more: Any) -> Any:
        with self.ledger.during("forward", fwd_chunk_id):
            return super().forward_one_chunk(fwd_chunk_id, *args, **more)

    def backward_one_chunk(self, bwd_chunk_id: int, *args: Any, **more: Any) -> Any:
        with self.ledger.during("backward", bwd_chunk_id):
            return super().backward_one_chunk(bwd_chunk_id, *args, **more)

    def backward_weight_one_chunk(self, bwd_chunk_id: int, *args: Any, **more: Any) -> Any:
        with self.ledger.during("backward", bwd_chunk_id):
            return super().backward_weight_one_chunk(bwd_chunk_id, *args, **more)

    def get_fwd_recv_ops(self, fwd_chunk_id: int) -> list[dist.P2POp]:
        return self._labelled("forward", fwd_chunk_id, super().get_fwd_recv_ops(fwd_chunk_id))

    def get_fwd_send_ops(self, fwd_chunk_id: int) -> list[dist.P2POp]:
        return self._labelled("forward", fwd_chunk_id, super().get_fwd_send_ops(fwd_chunk_id))

    def get_bwd_recv_ops(self, bwd_chunk_id: int) -> list[dist.P2POp]:
        return self._labelled("backward", bwd_chunk_id, super().get_bwd_recv_ops(bwd_chunk_id))

    def get_bwd_send_ops(self, bwd_chunk_id: int) -> list[dist.P2POp]:
        return self._labelled("backward", bwd_chunk_id, super().get_bwd_send_ops(bwd_chunk_id))

    def _labelled(self, phase: str, micro_batch: int, ops: list[dist.P2POp]) -> list[dist.P2POp]:
        self.labels.update({id(op.tensor): (phase, micro_batch) for op in ops})
        return ops
