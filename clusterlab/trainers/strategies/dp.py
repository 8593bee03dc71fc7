"""Data parallelism, explicitly: every rank has all parameters and its own sequences; gradients are summed.

Buckets are laid out in reverse order of use, so that the first is full while backward still goes on::

      rank 0   forward ──────── backward: head · blocks 3 2 1 0 · embed ─┐
                                     └─ bucket 0 ─┐  └─ bucket 1 ─┐  └───┼─ bucket 2 ─┐
                                          all_reduce   all_reduce        │  all_reduce │ update
      rank 1   forward ──────── backward ─────────────────────────────── ┘             └───────

Overlap off: all buckets go after backward. With several micro-batches gradients add up on the rank, and only
the last backward sends them: a step's bytes do not depend on their number.

A loss is a sum over own tokens divided by the tokens of all ranks, so gradients are summed, never averaged.
A rank's experts have copies on the ranks of ``edp`` only and are summed there. Every rank begins with the
values of the first (a broadcast of each bucket): ranks that begin apart stay apart, and no loss shows it.

Shapes: a bucket is one flat tensor of as many elements as its parameters have; after it is summed each
parameter's ``grad`` is a view of it.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from clusterlab.trainers.axis import Pending
from clusterlab.trainers.plans.buckets import Bucket
from clusterlab.trainers.step import LocalUpdate, OnRank
from clusterlab.trainers.strategies.flat import Flat, InOrder, start_alike


class BucketedUpdate(LocalUpdate):
    """All ranks have all gradients, and each updates all parameters."""

    def __init__(
        self, rank: OnRank, buckets: tuple[Bucket, ...], parameters: Mapping[str, nn.Parameter]
    ) -> None:
        super().__init__(parameters)
        self._rank = rank
        flats = [Flat(b, rank.axes[b.axis], parameters, padded=False) for b in buckets]
        with torch.no_grad():
            for flat, values in zip(flats, start_alike(rank, flats), strict=True):
                for parameter, value in zip(flat.parameters, flat.views(values), strict=True):
                    parameter.copy_(value)
        self._early = InOrder([flat for flat in flats if not flat.bucket.late], self._send)
        self._late = [flat for flat in flats if flat.bucket.late]
        self._pending: list[Pending] = []

    def begin(self) -> None:
        """As in Update."""
        super().begin()
        self._early.begin()

    def last_backward(self) -> None:
        """As in Update."""
        self._early.armed = self._rank.setup.train.overlap

    def reduce(self) -> None:
        """As in Update."""
        overlap, self._early.armed = self._early.armed, False
        with self._rank.ledger.labelled("backward" if overlap else "reduce"):
            self._early.flush()
        for flat in self._late:
            self._send(flat)
        for pending in self._pending:
            pending.wait()
        self._pending.clear()

    def _send(self, flat: Flat) -> None:
        summed = flat.gradients()
        for parameter, view in zip(flat.parameters, flat.views(summed), strict=True):
            parameter.grad = view
        self._pending.append(flat.axis.start_all_reduce(summed))
