"""A mixture of experts on one rank: which expert takes which token, with what weight.

Top-k of the router's softmax, the k weights renormalised (as in Mixtral). With a capacity an expert takes
its first tokens in order of sample and position; the rest of its choices are dropped, not rerouted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from clusterlab.trainers.model import Block


@dataclass(frozen=True, slots=True)
class Routing:
    """``token`` and ``weight`` of every choice that is kept, by expert and then by token; ``counts`` of each
    expert; how many choices were ``dropped``.
    """

    token: torch.Tensor
    weight: torch.Tensor
    counts: torch.Tensor
    dropped: int


def route(x_TH: torch.Tensor, block: Block) -> Routing:
    """The choices of tokens ``x_TH``."""
    model = block.model
    probability_TE = torch.softmax(block.router(x_TH), dim=-1)
    weight_TK, expert_TK = probability_TE.topk(model.top_k, dim=-1)
    weight_TK = weight_TK / weight_TK.sum(dim=-1, keepdim=True)
    expert = expert_TK.reshape(-1)
    order = torch.argsort(expert, stable=True)
    counts = torch.bincount(expert, minlength=model.experts)
    kept = order
    if model.capacity is not None:
        most = max(1, int(model.capacity * expert.numel() / model.experts))
        starts = torch.cumsum(counts, 0) - counts
        rank_in_expert = torch.arange(order.numel(), device=order.device) - starts[expert[order]]
        kept = order[rank_in_expert < most]
        counts = counts.clamp(max=most)
    token = kept // model.top_k
    return Routing(token, weight_TK.reshape(-1)[kept], counts, int(order.numel() - kept.numel()))


def mixture(x_TH: torch.Tensor, block: Block) -> torch.Tensor:
    """All experts on this rank."""
    routing = route(x_TH, block)
    out_TH = torch.zeros_like(x_TH)
    for expert, chosen in enumerate(torch.split(routing.token, routing.counts.tolist())):
        if chosen.numel():
            y = block.expert_weights.one(x_TH[chosen], expert)
            at = int(routing.counts[:expert].sum())
            weight = routing.weight[at : at + chosen.numel()]
            out_TH = out_TH.index_add(0, chosen, y * weight[:, None])
    return out_TH
