"""A mixture of experts on one rank: which expert takes which token, with what weight.

Top-k of the router's softmax, the k weights renormalised (as in Mixtral); a forced routing chooses other
experts, whose weights are still the router's. With a capacity an expert takes of each sequence its first
tokens in order of position, ``most`` of them; the rest of its choices are dropped, not rerouted. What is
dropped so depends on no other sequence: it is the same however sequences are spread over ranks and
micro-batches, and where positions are, too, as long as each part knows what those ``earlier`` have taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

from clusterlab.trainers.config import Setup
from clusterlab.trainers.plans.routed import most_of
from clusterlab.trainers.plans.workloads import STEPWISE, choices
from clusterlab.trainers.rows import by_key, gathered, inverse, permuted, spread

if TYPE_CHECKING:
    from clusterlab.trainers.model import Block, Experts, Ways

Earlier = Callable[[torch.Tensor], torch.Tensor]
"""From how many choices of each expert a rank's positions have, (B, E), how many those before them have."""


@dataclass(frozen=True, slots=True)
class Routing:
    """``token`` (C,) and ``weight`` (C,) of every choice that is kept, by expert and then by token; how many
    are ``each`` expert's, and how many were ``dropped``. ``place_TK``: where each choice of a token is among
    the C, C where it is not kept; None where that is not known.
    """

    token: torch.Tensor
    weight: torch.Tensor
    each: tuple[int, ...]
    dropped: int
    place_TK: torch.Tensor | None = None


@dataclass(frozen=True, slots=True)
class Choices:
    """All choices by expert and then by token, those that are not kept last: ``token`` and ``weight`` (T·K,),
    and ``place_TK`` of each among them. The host does not know yet how many there are: ``tally`` (E + 2,) has
    those of each expert, those that are not kept, and those among them that nobody made.

    To read it the host waits for the GPU, which then waits for the host. So it is read once, with all else
    that is to be known, and what can be issued before is.
    """

    token: torch.Tensor
    weight: torch.Tensor
    place_TK: torch.Tensor
    tally: torch.Tensor

    @property
    def counts(self) -> torch.Tensor:
        """(E,)."""
        return self.tally[:-2]

    def rows(self, x_TH: torch.Tensor) -> torch.Tensor:
        """The token of every choice, (T·K, H)."""
        return spread(x_TH, self.token, self.place_TK)

    def kept(self, tally: Sequence[int]) -> Routing:
        """What is done with them, when the host has read ``tally``: the first rows are of those kept."""
        *each, lost, unmade = tally
        C, place_TK = sum(each), self.place_TK
        if lost:
            place_TK = place_TK.clamp(max=C)
        return Routing(self.token[:C], self.weight[:C], tuple(each), lost - unmade, place_TK)


def route(
    x_TH: torch.Tensor,
    block: Block,
    *,
    positions: int,
    forced_TK: torch.Tensor | None = None,
    earlier: Earlier = torch.zeros_like,
) -> Choices:
    """The choices of tokens ``x_TH``, ``positions`` of each sequence."""
    model = block.model
    probability_TE = torch.softmax(block.router(x_TH), dim=-1)
    expert_TK = probability_TE.topk(model.top_k).indices if forced_TK is None else forced_TK
    weight_TK = probability_TE.gather(1, expert_TK.clamp(min=0))
    weight_TK = weight_TK / weight_TK.sum(dim=-1, keepdim=True)
    # Never 0, so that a weight alone tells who is chosen.
    weight_TK = weight_TK.clamp(min=torch.finfo(weight_TK.dtype).tiny)
    kept_TK = made_TK = expert_TK >= 0
    most = most_of(model)
    if most is not None:
        rows_BcE = F.one_hot(expert_TK.clamp(min=0), model.experts) * made_TK[..., None]
        rows_BcE = rows_BcE.view(-1, positions * model.top_k, model.experts)
        before_BcE = rows_BcE.cumsum(1) - rows_BcE + earlier(rows_BcE.sum(1))[:, None]
        before_TKE = before_BcE.view(*expert_TK.shape, model.experts)
        kept_TK = made_TK & (before_TKE.gather(2, expert_TK.clamp(min=0)[..., None])[..., 0] < most)
    nobody = model.experts
    expert = torch.where(kept_TK, expert_TK, nobody).view(-1)
    # Not bincount, which waits for the GPU to look for the largest.
    counts = expert.new_zeros(nobody + 1).index_add(0, expert, torch.ones_like(expert))
    tally = torch.cat([counts, (~made_TK).sum().view(1)])
    order = by_key(expert, nobody)
    return Choices(
        order // model.top_k,
        permuted(weight_TK.reshape(-1), order),
        inverse(order).view(expert_TK.shape),
        tally,
    )


def experts_of(routing: Routing, device: torch.device) -> torch.Tensor:
    """The expert of every choice that is kept, (C,)."""
    expert = torch.arange(len(routing.each), device=device)
    counts = torch.tensor(routing.each, device=device)
    return expert.repeat_interleave(counts, output_size=sum(routing.each))


def run_experts(x_CH: torch.Tensor, counts: Sequence[int], experts: Experts) -> torch.Tensor:
    """Each expert on its ``counts`` rows, in order. None is left out, for all have gradients, if zeros."""
    rows = torch.split(x_CH, list(counts))
    return torch.cat([experts.one(x_TH, expert) for expert, x_TH in enumerate(rows)])


def combine(y_CH: torch.Tensor, routing: Routing, like_TH: torch.Tensor) -> torch.Tensor:
    """What the experts said of each token, weighed and summed."""
    weighed = y_CH * routing.weight[:, None]
    if routing.place_TK is not None:
        return gathered(weighed, routing.token, routing.place_TK)
    return torch.zeros_like(like_TH).index_add(0, routing.token, weighed)


def mixture(x_TH: torch.Tensor, block: Block, forced_BSK: torch.Tensor | None) -> torch.Tensor:
    """All experts on this rank."""
    forced_TK = None if forced_BSK is None else forced_BSK.flatten(0, 1)
    chosen = route(x_TH, block, positions=block.model.sequence, forced_TK=forced_TK)
    rows = chosen.rows(x_TH)
    routing = chosen.kept(chosen.tally.tolist())
    y_CH = run_experts(rows[: sum(routing.each)], routing.each, block.expert_weights)
    return combine(y_CH, routing, x_TH)


def force(
    ways: Ways, setup: Setup, step: int, samples: Sequence[int], device: str | torch.device
) -> None:
    """The next forward is of these ``samples`` of ``step``: with a forced routing, choose their experts."""
    if setup.train.routing == "learned":
        return
    when = step if setup.train.routing in STEPWISE else 0
    tables = [_forced(setup, when, sample) for sample in samples]
    ways.forced_BSK = torch.stack(tables).to(device)


@lru_cache(maxsize=512)
def _forced(setup: Setup, step: int, sample: int) -> torch.Tensor:
    """(S, K), -1: of nobody. Kept, as Python takes some µs for each token."""
    nobody = [-1] * setup.model.top_k
    table = [list(one) or nobody for one in choices(setup, step, sample)]
    return torch.tensor(table, dtype=torch.int64)
