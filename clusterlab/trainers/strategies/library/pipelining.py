"""Pipeline parallelism by torch's own parts: the same stages under torch.distributed.pipelining's schedules.

      schedule       torch's                           stages of a rank
      gpipe          ScheduleGPipe                     1
      1f1b           Schedule1F1B                      1
      interleaved    ScheduleInterleaved1F1B           chunks
      zero_bubble    ScheduleInterleavedZeroBubble     1 (then its order is ZB-H1's)

      PipelineStage    module, its number of how many, examples of what it takes and gives, the group along pp
      Schedule…        cuts the batch into micro-batches, runs stages' forwards and backwards in its order,
                       and sends between them (batch_isend_irecv)

``scale_grads=False``: torch would divide gradients by the number of micro-batches, for losses that are means
over one; ours are parts of a sum.

Torch sends by itself; noted.py puts its sends and receives into the ledger. There are no handshakes, so
waiting for a message is not told from its transfer. The last two schedules take micro-batches only in rounds
of equal size.

Shapes: the batch of a data parallel rank (M·B, S) in, x_BSH between stages, logits_BSV out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.distributed.pipelining import (
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
)
from torch.distributed.pipelining.schedules import ScheduleInterleavedZeroBubble

from clusterlab.core.errors import UsageError
from clusterlab.trainers.model import Transformer, loss_of, named
from clusterlab.trainers.plans.routed import Routed
from clusterlab.trainers.plans.schedules import group_sizes, layers_of, stages_of
from clusterlab.trainers.step import Held, OnRank, Update, batch_on, samples_of
from clusterlab.trainers.strategies.library.noted import noting_messages
from clusterlab.trainers.strategies.library.noted_stage import NotedStage
from clusterlab.trainers.strategies.stages import received_shape

ONE = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}
SEVERAL = {"interleaved": ScheduleInterleaved1F1B, "zero_bubble": ScheduleInterleavedZeroBubble}


class Part(nn.Module):
    """Some consecutive layers of ``model``, whose parameters they stay."""

    def __init__(self, model: Transformer, layers: range) -> None:
        super().__init__()
        self.model, self.layers = model, layers

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if 0 in self.layers and self.model.embed is not None:
            x = self.model.embed(x)
        return self.model.through(x, self.layers)


class TorchPipelineTrainer:
    """A rank's stages under torch's schedule."""

    def __init__(self, rank: OnRank, model: Transformer, update: Update) -> None:
        setup = rank.setup
        check_rounds(setup.train.schedule, setup.mesh.pp, setup.train.micro_batches)
        if setup.train.routing != "learned":
            raise UsageError(
                f"routing {setup.train.routing} in torch's pipeline", where="library",
                expected="learned routing, or the explicit pipeline",
            )  # fmt: skip
        self._rank, self._model, self._update = rank, model, update
        self.parameters: Mapping[str, nn.Parameter] = named(model)
        self._labels: dict[int, tuple[str, int]] = {}
        stages = [
            _stage(rank, model, stage, self._labels) for stage in stages_of(rank.place.pp, setup)
        ]
        tokens = setup.train.batch * setup.model.sequence

        def loss_fn(logits_BSV: torch.Tensor, targets_BS: torch.Tensor) -> torch.Tensor:
            return loss_of(logits_BSV, targets_BS, tokens)

        name, m = setup.train.schedule, setup.train.micro_batches
        self._schedule: Any = (
            ONE[name](stages[0], m, loss_fn=loss_fn, scale_grads=False)
            if name in ONE
            else SEVERAL[name](stages, m, loss_fn=loss_fn, scale_grads=False)  # type: ignore[arg-type]
        )

    def step(self, number: int) -> float:
        """As in Trainer."""
        rank, ledger, update = self._rank, self._rank.ledger, self._update
        pp, setup = rank.axes["pp"], rank.setup
        losses: list[torch.Tensor] = []
        with ledger.step(number), self._model.ways.noting(), noting_messages(pp, self._labels):
            update.begin()
            self._labels.clear()
            with ledger.during("data"):
                inputs, targets = self._data(number)
            first = (inputs,) if pp.index == 0 else ()
            last = {"target": targets, "losses": losses} if pp.index == pp.size - 1 else {}
            self._schedule.step(*first, **last, return_outputs=False)
            update.last_backward()  # it is over
            with ledger.during("reduce"):
                self._model.ways.finish(self.parameters)
                update.reduce()
            with ledger.during("optimizer"):
                update.apply(setup.train.lr)
            total = torch.zeros((), dtype=torch.float64, device=rank.device)
            for loss in losses:
                total += loss.detach().double()
            with ledger.during("loss"):
                pp.all_reduce(total)
                rank.axes["dp"].all_reduce(total)
        return total.item()

    @property
    def routed(self) -> tuple[Routed, ...]:
        """As in Trainer."""
        return self._model.ways.routed

    def held(self) -> Held:
        """As in Trainer."""
        return self._update.held()

    def _data(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        setup, place = self._rank.setup, self._rank.place
        own = [samples_of(setup, place, m) for m in range(setup.train.micro_batches)]
        return batch_on(self._rank, step, range(own[0].start, own[-1].stop))


def check_rounds(name: str, pp: int, micro_batches: int) -> None:
    """Raises UsageError where torch's schedule cannot have so many micro-batches."""
    if name in ONE or len(set(group_sizes(pp, micro_batches))) == 1:
        return
    rounds = len(group_sizes(pp, micro_batches))
    below, above = (micro_batches // rounds + i for i in (0, 1))
    raise UsageError(
        f"{micro_batches} micro-batches for torch's {SEVERAL[name].__name__} on {pp} ranks",
        where="micro_batches",
        expected=f"{rounds} rounds of equal size",
        fix=f"--micro-batches {below * rounds}, --micro-batches {above * rounds}, or without library",
    )


def _stage(
    rank: OnRank, model: Transformer, stage: int, labels: dict[int, tuple[str, int]]
) -> NotedStage:
    setup = rank.setup
    dtype: torch.dtype = getattr(torch, setup.train.dtype)
    tokens = torch.zeros((setup.rows, setup.model.sequence), dtype=torch.int64, device=rank.device)
    x = torch.zeros(received_shape(setup), dtype=dtype, device=rank.device, requires_grad=True)
    logits = x.new_zeros((*tokens.shape, setup.model.vocab), requires_grad=True)
    made = NotedStage(
        Part(model, layers_of(stage, setup)),
        stage,
        setup.stages,
        rank.device,
        input_args=tokens if stage == 0 else x,
        output_args=logits if stage == setup.stages - 1 else x,
        group=rank.axes["pp"].group,
    )
    made.ledger, made.labels = rank.ledger, labels
    return made
