"""Gathering both ways is what torch's own index_select and index_add do, gradients too."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.trainers.rows import gathered, inverse, permuted, spread


def routed(tokens: int, top_k: int, dropped: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """token (C,) and place_TK of choices in a mixed order, but for the ``dropped``."""
    order = torch.randperm(tokens * top_k, generator=torch.Generator().manual_seed(tokens))
    lost = torch.isin(order, torch.tensor(dropped, dtype=torch.int64))
    order = torch.cat([order[~lost], order[lost]])
    kept = order[: tokens * top_k - int(lost.sum())]
    return kept // top_k, inverse(order).clamp(max=kept.numel()).view(tokens, top_k)


CASES = st.tuples(
    st.integers(1, 9), st.integers(1, 3), st.lists(st.integers(0, 26), max_size=12, unique=True)
)


@settings(deadline=None)
@given(CASES)
def test_spread_and_gathered_equal_torchs_own(case: tuple[int, int, list[int]]) -> None:
    tokens, top_k, dropped = case
    token, place_TK = routed(tokens, top_k, dropped)
    x_TH = torch.randn(tokens, 4, dtype=torch.float64, requires_grad=True)
    ours, theirs = spread(x_TH, token, place_TK), x_TH.index_select(0, token)
    assert torch.equal(ours, theirs)
    weight = torch.randn_like(ours)
    (got,) = torch.autograd.grad((ours * weight).sum(), x_TH)
    (wanted,) = torch.autograd.grad((theirs * weight).sum(), x_TH)
    torch.testing.assert_close(got, wanted, rtol=0, atol=1e-12)
    y_CH = torch.randn_like(theirs).requires_grad_()
    ours = gathered(y_CH, token, place_TK)
    theirs = torch.zeros(tokens, 4, dtype=torch.float64).index_add(0, token, y_CH)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    weight = torch.randn_like(ours)
    (got,) = torch.autograd.grad((ours * weight).sum(), y_CH)
    (wanted,) = torch.autograd.grad((theirs * weight).sum(), y_CH)
    torch.testing.assert_close(got, wanted, rtol=0, atol=1e-12)


@settings(deadline=None)
@given(st.integers(0, 20))
def test_a_permutation_and_its_way_back(rows: int) -> None:
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(rows))
    x_CH = torch.randn(rows, 3, dtype=torch.float64, requires_grad=True)
    assert torch.equal(permuted(permuted(x_CH, order), inverse(order)), x_CH)
    weight = torch.randn(rows, 3, dtype=torch.float64)
    (got,) = torch.autograd.grad((permuted(x_CH, order) * weight).sum(), x_CH)
    assert torch.equal(got, weight[inverse(order)])
