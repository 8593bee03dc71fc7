"""What a pipeline's ranks send each other in a step: see strategies/pp.py."""

from __future__ import annotations

from collections import Counter

from clusterlab.trainers.config import Setup
from clusterlab.trainers.mesh import group_of, place_of
from clusterlab.trainers.plans.plan import PlannedCall
from clusterlab.trainers.plans.tp import activation_bytes


def calls(setup: Setup, rank: int) -> tuple[PlannedCall, ...]:
    """Of ``rank``: for each micro-batch and each of its stages x to the next one and its gradient to the one
    before, and a byte ahead of each. All schedules send the same, only when differs; torch's own have no
    byte ahead.
    """
    mesh, M = setup.mesh, setup.train.micro_batches
    if mesh.pp == 1:
        return ()
    ranks, place = group_of(rank, "pp", mesh), place_of(rank, mesh)
    has_first, has_last = place.pp == 0, place.pp == mesh.pp - 1
    forward_out, forward_in = (M * (setup.train.chunks - end) for end in (has_last, has_first))
    # A gradient goes back along each way that an x came.
    way = Counter({
        ("send", "forward"): forward_out, ("recv", "forward"): forward_in,
        ("send", "backward"): forward_in, ("recv", "backward"): forward_out,
    })  # fmt: skip
    size = message_bytes(setup)
    found = [
        PlannedCall(
            op, "pp", ranks, size, setup.train.dtype, phase, count, True,
            "x to the next stage" if phase == "forward" else "x's gradient to the stage before",
        )
        for (op, phase), count in way.items()
    ]  # fmt: skip
    found += [] if setup.train.library else [
        PlannedCall(
            op, "pp", ranks, 1, "uint8", "handshake", way[op, "forward"] + way[op, "backward"],
            True, "a byte ahead of each, to tell waiting from transfer",
        )
        for op in ("send", "recv")
    ]  # fmt: skip
    found.append(
        PlannedCall(
            "all_reduce", "pp", ranks, 8, "float64", "loss", 1, False, "the last stage's loss"
        )
    )
    return tuple(call for call in found if call.count)


def message_bytes(setup: Setup) -> int:
    """Of x_BSH between stages, one micro-batch: a rank's own positions where they are split."""
    split = setup.mesh.tp if setup.mesh.sequence is not None else 1
    return activation_bytes(setup) // split
