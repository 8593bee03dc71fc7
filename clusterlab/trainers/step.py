"""One training step without a pipeline: micro-batches forward and backward, gradients summed, an update."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import nn

from clusterlab.trainers.axis import Axis
from clusterlab.trainers.config import Setup
from clusterlab.trainers.data import batch_of
from clusterlab.trainers.ledger import Ledger
from clusterlab.trainers.mesh import Place
from clusterlab.trainers.model import Transformer, loss_of, named
from clusterlab.trainers.moe import force
from clusterlab.trainers.plans.routed import Routed


@dataclass(frozen=True, slots=True)
class Held:
    """By name, a rank's parameters and the last step's gradients: its tensor, expert and pipeline parallel
    part, whole over the data parallel ranks.
    """

    parameters: dict[str, torch.Tensor]
    gradients: dict[str, torch.Tensor]


class Trainer(Protocol):
    """A rank's part of a training run, whatever the strategy."""

    @property
    def parameters(self) -> Mapping[str, nn.Parameter]:
        """This rank's, by name; between steps some strategies hold them elsewhere, see ``held``."""
        ...

    @property
    def routed(self) -> tuple[Routed, ...]:
        """What this rank's mixtures of experts sent in the last step."""
        ...

    def held(self) -> Held:
        """Copies, between steps. All data parallel ranks call it together."""
        ...

    def step(self, number: int) -> float:
        """Train step ``number``; the whole batch's loss, the same on all ranks."""
        ...


class Update(Protocol):
    """Gradients of several data parallel ranks become one, and then an update of the parameters."""

    def forward_of(self, model: Transformer) -> Callable[[torch.Tensor], torch.Tensor]:
        """What to call for ``model``'s forward: itself, or torch's wrapper of it."""
        ...

    def begin(self) -> None:
        """Before a step's first forward: no gradients."""
        ...

    def last_backward(self) -> None:
        """The next backward is the step's last on this rank: gradients may be sent as they are ready.

        Where a backward follows its forward at once, said before that forward.
        """
        ...

    def reduce(self) -> None:
        """After it: return when the gradients are summed over the ranks (or a rank's share of them is)."""
        ...

    def apply(self, lr: float) -> None:
        """Plain SGD."""
        ...

    def held(self) -> Held:
        """As in Trainer."""
        ...


class LocalUpdate:
    """Without other ranks."""

    def __init__(self, parameters: Mapping[str, nn.Parameter]) -> None:
        self._parameters = parameters

    def forward_of(self, model: Transformer) -> Callable[[torch.Tensor], torch.Tensor]:
        """As in Update."""
        return model

    def begin(self) -> None:
        """As in Update."""
        for parameter in self._parameters.values():
            parameter.grad = None

    def last_backward(self) -> None:
        """Nobody waits for them."""

    def reduce(self) -> None:
        """There is nothing to add."""

    def apply(self, lr: float) -> None:
        """As in Update."""
        sgd(self._parameters.values(), lr)

    def held(self) -> Held:
        """As in Update."""
        return held(self._parameters)


def sgd(parameters: Iterable[nn.Parameter], lr: float) -> None:
    """parameter − lr · gradient, all at once; those without a gradient stay."""
    found = [(p, p.grad) for p in parameters if p.grad is not None]
    if found:
        with torch.no_grad():
            torch._foreach_add_([p for p, _ in found], [g for _, g in found], alpha=-lr)


def held(parameters: Mapping[str, nn.Parameter]) -> Held:
    """Of parameters that are whole, with whole gradients; no gradient is one of zeros."""
    return Held(
        {name: p.detach().clone() for name, p in parameters.items()},
        {
            name: torch.zeros_like(p) if p.grad is None else p.grad.clone()
            for name, p in parameters.items()
        },
    )


@dataclass(frozen=True, slots=True)
class OnRank:
    """What a rank has before it builds anything. ``values``: its parameters by name, to go on with those
    instead of first values.
    """

    setup: Setup
    place: Place
    axes: Mapping[str, Axis]
    ledger: Ledger
    device: torch.device
    values: Mapping[str, torch.Tensor] | None = None


class PlainTrainer:
    """All layers on this rank."""

    def __init__(self, rank: OnRank, model: Transformer, update: Update) -> None:
        self._rank, self._model, self._update = rank, model, update
        self._forward = update.forward_of(model)
        self.parameters = named(model)

    def step(self, number: int) -> float:
        """As in Trainer."""
        setup, ledger, update = self._rank.setup, self._rank.ledger, self._update
        micro_batches = setup.train.micro_batches
        total = torch.zeros((), dtype=torch.float64, device=self._rank.device)
        with ledger.step(number), self._model.ways.noting():
            update.begin()
            for m in range(micro_batches):
                with ledger.during("data", m):
                    inputs, targets = self._data(number, m)
                if m == micro_batches - 1:
                    update.last_backward()
                with ledger.during("forward", m):
                    tokens = setup.train.batch * setup.model.sequence
                    loss = loss_of(self._forward(inputs), targets, tokens)
                with ledger.during("backward", m):
                    torch.autograd.backward(loss)
                total += loss.detach().double()
            with ledger.during("reduce"):
                self._model.ways.finish(self.parameters)
                update.reduce()
            with ledger.during("optimizer"):
                update.apply(setup.train.lr)
            with ledger.during("loss"):
                self._rank.axes["dp"].all_reduce(total)
        return total.item()

    @property
    def routed(self) -> tuple[Routed, ...]:
        """As in Trainer."""
        return self._model.ways.routed

    def held(self) -> Held:
        """As in Trainer."""
        return self._update.held()

    def _data(self, step: int, micro_batch: int) -> tuple[torch.Tensor, torch.Tensor]:
        rank = self._rank
        samples = samples_of(rank.setup, rank.place, micro_batch)
        force(self._model.ways, rank.setup, step, samples, rank.device)
        return batch_on(rank, step, samples)


def batch_on(rank: OnRank, step: int, samples: range) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and targets of these ``samples`` of ``step``, on the rank's device."""
    setup = rank.setup
    inputs, targets = batch_of(
        setup.model, samples, step=step, seed=setup.train.seed, text=setup.train.text
    )
    return inputs.to(rank.device), targets.to(rank.device)


def samples_of(setup: Setup, place: Place, micro_batch: int) -> range:
    """Which of a step's sequences are those of a rank's micro-batch."""
    first = (place.dp * setup.train.micro_batches + micro_batch) * setup.rows
    return range(first, first + setup.rows)
