"""A strategy's plan for one rank, put together: what it sends, computes and holds in a step. Pure.

Whatever is combined, each kind of parallelism plans its own calls (dp.py, tp.py, sp.py, pp.py, ep.py); a kind
that the mesh does not use has none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clusterlab.trainers.config import Setup
from clusterlab.trainers.mesh import place_of
from clusterlab.trainers.plans import dp, ep, pp, sp, tp
from clusterlab.trainers.plans.memory import memory_of
from clusterlab.trainers.plans.plan import Plan, PlannedCall
from clusterlab.trainers.plans.routed import Routed
from clusterlab.trainers.plans.schedules import layers_of, stages_of
from clusterlab.trainers.plans.work import work_of


def calls_of(
    setup: Setup, rank: int, step: int = 0, routed: Mapping[int, Sequence[Routed]] | None = None
) -> tuple[PlannedCall, ...]:
    """Every collective of ``rank`` in ``step``, in the order in which a step comes to them. Only those of
    experts differ from step to step; ``routed`` as in plans/ep.py.
    """
    return (
        *tp.calls(setup, rank),
        *sp.calls(setup, rank),
        *ep.calls(setup, rank, step, routed),
        *pp.calls(setup, rank),
        *dp.calls(setup, rank),
    )


def plan_of(setup: Setup, rank: int, step: int = 0) -> Plan:
    """Of ``rank`` in ``step``; ``setup`` is one that ``config.check`` lets pass."""
    stages = stages_of(place_of(rank, setup.mesh).pp, setup)
    flops = sum(work_of(setup, layers_of(stage, setup)).flops for stage in stages)
    return Plan(
        rank=rank,
        calls=calls_of(setup, rank, step),
        flops=flops * setup.train.micro_batches,
        memory=memory_of(setup, rank),
    )
