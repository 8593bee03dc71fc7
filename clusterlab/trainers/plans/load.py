"""What the routers of all ranks chose in a step, added up: who was busy, and who sent whom how much. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from clusterlab.core.dtypes import DTYPES
from clusterlab.core.stepping import ExpertLoad
from clusterlab.trainers.config import Setup
from clusterlab.trainers.mesh import place_of
from clusterlab.trainers.plans.routed import Routed, figures, peers


def totals(setup: Setup, routed: Sequence[Routed]) -> list[int]:
    """Of one rank's mixtures in a step: its choices of each expert, and how many were dropped."""
    counts = [sum(column) for column in zip(*(one.counts for one in routed), strict=True)]
    return [*(counts or [0] * setup.model.experts), sum(one.dropped for one in routed)]


def expert_load(
    setup: Setup, step: int, attempt: int, by_rank: Sequence[Sequence[float]]
) -> ExpertLoad:
    """Of a step, from the ``totals`` of every rank. Tensor parallel ranks route the same tokens unless they
    split positions: the first of them counts.
    """
    experts, mesh = setup.model.experts, setup.mesh
    added = [[0] * (experts + 1) for _ in range(mesh.ep)]
    for rank, own in enumerate(by_rank):
        place = place_of(rank, mesh)
        if place.tp and mesh.sequence is None:
            continue
        added[place.ep] = [a + int(b) for a, b in zip(added[place.ep], own, strict=True)]
    sources = [Routed(-1, 0, tuple(own[:experts]), (), own[experts]) for own in added]
    found = figures(sources)
    row_bytes = setup.model.hidden * DTYPES[setup.train.dtype].bytes
    return ExpertLoad(
        step=step,
        attempt=attempt,
        tokens=tuple(sum(column) for column in zip(*(s.counts for s in sources), strict=True)),
        dropped=sum(source.dropped for source in sources),
        cv=found.cv,
        overload=found.overload,
        entropy=found.entropy,
        rows_bytes=tuple(tuple(row) for row in peers(sources, row_bytes)),
    )
