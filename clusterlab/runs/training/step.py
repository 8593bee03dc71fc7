"""What all ranks say of a step: one exchange of a few numbers, after which all go on together."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterlab.bench.control import Control
from clusterlab.runs.asked import Asked
from clusterlab.trainers.breakdown import Breakdown
from clusterlab.trainers.mesh import AXES

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Told:
    """A step as all ranks saw it. ``parts``: means, whose ``step_us`` is the slowest rank's and whose
    ``other_us`` has what the rest waited for it. ``stop``: the signal that asked a rank to end, or 0.
    ``collectives``: the most that a rank made. ``loss`` None: not finite.
    """

    parts: Breakdown
    slowest_rank: int
    loss: float | None
    memory_bytes: int
    collectives: int
    stop: int
    save: bool


def measured(
    control: Control, parts: Breakdown, loss: float, *, memory: int, collectives: int, asked: Asked
) -> Told:
    """Exchange this rank's figures. Collective; what signals ask of any rank is asked of all."""
    mine = [
        parts.step_us,
        parts.data_us,
        parts.forward_us,
        parts.backward_us,
        parts.bubble_us,
        parts.optimizer_us,
        parts.other_us,
        *(parts.exposed_us.get(axis, 0.0) for axis in AXES),
        float(memory),
        float(collectives),
        float(asked.stop),
        float(asked.save),
    ]
    rows = control.gather(mine)
    steps = [row[0] for row in rows]
    *_, memories, counts, stops, saves = zip(*rows, strict=True)
    return Told(
        parts=_mean(rows, max(steps)),
        slowest_rank=steps.index(max(steps)),
        loss=loss if math.isfinite(loss) else None,
        memory_bytes=int(max(memories)),
        collectives=int(max(counts)),
        stop=int(max(stops)),
        save=any(saves),
    )


def _mean(rows: Sequence[Sequence[float]], step_us: float) -> Breakdown:
    mean, data, forward, backward, bubble, optimizer, other, *rest = (
        statistics.fmean(column) for column in zip(*rows, strict=True)
    )
    exposed = {axis: us for axis, us in zip(AXES, rest, strict=False) if us > 0}
    waited = step_us - mean
    return Breakdown(step_us, data, forward, backward, exposed, bubble, optimizer, other + waited)


def peak_memory(device: torch.device, *, reset: bool = False) -> int:
    """The most bytes held since the last reset: of the GPU by torch's count, or by this process on the host,
    whose peak cannot be reset.
    """
    if device.type == "cuda":
        import torch

        if reset:
            torch.cuda.reset_peak_memory_stats(device)
        return torch.cuda.max_memory_allocated(device)
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
