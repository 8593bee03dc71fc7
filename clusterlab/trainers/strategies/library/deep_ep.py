"""Expert parallelism by DeepEP, a library of GPU kernels for it (github.com/deepseek-ai/DeepEP).

Its dispatch takes a token once to every rank that has one of its experts, with their weights; its combine
sums what those ranks make of it on the way back. So each rank weighs and sums what its own experts say::

    x_TH, experts_TK, weights_TK ══ dispatch ══ x_RH, experts_RK (-1: not here), weights_RK
    out_TH                       ══ combine  ══ Σ weight · expert(x)_RH

Backward of dispatch is a combine and that of combine a dispatch, by the same handle. Calls are those that
docs/legacy.md there has for training (class Buffer), tried with a stand-in only. The ledger has both as
all_to_all_v of the rows they carry; weights and indices, a few bytes a token, are not counted.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch

from clusterlab.core.errors import UsageError
from clusterlab.trainers.axis import Axis
from clusterlab.trainers.config import Setup
from clusterlab.trainers.model import Experts
from clusterlab.trainers.moe import Routing, combine, experts_of, run_experts


class DeepEp:
    """The ``exchange`` of strategies/ep.py by the library; refused where that is missing or cannot."""

    def __init__(self, setup: Setup, axis: Axis) -> None:
        Buffer = imported(setup).Buffer
        self._axis, self._top_k = axis, setup.model.top_k
        row_bytes, ranks = setup.model.hidden * 2, axis.size
        configs = (Buffer.get_dispatch_config(ranks), Buffer.get_combine_config(ranks))
        self.buffer = Buffer(
            axis.group,
            max(config.get_nvl_buffer_size_hint(row_bytes, ranks) for config in configs),
            max(config.get_rdma_buffer_size_hint(row_bytes, ranks) for config in configs),
        )

    def exchange(
        self, x_TH: torch.Tensor, routing: Routing, experts: Experts
    ) -> tuple[torch.Tensor, list[int]]:
        """The mixture over the ranks, and how many tokens went to each."""
        E, expert = len(routing.each), experts_of(routing, x_TH.device)
        weight_TE = x_TH.new_zeros(x_TH.shape[0], E)
        weight_TE = weight_TE.index_put((routing.token, expert), routing.weight)
        weight_TK, expert_TK = weight_TE.topk(self._top_k)
        expert_TK = expert_TK.where(weight_TK > 0, -1)
        dispatched: tuple[Any, ...] = _Dispatch.apply(  # type: ignore[no-untyped-call]
            x_TH, weight_TK.float(), expert_TK, E, self
        )
        x_RH, weight_RK, expert_RK, handle, sent = dispatched
        row, k = (expert_RK >= 0).nonzero(as_tuple=True)
        order = torch.argsort(expert_RK[row, k], stable=True)
        row, k = row[order], k[order]
        each = torch.bincount(expert_RK[row, k], minlength=E // self._axis.size).tolist()
        y_CH = run_experts(x_RH.index_select(0, row), each, experts)
        own = Routing(row, weight_RK[row, k].to(x_RH.dtype), tuple(each), 0)
        out_TH: torch.Tensor = _Combine.apply(  # type: ignore[no-untyped-call]
            combine(y_CH, own, x_RH), handle, sum(sent), self
        )
        return out_TH, sent

    def call(self, method: str, x: torch.Tensor, sent: int, *handle: Any, **how: Any) -> Any:
        """``dispatch`` or ``combine``, in the ledger; ``sent`` tokens go from this rank and come back."""
        axis = self._axis
        dtype = str(x.dtype).removeprefix("torch.")
        entry = axis.ledger.begin("all_to_all_v", axis.name, axis.ranks, 0, dtype)
        axis.ledger.waiting(entry)
        said = getattr(self.buffer, method)(x.contiguous(), *handle, **how)
        axis.ledger.end(entry)
        arrived = said[0] if method == "dispatch" else x
        entry.size_bytes = max(sent, arrived.shape[0]) * x.shape[1] * x.element_size()
        return said


def imported(setup: Setup) -> Any:
    """The library. Raises UsageError where it is not installed, or cannot do what ``setup`` wants."""
    try:
        library = import_module("deep_ep")
    except ImportError as missing:
        raise UsageError(
            f"deep_ep cannot be imported ({missing})", where="expert_backend",
            expected="DeepEP in this Python environment",
            fix="install it from its repository, or take expert_backend collectives",
        ) from missing  # fmt: skip
    if setup.train.dtype != "bfloat16":
        raise UsageError(
            f"deep_ep with {setup.train.dtype}", where="dtype", expected="bfloat16, all it takes"
        )
    return library


class _Dispatch(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *given: Any) -> tuple[Any, ...]:
        x, weight, expert, E, by = given
        per_rank, per_node, per_expert, goes, _ = by.buffer.get_dispatch_layout(expert, E)
        sent = goes.sum(0).tolist()
        arrived, arrived_expert, arrived_weight, _, handle, _ = by.call(
            "dispatch", x, sum(sent), topk_idx=expert, topk_weights=weight,
            num_tokens_per_rank=per_rank, num_tokens_per_rdma_rank=per_node,
            is_token_in_rank=goes, num_tokens_per_expert=per_expert,
        )  # fmt: skip
        ctx.by, ctx.handle, ctx.sent = by, handle, sum(sent)
        ctx.mark_non_differentiable(arrived_expert)
        return arrived, arrived_weight, arrived_expert, handle, sent

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[Any, ...]:
        of_x, of_weight, _ = ctx.by.call(
            "combine", grads[0], ctx.sent, ctx.handle, topk_weights=grads[1].contiguous()
        )
        return of_x, of_weight, None, None, None


class _Combine(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, y: torch.Tensor, handle: Any, sent: int, by: DeepEp) -> torch.Tensor:
        ctx.by, ctx.handle, ctx.sent = by, handle, sent
        combined: torch.Tensor = by.call("combine", y, sent, handle)[0]
        return combined

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        return ctx.by.call("dispatch", grad, ctx.sent, handle=ctx.handle)[0], None, None, None
