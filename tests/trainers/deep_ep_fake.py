"""DeepEP's Buffer as its documents describe it, by gloo: for tests of what is built on it, on CPUs.

Not the library: what its kernels do, and whether its calls are still these, only a GPU machine with it shows.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist


class Config:
    """Sizes of buffers, which nothing here needs."""

    def get_nvl_buffer_size_hint(self, row_bytes: int, ranks: int) -> int:
        return row_bytes * ranks

    def get_rdma_buffer_size_hint(self, _row_bytes: int, _ranks: int) -> int:
        return 0


class Buffer:
    """dispatch: a token once to each rank that has one of its experts; combine: their sum."""

    def __init__(self, group: Any, _nvl_bytes: int, _rdma_bytes: int) -> None:
        self.group, self.ranks, self.rank = group, group.size(), group.rank()

    @staticmethod
    def get_dispatch_config(_ranks: int) -> Config:
        return Config()

    get_combine_config = get_dispatch_config

    def get_dispatch_layout(self, topk_idx: torch.Tensor, num_experts: int) -> tuple[Any, ...]:
        chosen = topk_idx[topk_idx >= 0]
        per_expert = torch.bincount(chosen, minlength=num_experts)
        rank = torch.div(topk_idx, num_experts // self.ranks, rounding_mode="floor")
        goes = torch.stack([((rank == r) & (topk_idx >= 0)).any(1) for r in range(self.ranks)], 1)
        return goes.sum(0), None, per_expert, goes, None

    def dispatch(
        self, x: torch.Tensor, handle: Any = None, topk_idx: Any = None, topk_weights: Any = None,
        num_tokens_per_rank: Any = None, num_tokens_per_rdma_rank: Any = None,
        is_token_in_rank: Any = None, num_tokens_per_expert: Any = None,
    ) -> tuple[Any, ...]:  # fmt: skip
        if handle is not None:
            token, sends, receives, _ = handle
            return self._go(x[token], sends, receives), None, None, None, None, None
        assert topk_weights.dtype == torch.float32, "DeepEP takes float32 weights only"
        assert num_tokens_per_rdma_rank is None, "no RDMA inside a node"
        _, token = is_token_in_rank.T.nonzero(as_tuple=True)
        sends = num_tokens_per_rank.tolist()
        told = self._go(num_tokens_per_rank, [1] * self.ranks, [1] * self.ranks)
        receives = told.tolist()
        expert = self._go(topk_idx[token], sends, receives)
        own = len(num_tokens_per_expert) // self.ranks
        here = torch.div(expert, own, rounding_mode="floor") == self.rank
        expert = torch.where(here, expert - self.rank * own, -1)
        weight = self._go(topk_weights[token], sends, receives) * here
        handle = token, sends, receives, len(x)
        return self._go(x[token], sends, receives), expert, weight, [], handle, None

    def combine(self, x: torch.Tensor, handle: Any, topk_weights: Any = None) -> tuple[Any, ...]:
        token, sends, receives, tokens = handle
        summed = [
            part.new_zeros(tokens, *part.shape[1:]).index_add(
                0, token, self._go(part, receives, sends)
            )
            for part in (x, topk_weights)
            if part is not None
        ]
        return summed[0], summed[1] if topk_weights is not None else None, None

    def _go(self, rows: torch.Tensor, sends: list[int], receives: list[int]) -> torch.Tensor:
        got = rows.new_empty(sum(receives), *rows.shape[1:])
        dist.all_to_all_single(got, rows.contiguous(), receives, sends, group=self.group)
        return got
