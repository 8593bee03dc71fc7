"""A bucket's tensors laid end to end, and buckets sent in order as backward fills them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import nn

from clusterlab.trainers.axis import Axis
from clusterlab.trainers.plans.buckets import Bucket
from clusterlab.trainers.step import OnRank


class Flat:
    """The parameters of ``bucket`` and the ranks along ``axis`` that hold copies of them."""

    def __init__(
        self, bucket: Bucket, axis: Axis, parameters: Mapping[str, nn.Parameter], *, padded: bool
    ) -> None:
        self.bucket, self.axis = bucket, axis
        self.parameters = [parameters[name] for name in bucket.names]
        assert tuple(p.numel() for p in self.parameters) == bucket.elements, "as planned"
        self.elements = bucket.padded(axis.size) if padded else bucket.total
        self.share = self.elements // axis.size

    def new(self) -> torch.Tensor:
        """Room for all, with zeros where it is padded."""
        flat = self.parameters[0].detach().new_empty(self.elements)
        flat[self.bucket.total :].zero_()
        return flat

    def views(self, flat: torch.Tensor) -> list[torch.Tensor]:
        """``flat`` as the parameters are shaped."""
        pieces = flat[: self.bucket.total].split(list(self.bucket.elements))  # type: ignore[no-untyped-call]
        return [
            piece.view(p.shape) for piece, p in zip(pieces, self.parameters, strict=True)
        ]  # fmt: skip

    def own(self, flat: torch.Tensor) -> torch.Tensor:
        """This rank's share of ``flat``."""
        return flat[self.share * self.axis.index :][: self.share]

    def values(self) -> torch.Tensor:
        """A copy of the parameters."""
        return self._joined([p.detach() for p in self.parameters])

    def gradients(self) -> torch.Tensor:
        """A copy; zeros where backward left none (experts without tokens)."""
        return self._joined(
            [torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters]
        )

    def _joined(self, tensors: list[torch.Tensor]) -> torch.Tensor:
        flat = self.new()
        torch.cat([t.flatten() for t in tensors], out=flat[: self.bucket.total])
        return flat


def start_alike(rank: OnRank, flats: Sequence[Flat]) -> list[torch.Tensor]:
    """Every bucket's values as the first of its ranks has them: one broadcast each."""
    values = [flat.values() for flat in flats]
    with rank.ledger.step(-1), rank.ledger.during("start"):
        for flat, value in zip(flats, values, strict=True):
            flat.axis.broadcast(value)
    return values


def on_gradient(parameter: nn.Parameter, call: Callable[[torch.Tensor], None]) -> None:
    """Call ``call`` whenever backward has made the gradient."""
    parameter.register_post_accumulate_grad_hook(call)  # type: ignore[no-untyped-call]


class InOrder:
    """Sends buckets in their order, the same on all ranks: each when backward has made all of its gradients
    and those before it are sent. Only while ``armed``; ``begin`` before a step, ``flush`` after.
    """

    def __init__(self, flats: Sequence[Flat], send: Callable[[Flat], None]) -> None:
        self._flats, self._send = flats, send
        self.armed = False
        self.begin()
        for at, flat in enumerate(flats):
            for number, parameter in enumerate(flat.parameters):
                on_gradient(parameter, self._hook(at, number))

    def begin(self) -> None:
        """Nothing is sent, no gradient is made."""
        self._missing = [set(range(len(flat.parameters))) for flat in self._flats]
        self._sent = 0

    def flush(self) -> None:
        """Send what is left."""
        while self._sent < len(self._flats):
            self._next()

    def _hook(self, at: int, number: int) -> Callable[[torch.Tensor], None]:
        def ready(_parameter: torch.Tensor) -> None:
            if not self.armed:
                return
            if number not in self._missing[at]:  # the next micro-batch's backward has begun
                self.flush()
                self.begin()
            self._missing[at].discard(number)
            while self._sent < len(self._flats) and not self._missing[self._sent]:
                self._next()

        return ready

    def _next(self) -> None:
        self._sent += 1
        self._send(self._flats[self._sent - 1])
