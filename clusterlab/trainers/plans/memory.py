"""What a rank holds at a step's fullest moment, by what it is. Pure.

Plain SGD keeps no state. Of data parallel copies: ZeRO-2 keeps a share of gradients and the bucket that is
being summed, FSDP a share of both and the units at work. Activations are those of the micro-batches that are
between their forward and their backward at once, by the schedule's own list of actions.
"""

from __future__ import annotations

from itertools import pairwise

from clusterlab.core.dtypes import dtype
from clusterlab.trainers.config import Setup
from clusterlab.trainers.mesh import place_of
from clusterlab.trainers.plans.activations import saved_bytes
from clusterlab.trainers.plans.buckets import buckets, units
from clusterlab.trainers.plans.plan import Memory
from clusterlab.trainers.plans.pp import message_bytes
from clusterlab.trainers.plans.schedules import layers_of, schedule_of, splits_backward, stages_of
from clusterlab.trainers.plans.sp import held_by, own_elements


def memory_of(setup: Setup, rank: int) -> Memory:
    """Of ``rank``."""
    item, kind = dtype(setup.train.dtype).bytes, setup.train.data_parallel
    held = held_by(setup, rank)
    whole = sum(own_elements(weight, setup) for weight in held)
    share = sum(-(-own_elements(w, setup) // copies_of(w.axis, setup)) for w in held)
    parameters = gradients = whole
    if setup.mesh.dp > 1 and kind == "fsdp":
        sizes = [sum(b.total for b in unit.buckets) for unit in units(setup, held)]
        # The unit at work, and the next one, which comes meanwhile.
        ahead = max(map(sum, pairwise([*sizes, 0]))) if setup.train.overlap else max(sizes)
        parameters, gradients = share + ahead, share + max(sizes)
    elif setup.mesh.dp > 1 and kind == "zero2":
        gradients = share + max(bucket.total for bucket in buckets(setup, held))
    return Memory(
        parameters=min(parameters, whole) * item,
        gradients=min(gradients, whole) * item,
        optimizer=0,
        activations=activations_of(setup, rank),
    )


def copies_of(axis: str | None, setup: Setup) -> int:
    """Data parallel ranks that would each hold the same parameter, cut along ``axis``."""
    mesh = setup.mesh
    return mesh.dp // mesh.ep if axis == "ep" else mesh.dp


def activations_of(setup: Setup, rank: int) -> int:
    """The most that is kept at once."""
    pp = place_of(rank, setup.mesh).pp
    if setup.mesh.pp == 1:
        return saved_bytes(setup, range(setup.model.layers))
    by_stage = {
        stage: saved_bytes(setup, layers_of(stage, setup))
        + (message_bytes(setup) if stage < setup.stages - 1 else 0)  # what it gave, until B
        for stage in stages_of(pp, setup)
    }
    freed = "W" if splits_backward(setup.train.schedule) else "B"
    held = most = 0
    for action in schedule_of(setup)[pp]:
        if action.kind == "F":
            held += by_stage[action.stage]
            most = max(most, held)
        elif action.kind == freed:
            held -= by_stage[action.stage]
    return most


def update_elements(setup: Setup, rank: int) -> int:
    """How many parameters ``rank`` updates."""
    shared = setup.train.data_parallel != "ddp"
    return sum(
        -(-own_elements(weight, setup) // (copies_of(weight.axis, setup) if shared else 1))
        for weight in held_by(setup, rank)
    )
