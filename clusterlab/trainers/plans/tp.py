"""What tensor parallelism sends in a step: see strategies/tp.py."""

from __future__ import annotations

from clusterlab.core.dtypes import DTYPES
from clusterlab.trainers.config import Setup
from clusterlab.trainers.mesh import group_of
from clusterlab.trainers.plans.plan import PlannedCall


def calls(setup: Setup, rank: int) -> tuple[PlannedCall, ...]:
    """Of ``rank``. With positions split beside it (plans/sp.py) there are none of these."""
    mesh = setup.mesh
    if mesh.tp == 1 or mesh.sequence is not None:
        return ()
    ranks = group_of(rank, "tp", mesh)
    size, dtype = activation_bytes(setup), setup.train.dtype
    count = cut_pairs(setup) * setup.train.micro_batches
    return (
        PlannedCall(
            "all_reduce", "tp", ranks, size, dtype, "forward", count, False,
            "parts of x after each row-cut matrix",
        ),
        PlannedCall(
            "all_reduce", "tp", ranks, size, dtype, "backward", count, False,
            "parts of x's gradient before each column-cut matrix",
        ),
    )  # fmt: skip


def by_dtensor(setup: Setup) -> bool:
    """Whether torch's DTensor makes the calls along ``tp``.

    Torch has nothing with positions split instead of weights; beside torch's own data parallelism, which
    takes plain parameters here, the explicit form runs.
    """
    mesh = setup.mesh
    return setup.train.library and mesh.tp > 1 and mesh.dp == 1 and mesh.sequence != "ulysses"


def activation_bytes(setup: Setup) -> int:
    """Of x_BSH with all positions, one micro-batch."""
    model = setup.model
    return setup.rows * model.sequence * model.hidden * DTYPES[setup.train.dtype].bytes


def cut_pairs(setup: Setup) -> int:
    """Column-cut matrices followed by row-cut ones on a rank: attention's, and a dense MLP's."""
    return blocks(setup) * (1 if setup.model.experts else 2)


def blocks(setup: Setup) -> int:
    """On a rank, in all of its stages."""
    return setup.model.layers // setup.mesh.pp
