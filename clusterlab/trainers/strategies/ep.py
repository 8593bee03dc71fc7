"""Expert parallelism, explicitly: tokens travel to the rank that has their experts, and back.

The R ranks of ``ep`` see different sequences and have e = E/R experts each. A mixture on each of them::

    x_TH ── router ── T·K choices ══ rows to ranks ══ e experts ══ rows back ══ Σ weight · y
                     by expert, C     all_to_all_v                all_to_all_v

First the ranks tell each other how many rows are for each expert (``all_to_all`` of counts), then the rows
go, then what the experts say of them comes back. Backward the gradients go the same two ways: four
``all_to_all_v`` of the choices' rows (C, H) a mixture.

With ``per_node`` it takes two levels. A token may be for several experts of a node: it crosses the network
once, along its rail, with a row of weights for the X = L·e experts of that node's L ranks, zero where not
chosen; the rank it gets to hands it on inside the node, sums what comes back, and sends one row home (as
DeepEP's kernels do; "DeepSeek-V3 Technical Report", 2024, section 3.2.2)::

    node 0 rank l ══ tokens, H + X ══ node 1 rank l ══ choices, H ══ node 1 rank m: experts
                  ══ tokens, H     ══               ══ choices, H ══

Shapes of a rank: up (e, F, H), down (e, H, F). Experts' gradients come from the rows of all R ranks, so they
are whole along ``ep``; they are summed along ``edp`` only, without a factor, for losses are over all tokens
of the step. (Where they are over a rank's tokens, and gradients averaged, experts' must be divided by R too:
that forgotten, they are R times too large, and with Adam no loss curve shows it.) The router is whole on
every rank and summed along ``dp``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import nn

from clusterlab.trainers.axis import Axis
from clusterlab.trainers.config import Setup
from clusterlab.trainers.model import Block, Experts, Ways
from clusterlab.trainers.moe import (
    Choices,
    Routing,
    combine,
    experts_of,
    route,
    run_experts,
)
from clusterlab.trainers.plans.routed import Routed
from clusterlab.trainers.rows import transposed


class ExpertWays(Ways):
    """Experts over ranks, all else as ``inner`` has it."""

    def __init__(self, inner: Ways, setup: Setup, axes: Mapping[str, Axis]) -> None:
        for name, method in vars(Ways).items():
            if callable(method) and not name.startswith("_") and name not in vars(ExpertWays):
                setattr(self, name, getattr(inner, name))
        self._inner, self._axes = inner, axes
        self._positions = axes["tp"] if setup.mesh.sequence is not None else None
        self._two_levels = setup.mesh.per_node is not None
        self._library = library_of(setup, axes["ep"])
        self._sent: list[Routed] = []

    def experts(self, x_TH: torch.Tensor, block: Block) -> torch.Tensor:
        """As in Ways."""
        chosen, experts = self._route(x_TH, block), block.expert_weights
        tokens: list[int] = []
        if self._library is None and not self._two_levels:
            axis, rows = self._axes["ep"], chosen.rows(x_TH)
            tally, got = tell(chosen.counts, axis, beside=chosen.tally)
            routing = chosen.kept(tally)
            y_CH = exchange(rows[: sum(routing.each)], routing.each, got, axis, experts)
            out_TH = combine(y_CH, routing, x_TH)
        else:
            routing = chosen.kept(chosen.tally.tolist())
            if self._library is not None:
                out_TH, tokens = self._library.exchange(x_TH, routing, experts)
            else:
                rail, node = self._axes["ep_rail"], self._axes["ep_node"]
                out_TH, tokens = across(x_TH, routing, rail, node, experts)
        before = sum(one.layer == block.layer for one in self._sent)
        self._sent.append(Routed(block.layer, before, routing.each, tuple(tokens), routing.dropped))
        return out_TH

    def finish(self, parameters: Mapping[str, nn.Parameter]) -> None:
        """As in Ways; what was sent in the step can be read after it."""
        self.routed, self._sent = tuple(self._sent), []
        self._inner.finish(parameters)

    def _route(self, x_TH: torch.Tensor, block: Block) -> Choices:
        forced, split, positions = self.forced_BSK, self._positions, block.model.sequence
        if split is None or split.size == 1:
            flat = None if forced is None else forced.flatten(0, 1)
            return route(x_TH, block, positions=positions, forced_TK=flat)

        def earlier(counts_BE: torch.Tensor) -> torch.Tensor:
            all_BE = split.all_gather(counts_BE).view(split.size, *counts_BE.shape)
            return all_BE[: split.index].sum(0)

        if forced is not None:
            forced = forced.chunk(split.size, 1)[split.index].flatten(0, 1)
        return route(
            x_TH, block, positions=positions // split.size, forced_TK=forced, earlier=earlier
        )


class Library(Protocol):
    """What a library that takes tokens to experts is to us."""

    def exchange(
        self, x_TH: torch.Tensor, routing: Routing, experts: Experts
    ) -> tuple[torch.Tensor, list[int]]:
        """The mixture over the ranks of ``ep``, and how many tokens went to each."""
        ...


def library_of(setup: Setup, axis: Axis) -> Library | None:
    """What ``expert_backend`` names; None: collectives. Raises UsageError where it is missing."""
    if setup.train.expert_backend == "collectives":
        return None
    from clusterlab.trainers.strategies.library.deep_ep import DeepEp

    return DeepEp(setup, axis)


def tell(
    counts: torch.Tensor, axis: Axis, *, beside: torch.Tensor
) -> tuple[list[int], list[list[int]]]:
    """Every rank of ``axis`` hears how many rows come from each rank for each of its experts (R × e): its
    part of ``counts``. The host reads that and this rank's ``beside`` at once.
    """
    got_Re = axis.all_to_all(counts.view(axis.size, -1))
    numbers = torch.cat([beside, got_Re.view(-1)]).tolist()
    own, flat, each = numbers[: len(beside)], numbers[len(beside) :], got_Re.shape[1]
    return own, [flat[i * each : (i + 1) * each] for i in range(axis.size)]


def exchange(
    rows_CH: torch.Tensor,
    counts: Sequence[int],
    got: Sequence[Sequence[int]],
    axis: Axis,
    experts: Experts,
) -> torch.Tensor:
    """What experts say of ``rows_CH``, ``counts`` (E) of them for each; this rank's own ``got`` (R × e)."""
    own = len(got[0])
    sends = [sum(counts[i * own : (i + 1) * own]) for i in range(axis.size)]
    receives = [sum(line) for line in got]
    # They arrive by rank and then by expert; experts take them by expert and then by rank.
    by_expert = list(zip(*got, strict=True))
    arrived = transposed(swap(rows_CH, axis, sends, receives), got)
    y = run_experts(arrived, [sum(line) for line in by_expert], experts)
    return swap(transposed(y, by_expert), axis, receives, sends)


def across(
    x_TH: torch.Tensor, routing: Routing, rail: Axis, node: Axis, experts: Experts
) -> tuple[torch.Tensor, list[int]]:
    """As ``exchange`` on two levels, and how many tokens went to each node. A row is a (token, node)."""
    (T, H), N, E = x_TH.shape, rail.size, len(routing.each)
    expert = experts_of(routing, x_TH.device)
    weight_TE = x_TH.new_zeros(T, E).index_put((routing.token, expert), routing.weight)
    weight_TNX = weight_TE.view(T, N, E // N)
    to, token = (weight_TNX != 0).any(2).T.nonzero(as_tuple=True)
    counts_N = torch.bincount(to, minlength=N)
    sends, receives = counts_N.tolist(), rail.all_to_all(counts_N).tolist()
    rows = torch.cat([x_TH.index_select(0, token), weight_TNX[token, to]], 1)
    x_RH, weight_RX = torch.split(swap(rows, rail, sends, receives), [H, E // N], 1)
    expert, row = (weight_RX != 0).T.nonzero(as_tuple=True)
    counts_X = torch.bincount(expert, minlength=E // N)
    each, got = tell(counts_X, node, beside=counts_X)
    inside = Routing(row, weight_RX[row, expert], tuple(each), 0)
    y_CH = exchange(x_RH.index_select(0, row), each, got, node, experts)
    home_RH = swap(combine(y_CH, inside, x_RH), rail, receives, sends)
    return torch.zeros_like(x_TH).index_add(0, token, home_RH), sends


def swap(rows: torch.Tensor, axis: Axis, sends: list[int], receives: list[int]) -> torch.Tensor:
    """``sends`` rows to each rank for ``receives`` from each; backward, gradients the other way."""
    if axis.size == 1:
        return rows
    swapped: torch.Tensor = _Swap.apply(rows, axis, sends, receives)  # type: ignore[no-untyped-call]
    return swapped


class _Swap(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, rows: torch.Tensor, axis: Axis, sends: list[int], receives: list[int]
    ) -> torch.Tensor:
        ctx.axis, ctx.sends, ctx.receives = axis, sends, receives
        return axis.all_to_all(rows.contiguous(), sends, receives)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        back = ctx.axis.all_to_all(grad.contiguous(), ctx.receives, ctx.sends)
        return back, None, None, None
