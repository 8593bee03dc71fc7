"""How many rows come from each rank, heard before they come."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from clusterlab.trainers.axis import Axis


@dataclass(frozen=True, slots=True)
class Coming:
    """How many rows come from each rank for each of this rank's experts: (R, e), there and on the host."""

    counts_Re: torch.Tensor
    told: list[list[int]]


def tell(counts: torch.Tensor, axis: Axis, *, beside: torch.Tensor) -> tuple[list[int], Coming]:
    """Every rank of ``axis`` hears how many rows for its experts come from each: its part of ``counts``. The
    host reads ``beside`` of this rank at the same time.
    """
    got_Re = axis.all_to_all(counts.view(axis.size, -1))
    numbers = torch.cat([beside, got_Re.view(-1)]).tolist()
    own, flat = numbers[: beside.numel()], numbers[beside.numel() :]
    each = got_Re.shape[1]
    return own, Coming(got_Re, [flat[i * each : (i + 1) * each] for i in range(axis.size)])
