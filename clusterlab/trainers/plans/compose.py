"""A strategy's plan for one rank, put together: what it sends, computes and holds in a step. Pure.

Whatever is combined, each kind of parallelism plans its own calls (dp.py, tp.py, sp.py, pp.py, ep.py); a kind
that the mesh does not use has none.
"""

from __future__ import annotations

from clusterlab.trainers.config import Setup
from clusterlab.trainers.mesh import place_of
from clusterlab.trainers.plans import dp, ep, pp, sp, tp
from clusterlab.trainers.plans.memory import memory_of
from clusterlab.trainers.plans.plan import Plan, PlannedCall
from clusterlab.trainers.plans.schedules import layers_of, stages_of
from clusterlab.trainers.plans.work import work_of

PARTS = (tp, sp, ep, pp, dp)
"""In the order in which a step comes to them."""


def calls_of(setup: Setup, rank: int) -> tuple[PlannedCall, ...]:
    """Every collective of a step of ``rank``."""
    return tuple(call for part in PARTS for call in part.calls(setup, rank))


def plan_of(setup: Setup, rank: int) -> Plan:
    """Of ``rank``; ``setup`` is one that ``config.check`` lets pass."""
    stages = stages_of(place_of(rank, setup.mesh).pp, setup)
    flops = sum(work_of(setup, layers_of(stage, setup)).flops for stage in stages)
    return Plan(
        rank=rank,
        calls=calls_of(setup, rank),
        flops=flops * setup.train.micro_batches,
        memory=memory_of(setup, rank),
    )
