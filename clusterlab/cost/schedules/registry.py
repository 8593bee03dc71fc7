"""All algorithms by collective and name, and what to ask of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from clusterlab.core.suggest import unknown
from clusterlab.cost.schedules import (
    binomial,
    bruck,
    chain,
    collnet,
    double_binary_tree,
    exchanges,
    halving_doubling,
    nvls,
    nvls_tree,
    pat,
    ring,
    two_level,
)
from clusterlab.cost.schedules.counts import Counts
from clusterlab.cost.schedules.family import Family
from clusterlab.cost.schedules.rounds import Round
from clusterlab.cost.schedules.schedule import Flow, Phase, Schedule
from clusterlab.cost.schedules.shape import GroupShape

FAMILIES = (
    *ring.FAMILIES,
    *double_binary_tree.FAMILIES,
    *nvls.FAMILIES,
    *nvls_tree.FAMILIES,
    *collnet.FAMILIES,
    *pat.FAMILIES,
    *halving_doubling.FAMILIES,
    *bruck.FAMILIES,
    *chain.FAMILIES,
    *binomial.FAMILIES,
    *exchanges.FAMILIES,
    *two_level.FAMILIES,
)

ALGORITHMS: Mapping[tuple[str, str], Family] = MappingProxyType(
    {(f.collective, f.algorithm): f for f in FAMILIES}
)
"""(collective, algorithm) to the family; algorithm names are NCCL's in lower case where NCCL has one."""


def algorithms_for(collective: str) -> tuple[str, ...]:
    """Names of the algorithms of a collective."""
    return tuple(name for of, name in ALGORITHMS if of == collective)


def family(collective: str, algorithm: str) -> Family:
    """The family, or UsageError naming those there are and the nearest."""
    found = ALGORITHMS.get((collective, algorithm))
    if found is not None:
        return found
    names = algorithms_for(collective)
    if not names:
        raise unknown("collective", collective, dict.fromkeys(of for of, _ in ALGORITHMS))
    raise unknown(f"algorithm of {collective}", algorithm, names)


def counts(
    collective: str, algorithm: str, shape: GroupShape, size_bytes: float, *, chunks: int = 1
) -> Counts:
    """Steps, hops and bytes per class of link in closed form, microseconds for any number of ranks.

    ``size_bytes`` is nccl-tests' size, ``chunks`` how many follow each other through a pipelined
    algorithm (per rail and tree). UsageError for an unknown algorithm and for a shape it cannot do.
    """
    return family(collective, algorithm).counts(shape, size_bytes, chunks=chunks)


def schedule(
    collective: str, algorithm: str, shape: GroupShape, size_bytes: float, *, chunks: int = 1
) -> Schedule:
    """The algorithm as phases of flows, made from its rounds; like rounds in a row are one phase.

    End points from ``shape.ranks`` on are switches (``GroupShape.nvswitch_of``, ``network``). Builds
    every transfer: for small groups, and for algorithms of few rounds.
    """
    found = family(collective, algorithm)
    block = size_bytes / found.parts(shape, chunks)
    phases: list[Phase] = []
    for transfers in found.run(shape, chunks=chunks):
        flows, reduces = _flows(transfers, block), any(t.reduces for t in transfers)
        if phases and phases[-1].flows == flows and phases[-1].reduces == reduces:
            phases[-1] = Phase(phases[-1].name, flows, phases[-1].steps + 1, reduces)
        else:
            phases.append(Phase(f"phase {len(phases)}", flows, 1, reduces))
    return Schedule(collective, algorithm, shape.ranks, size_bytes, tuple(phases))


def _flows(transfers: Round, block_bytes: float) -> tuple[Flow, ...]:
    blocks: dict[tuple[int, int], int] = {}
    pairs: Iterable[tuple[int, int]] = ((t.src, t.dst) for t in transfers)
    for pair in pairs:
        blocks[pair] = blocks.get(pair, 0) + 1
    return tuple(Flow(src, dst, n * block_bytes) for (src, dst), n in sorted(blocks.items()))
