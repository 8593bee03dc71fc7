"""ZeRO stages 1 and 2, explicitly: each of the N data parallel ranks updates its share of the parameters.

      gradients of a bucket                        parameters of a bucket
      rank 0   [ g g g g ] ─┐                ┌─ [ G · · · ]  update  [ P · · · ] ─┐            ┌─ [ P P P P ]
      rank 1   [ g g g g ] ─┤ reduce_scatter ├─ [ · G · · ]  update  [ · P · · ] ─┤ all_gather ├─ [ P P P P ]
      rank 2   [ g g g g ] ─┤                ├─ [ · · G · ]  update  [ · · P · ] ─┤            ├─ [ P P P P ]
      rank 3   [ g g g g ] ─┘                └─ [ · · · G ]  update  [ · · · P ] ─┘            └─ [ P P P P ]

A reduce_scatter and an all_gather send what one all_reduce does, and what an optimizer keeps of a parameter
(momentum, a master copy) is kept once, not N times (Rajbhandari et al. 2020, "ZeRO", sections 5.1 and 5.2).

Stage 1 adds micro-batches up in whole gradients and scatters them in the last backward. Stage 2 scatters in
each micro-batch's backward and keeps its share: 1/N of the memory, M times the bytes of the reduce_scatter.
Overlap off: stage 1 scatters after backward, stage 2 waits for each bucket where it is full.

Shapes: a bucket is one flat tensor, padded with zeros to a multiple of N; parameters are views of it, a share
is 1/N of it and may begin or end in the midst of a parameter. Buckets, ``edp`` and the start: as in dp.py.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from clusterlab.trainers.axis import Pending
from clusterlab.trainers.plans.buckets import Bucket
from clusterlab.trainers.step import Held, LocalUpdate, OnRank
from clusterlab.trainers.strategies.flat import Flat, InOrder, start_alike


class Share:
    """This rank's share of a bucket's gradients: a sum over ranks and micro-batches."""

    def __init__(self, flat: Flat) -> None:
        self._flat = flat
        self.gradient: torch.Tensor | None = None
        self._coming: tuple[torch.Tensor, Pending] | None = None

    def scatter(self) -> None:
        """Start to add all ranks' gradients; backward's own are gone."""
        self.settle()
        whole = self._flat.gradients()
        for parameter in self._flat.parameters:
            parameter.grad = None
        part = whole.new_empty(self._flat.share)
        self._coming = part, self._flat.axis.start_reduce_scatter(part, whole)

    def settle(self) -> None:
        """Wait for what was started last."""
        if self._coming is not None:
            part, pending = self._coming
            pending.wait()
            self.gradient = part if self.gradient is None else self.gradient.add_(part)
            self._coming = None

    def whole(self) -> torch.Tensor:
        """All ranks' shares, gathered."""
        assert self.gradient is not None, "after a step"
        return self._flat.axis.all_gather(self.gradient)


class ShardedUpdate(LocalUpdate):
    """Of ``stage`` 1 or 2."""

    def __init__(
        self,
        rank: OnRank,
        buckets: tuple[Bucket, ...],
        parameters: Mapping[str, nn.Parameter],
        *,
        stage: int,
    ) -> None:
        super().__init__(parameters)
        self._rank, self._stage = rank, stage
        self._flats = [Flat(b, rank.axes[b.axis], parameters, padded=True) for b in buckets]
        self._whole = start_alike(rank, self._flats)
        for flat, whole in zip(self._flats, self._whole, strict=True):
            for parameter, view in zip(flat.parameters, flat.views(whole), strict=True):
                parameter.data = view
        self._shares = {id(flat): Share(flat) for flat in self._flats}
        self._early = InOrder([f for f in self._flats if not f.bucket.late], self._send)

    def begin(self) -> None:
        """As in Update."""
        super().begin()
        self._early.begin()
        for share in self._shares.values():
            share.gradient = None
        self._early.armed = self._stage == 2

    def last_backward(self) -> None:
        """As in Update."""
        self._early.armed = self._early.armed or self._rank.setup.train.overlap

    def reduce(self) -> None:
        """As in Update."""
        in_backward, self._early.armed = self._early.armed, False
        with self._rank.ledger.labelled("backward" if in_backward else "reduce"):
            self._early.flush()
        for flat in self._flats:
            if flat.bucket.late:
                self._send(flat)
        for share in self._shares.values():
            share.settle()

    def apply(self, lr: float) -> None:
        """As in Update: own shares, then everyone's."""
        pending = []
        for flat, whole in zip(self._flats, self._whole, strict=True):
            gradient = self._shares[id(flat)].gradient
            assert gradient is not None, "after reduce"
            own = flat.own(whole).sub_(gradient, alpha=lr).clone()
            pending.append(flat.axis.start_all_gather(whole, own))
        for one in pending:
            one.wait()

    def held(self) -> Held:
        """As in Trainer."""
        gradients: dict[str, torch.Tensor] = {}
        for flat in self._flats:
            views = flat.views(self._shares[id(flat)].whole())
            gradients.update(zip(flat.bucket.names, views, strict=True))
        parameters = {name: p.detach().clone() for name, p in self._parameters.items()}
        return Held(parameters, gradients)

    def _send(self, flat: Flat) -> None:
        share = self._shares[id(flat)]
        share.scatter()
        if not self._rank.setup.train.overlap:
            share.settle()
