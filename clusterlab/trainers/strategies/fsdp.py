"""Fully sharded data parallelism, explicitly: each of N ranks keeps 1/N of every parameter (ZeRO stage 3).

A unit (the embedding, a block, the head) is whole only while it computes::

      forward    gather 0 │ compute 0 │ free 0 │ gather 1 │ compute 1 │ free 1 │ …
      overlap    gather 0 │ gather 1 ∥ compute 0 │ free 0 │ gather 2 ∥ compute 1 │ free 1 │ …
      backward   gather 1 │ compute 1 │ reduce_scatter 1, free 1 │ gather 0 │ compute 0 │ reduce_scatter 0 …

With overlap the next unit is gathered while one computes (so two are whole), and a unit's gradients are
added while the next computes; without, each is waited for. A micro-batch gathers every unit twice and
scatters its gradients once: 1.5 times the bytes of one all_reduce, for each micro-batch. Own shares of the
gradients add up over micro-batches, and a rank updates its share, with nothing to send.

How a unit comes and goes (as in torch's own, fsdp/_fully_shard): its parameters are views of one flat
tensor, whose storage is given back and taken again, so that what autograd has saved stays valid. Backward
begins where the gradient of the unit's output comes, and has ended where that of its input leaves; the
embedding's input has none, so there it has ended when every gradient is made.

Shapes: flat and padded as in zero.py, one for ``dp``, one for ``edp``; ``late`` gradients wait whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from clusterlab.trainers.axis import Pending
from clusterlab.trainers.model import Transformer
from clusterlab.trainers.plans.buckets import UnitPlan
from clusterlab.trainers.step import Held, LocalUpdate, OnRank
from clusterlab.trainers.strategies.flat import Flat, on_gradient, start_alike
from clusterlab.trainers.strategies.modules import modules_of, neighbours
from clusterlab.trainers.strategies.zero import Share


class Cut:
    """A flat tensor of parameters, whole or in shares; ``part`` is this rank's."""

    def __init__(self, flat: Flat, whole: torch.Tensor) -> None:
        self.flat, self.share = flat, Share(flat)
        self.part = flat.own(whole).clone()
        self._whole = whole
        for parameter, view in zip(flat.parameters, flat.views(whole), strict=True):
            # An alias with a version of its own: to autograd, gathering again is no change.
            parameter.data = view
        self.free()

    def fetch(self) -> Pending:
        """Start to gather all shares."""
        self._whole.untyped_storage().resize_(self._whole.numel() * self._whole.element_size())
        return self.flat.axis.start_all_gather(self._whole, self.part)

    def free(self) -> None:
        """Keep ``part`` only."""
        self._whole.untyped_storage().resize_(0)


class Unit:
    """What is gathered and freed together, from ``first`` module to ``last``."""

    def __init__(self, cuts: Sequence[Cut], overlap: bool) -> None:
        self.cuts, self._overlap = cuts, overlap
        self.before: Unit | None = None
        self.after: Unit | None = None
        self._coming: list[Pending] | None = None  # None: freed; empty: whole

    def attach(self, first: nn.Module, last: nn.Module, *, has_input: bool) -> None:
        """Come before ``first`` computes, go after ``last`` has; backward, the other way round."""
        first.register_forward_pre_hook(self._before_forward)
        last.register_forward_hook(self._after_forward)
        if not has_input:
            for parameter in self._parameters():
                on_gradient(parameter, self._gradient_made)

    def fetch(self) -> None:
        """Start to gather, unless that is done."""
        if self._coming is None:
            self._coming = [cut.fetch() for cut in self.cuts]

    def gather(self, ahead: Unit | None) -> None:
        """Be whole; start on the unit that is next."""
        self.fetch()
        for pending in self._coming or ():
            pending.wait()
        self._coming = []
        if self._overlap and ahead is not None:
            ahead.fetch()

    def free(self) -> None:
        """Keep own shares only."""
        self._coming = None
        for cut in self.cuts:
            cut.free()

    def after_backward(self) -> None:
        """All gradients are made: add them up among the ranks."""
        for cut in self.cuts:
            if not cut.flat.bucket.late:
                cut.share.scatter()
                if not self._overlap:
                    cut.share.settle()
        self.free()

    def _before_forward(
        self, _module: nn.Module, inputs: tuple[torch.Tensor]
    ) -> tuple[torch.Tensor] | None:
        self.gather(self.after)
        if not (x := inputs[0]).requires_grad:
            return None
        entered: torch.Tensor = _Input.apply(x, self)  # type: ignore[no-untyped-call]
        return (entered,)

    def _after_forward(self, _module: nn.Module, _inputs: object, y: torch.Tensor) -> None:
        self.free()
        if y.requires_grad:
            y.register_hook(self._before_backward)  # type: ignore[no-untyped-call]

    def _before_backward(self, _grad: torch.Tensor) -> None:
        self.gather(self.before)

    def _gradient_made(self, _parameter: torch.Tensor) -> None:
        if all(parameter.grad is not None for parameter in self._parameters()):
            self.after_backward()

    def _parameters(self) -> list[nn.Parameter]:
        return [p for cut in self.cuts for p in cut.flat.parameters]


class _Input(torch.autograd.Function):
    """A unit's input; its gradient is the last that the unit's backward makes."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, unit: Unit) -> torch.Tensor:
        ctx.unit = unit
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        ctx.unit.after_backward()
        return grad, None


class FullyShardedUpdate(LocalUpdate):
    """Nothing is whole between the units' turns."""

    def __init__(
        self,
        rank: OnRank,
        planned: tuple[UnitPlan, ...],
        parameters: Mapping[str, nn.Parameter],
        model: Transformer,
    ) -> None:
        super().__init__(parameters)
        flats = [
            [Flat(b, rank.axes[b.axis], parameters, padded=True) for b in unit.buckets]
            for unit in planned
        ]
        values = iter(start_alike(rank, [flat for unit in flats for flat in unit]))
        units = {
            plan.name: Unit([Cut(flat, next(values)) for flat in own], rank.setup.train.overlap)
            for plan, own in zip(planned, flats, strict=True)
        }
        for name, (first, last) in modules_of(model).items():
            units[name].attach(first, last, has_input=name != "embed")
        for one, other in neighbours(model, rank.setup):
            units[one].after, units[other].before = units[other], units[one]
        self._cuts = [cut for unit in units.values() for cut in unit.cuts]

    def begin(self) -> None:
        """As in Update."""
        super().begin()
        for cut in self._cuts:
            cut.share.gradient = None

    def reduce(self) -> None:
        """As in Update."""
        for cut in self._cuts:
            if cut.flat.bucket.late:
                cut.share.scatter()
        for cut in self._cuts:
            cut.share.settle()

    def apply(self, lr: float) -> None:
        """As in Update: own shares."""
        for cut in self._cuts:
            assert cut.share.gradient is not None, "after reduce"
            cut.part.sub_(cut.share.gradient, alpha=lr)

    def held(self) -> Held:
        """As in Trainer."""
        found = Held({}, {})
        for cut in self._cuts:
            flat = cut.flat
            whole = flat.axis.all_gather(cut.part), cut.share.whole()
            for values, into in zip(whole, (found.parameters, found.gradients), strict=True):
                into.update(zip(flat.bucket.names, flat.views(values), strict=True))
        return found
