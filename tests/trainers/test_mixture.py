"""The mixture on one rank, against every expert on every token and a loop over choices."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from clusterlab.trainers.model import Block, Ways
from clusterlab.trainers.moe import force, route
from clusterlab.trainers.plans.routed import expected, most_of
from clusterlab.trainers.plans.workloads import WORKLOADS, choices
from clusterlab.trainers.weights import first_value, weights_of
from tests.trainers.ranks import small


def block_of(**changes: object) -> tuple[Block, torch.Tensor]:
    """A block and two sequences of what its mixture gets."""
    setup = small(**{"experts": 8, "layers": 1, "top_k": 3, **changes})
    values = {
        w.name: first_value(w, i, 1) for i, w in enumerate(weights_of(setup.model, setup.mesh))
    }
    torch.manual_seed(3)
    x = torch.randn(2 * setup.model.sequence, setup.model.hidden, dtype=torch.float64)
    return Block(setup.model, values, 0, Ways()), x.requires_grad_()


def slowly(
    x_TH: torch.Tensor, block: Block, forced: list[tuple[int, ...]] | None
) -> tuple[torch.Tensor, int]:
    """Token by token, as the words say it; how many choices are dropped."""
    model, rows, dropped = block.model, [], 0
    most = most_of(model)
    taken: Counter[int] = Counter()
    for token, x_H in enumerate(x_TH):
        if token % model.sequence == 0:
            taken.clear()
        p_E = torch.softmax(block.router.weight @ x_H, 0)
        ranked = sorted(range(model.experts), key=lambda e: -p_E[e].item())
        chosen = ranked[: model.top_k] if forced is None else forced[token]
        y_H = torch.zeros_like(x_H)
        for expert in chosen:
            if most is not None and taken[expert] >= most:
                dropped += 1
                continue
            taken[expert] += 1
            weight = p_E[expert] / sum(p_E[other] for other in chosen)
            y_H = y_H + weight * block.expert_weights.one(x_H[None], expert)[0]
        rows.append(y_H)
    return torch.stack(rows), dropped


@pytest.mark.parametrize("capacity", [None, 1.25, 0.5, 0.01])
@pytest.mark.parametrize("routing", ["learned", *WORKLOADS])
def test_mixture_is_the_sum_over_choices_forward_and_backward(
    capacity: float | None, routing: str
) -> None:
    setup = small(experts=8, top_k=3, layers=1, ep=2, dp=2, capacity=capacity, routing=routing)
    block, x_TH = block_of(capacity=capacity)
    ways, forced = block.ways, None
    if routing != "learned":
        force(ways, setup, 3, range(2), "cpu")
        forced = [chosen for sample in range(2) for chosen in choices(setup, 3, sample)]
    fast = ways.experts(x_TH, block)
    slow, dropped = slowly(x_TH, block, forced)
    assert torch.allclose(fast, slow, rtol=0, atol=1e-12)
    weigh = torch.randn_like(fast)
    leaves = [x_TH, block.router.weight, block.expert_weights.up, block.expert_weights.down]
    gradients = [torch.autograd.grad(y, leaves, weigh, retain_graph=True) for y in (fast, slow)]
    for one, other in zip(*gradients, strict=True):
        assert torch.allclose(one, other, rtol=0, atol=1e-12)
    if ways.forced_BSK is not None:
        planned = expected(setup, 0, 3, 0)
        chosen = route(
            x_TH, block, positions=setup.model.sequence, forced_TK=ways.forced_BSK.flatten(0, 1)
        )
        got = chosen.kept(chosen.tally.tolist())
        assert (got.each, got.dropped) == (planned.counts, planned.dropped)
        assert got.dropped == dropped


def test_what_is_dropped_does_not_depend_on_the_other_sequences() -> None:
    block, x_TH = block_of(capacity=0.75)
    both = block.ways.experts(x_TH, block)
    alone = [block.ways.experts(part, block) for part in x_TH.chunk(2)]
    assert torch.allclose(both, torch.cat(alone), rtol=0, atol=1e-12)


def test_an_expert_without_tokens_has_a_gradient_of_zeros() -> None:
    block, x_TH = block_of(top_k=1)
    block.ways.forced_BSK = torch.full((2, block.model.sequence, 1), 5)
    torch.autograd.backward(block.ways.experts(x_TH, block).sum())
    gradient = block.expert_weights.up.grad
    assert gradient is not None
    assert [bool(gradient[e].any()) for e in range(8)] == [e == 5 for e in range(8)]
