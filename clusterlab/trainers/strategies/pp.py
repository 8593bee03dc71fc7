"""Pipeline parallelism, explicitly: each rank has some stages, and does its list of a schedule's actions.

      gpipe, p = 2, m = 2, rank by rank, time to the right; x and its gradient travel by send and recv only

      rank 0   embed, layers 0 1   |F 0|F 1|              ┌─|B 0|B 1|
                                     └─x_BSH─┐    ┌──grad─┘
      rank 1   layers 2 3, head          |F 0|F 1|B 0|B 1|

What is done in which order is not decided here: plans/messages.py has each rank's program, this one does it.
Sends and receives are posted where the program has them and waited for where an action needs them, so they
run beside computation. A rank posts them in an order that cannot lock up, whatever blocks.

Waiting is told apart from transfer. Before each x_BSH its sender posts one byte (phase ``handshake``). A
receiver that is early first waits for the byte: until then the sender has nothing to send yet, so that is
bubble (span ``wait``). What it then waits for x_BSH itself is transfer (span ``transfer``), which is the
exposed time of the ledger's entry. A sender waits for nothing until the step ends.

A loss is divided by the tokens of the whole batch, so gradients of micro-batches add up; were each divided by
its own tokens they would be m times too large, and no loss curve would show it.

Shapes: x_BSH with B sequences of a micro-batch, S the rank's own positions; the handshake is uint8 (1,).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import nn

from clusterlab.trainers.axis import Pending
from clusterlab.trainers.model import named
from clusterlab.trainers.plans.messages import Message, programs
from clusterlab.trainers.plans.routed import Routed
from clusterlab.trainers.plans.schedules import Action, schedule_of
from clusterlab.trainers.step import Held, Update
from clusterlab.trainers.strategies.stages import Stages, received_shape

PHASES = {"F": "forward", "B": "backward", "W": "backward"}


@dataclass(frozen=True, slots=True)
class Arriving:
    """A message under way to this rank: its handshake, and x_BSH or its gradient."""

    handshake: Pending
    pending: Pending
    tensor: torch.Tensor


class PipelineTrainer:
    """A rank's stages and its part of the schedule."""

    def __init__(self, stages: Stages, update: Update) -> None:
        self._stages, self._update = stages, update
        self._rank = rank = stages.rank
        self.parameters: Mapping[str, nn.Parameter] = named(stages.model)
        self._axis = rank.axes["pp"]
        self._program = programs(schedule_of(rank.setup))[self._axis.index]
        self._last = [step for step in self._program if isinstance(step, Action)][-1]
        self._arriving: dict[Action, Arriving] = {}
        self._made: dict[Action, torch.Tensor] = {}
        self._leaving: list[Pending] = []

    def step(self, number: int) -> float:
        """As in Trainer."""
        stages, ledger, update = self._stages, self._rank.ledger, self._update
        with ledger.step(number), stages.model.ways.noting():
            update.begin()
            stages.begin(number)
            for step in self._program:
                if isinstance(step, Action):
                    self._act(step)
                else:
                    self._post(step)
            for pending in self._leaving:
                pending.wait()
            self._leaving.clear()
            with ledger.during("reduce"):
                stages.model.ways.finish(self.parameters)
                update.reduce()
            with ledger.during("optimizer"):
                update.apply(self._rank.setup.train.lr)
            with ledger.during("loss"):
                # Only the last stage has one; all are told.
                self._axis.all_reduce(stages.loss)
                self._rank.axes["dp"].all_reduce(stages.loss)
        return stages.loss.item()

    @property
    def routed(self) -> tuple[Routed, ...]:
        """As in Trainer."""
        return self._stages.model.ways.routed

    def held(self) -> Held:
        """As in Trainer."""
        return self._update.held()

    def _act(self, action: Action) -> None:
        stages, phase, m = self._stages, PHASES[action.kind], action.micro_batch
        if action == self._last:
            self._update.last_backward()
        taken = self._take(action)
        with self._rank.ledger.during(phase, m):
            made: torch.Tensor | None = None
            if action.kind == "F":
                made = stages.forward(action, taken)
            elif action.kind == "B":
                made = stages.backward(action, taken)
            else:
                stages.weights(action)
        if made is not None:
            self._made[action] = made.contiguous()

    def _take(self, action: Action) -> torch.Tensor | None:
        """What ``action`` needs from another rank, once it is here."""
        arriving = self._arriving.pop(action, None)
        if arriving is None:
            return None
        with self._rank.ledger.during("wait", action.micro_batch):
            arriving.handshake.wait()
        with self._rank.ledger.during("transfer", action.micro_batch):
            arriving.pending.wait()
        return arriving.tensor

    def _post(self, message: Message) -> None:
        axis, ledger, made = self._axis, self._rank.ledger, message.made
        phase, m = PHASES[made.kind], made.micro_batch
        byte = torch.zeros(1, dtype=torch.uint8, device=self._rank.device)
        if message.source == axis.index:
            with ledger.labelled("handshake", m):
                self._leaving.append(axis.send(byte, message.target))
            with ledger.labelled(phase, m):
                self._leaving.append(axis.send(self._made.pop(made), message.target))
            return
        dtype: torch.dtype = getattr(torch, self._rank.setup.train.dtype)
        tensor = torch.empty(received_shape(self._rank.setup), dtype=dtype, device=byte.device)
        with ledger.labelled("handshake", m):
            handshake = axis.receive(byte, message.source)
        with ledger.labelled(phase, m):
            pending = axis.receive(tensor, message.source)
        self._arriving[message.taker] = Arriving(handshake, pending, tensor)
