"""What a rank computes for each action of a pipeline's schedule; it sends nothing.

action     takes                      gives
F          x_BSH of the stage before  x_BSH for the stage after     first stage: tokens; last: the loss
B          gradient of what F gave    gradient of what F took       with W: parameters get theirs then
W          what B kept                nothing: parameters' gradients
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from clusterlab.trainers.config import Setup
from clusterlab.trainers.model import Transformer, loss_of
from clusterlab.trainers.moe import force
from clusterlab.trainers.plans.schedules import Action, layers_of, splits_backward
from clusterlab.trainers.step import OnRank, batch_on, samples_of
from clusterlab.trainers.strategies.split import SplitBackward


@dataclass(slots=True)
class Passed:
    """A micro-batch between its forward and its last backward: what the stage took and gave (or its loss)."""

    x: torch.Tensor
    y: torch.Tensor
    split: SplitBackward | None = None


def received_shape(setup: Setup) -> tuple[int, int, int]:
    """Of x_BSH between stages, S a rank's own positions."""
    split = setup.mesh.tp if setup.mesh.sequence is not None else 1
    return setup.rows, setup.model.sequence // split, setup.model.hidden


class Stages:
    """All stages of this rank, in one ``model`` of their layers."""

    def __init__(self, rank: OnRank, model: Transformer) -> None:
        self.rank, self.model = rank, model
        self._passed: dict[tuple[int, int], Passed] = {}
        self._step = 0
        self.loss = torch.zeros(())
        """This rank's part of the step's, so far."""

    def begin(self, step: int) -> None:
        """Before a step's first action."""
        assert not self._passed, "every forward had its backward"
        self._step = step
        self.loss = torch.zeros((), dtype=torch.float64, device=self.rank.device)

    def forward(self, action: Action, x_BSH: torch.Tensor | None) -> torch.Tensor | None:
        """As in the table; None instead of x: the first stage; instead of y: the last."""
        setup, stage = self.rank.setup, action.stage
        inputs, targets = self._data(action)
        if x_BSH is None:
            assert self.model.embed is not None, "the first stage has the embedding"
            x_BSH = self.model.embed(inputs)
        else:
            x_BSH.requires_grad_()
        y = self.model.through(x_BSH, layers_of(stage, setup))
        last = stage == setup.stages - 1
        if last:
            y = loss_of(y, targets, setup.train.batch * setup.model.sequence)
            self.loss += y.detach().double()
        passed = Passed(x_BSH, y)
        if splits_backward(setup.train.schedule):
            passed.split = SplitBackward(y, x_BSH, self.model.parameters())
        self._passed[stage, action.micro_batch] = passed
        return None if last else y.detach()

    def backward(self, action: Action, grad_y: torch.Tensor | None) -> torch.Tensor | None:
        """As in the table; None instead of x's gradient: the first stage."""
        at = action.stage, action.micro_batch
        passed = self._passed[at]
        if passed.split is not None:
            grad_x: torch.Tensor | None = passed.split.of_input(grad_y)
        else:
            del self._passed[at]
            torch.autograd.backward(passed.y, grad_y)
            grad_x = passed.x.grad if passed.x.is_leaf else None
        return grad_x if action.stage > 0 else None

    def weights(self, action: Action) -> None:
        """As in the table."""
        split = self._passed.pop((action.stage, action.micro_batch)).split
        assert split is not None, "the schedule splits backwards"
        split.of_weights()

    def _data(self, action: Action) -> tuple[torch.Tensor, torch.Tensor]:
        rank, setup = self.rank, self.rank.setup
        with rank.ledger.during("data", action.micro_batch):
            samples = samples_of(setup, rank.place, action.micro_batch)
            force(self.model.ways, setup, self._step, samples, rank.device)
            if action.stage not in (0, setup.stages - 1):
                empty = torch.empty(0, dtype=torch.int64)
                return empty, empty
            return batch_on(rank, self._step, samples)
