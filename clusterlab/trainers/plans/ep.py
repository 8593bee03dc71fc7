"""What expert parallelism sends in a step: see strategies/ep.py. Bytes follow from how many rows go where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from clusterlab.core.dtypes import DTYPES
from clusterlab.trainers.config import Setup
from clusterlab.trainers.mesh import group_of
from clusterlab.trainers.plans.plan import PlannedCall
from clusterlab.trainers.plans.routed import Routed, by_mixture, expected, most_of, peers
from clusterlab.trainers.plans.tp import blocks

COUNT = DTYPES["int64"]
"""Of rows for an expert or a node."""


def calls(
    setup: Setup, rank: int, step: int = 0, routed: Mapping[int, Sequence[Routed]] | None = None
) -> tuple[PlannedCall, ...]:
    """Of ``rank``. ``routed``: what each rank of its group sent in the step. Without: exact where routing is
    forced, as if balanced where it is learned.
    """
    if not setup.model.experts:
        return ()
    sources = group_of(rank, "ep", setup.mesh)
    found: Counter[PlannedCall] = Counter()
    if routed is not None:
        for sent in by_mixture(routed[source] for source in sources).values():
            found.update(of_mixture(setup, rank, sent))
    else:
        for micro_batch in range(setup.train.micro_batches):
            sent = _expected(setup, sources, step, micro_batch)
            for call in of_mixture(setup, rank, sent):
                found[call] += blocks(setup)
    return tuple(replace(call, count=count) for call, count in found.items())


def _expected(setup: Setup, sources: Sequence[int], step: int, micro_batch: int) -> list[Routed]:
    if setup.train.routing == "learned":
        return [expected(setup, sources[0], step, micro_batch)] * len(sources)
    return [expected(setup, source, step, micro_batch) for source in sources]


def of_mixture(setup: Setup, rank: int, sent: Sequence[Routed]) -> Iterator[PlannedCall]:
    """Of one mixture, forward and backward, when each rank of the group ``sent`` that, in order."""
    model, mesh = setup.model, setup.mesh
    split = group_of(rank, "tp", mesh)
    if mesh.sequence is not None and len(split) > 1 and most_of(model) is not None:
        size = len(split) * setup.rows * model.experts * COUNT.bytes
        yield PlannedCall(
            "all_gather", "tp", split, size, COUNT.name, "forward", 1, False,
            "choices at earlier positions, for capacity",
        )  # fmt: skip
    ranks = group_of(rank, "ep", mesh)
    me = ranks.index(rank)
    if setup.train.expert_backend == "deep_ep":
        yield from _swaps(setup, "ep", ranks, rows=_larger([one.tokens for one in sent], me))
        return
    if mesh.per_node is None:
        rows = _larger(peers(sent), me)
        yield from _exchange(setup, "ep", ranks, model.experts, rows=rows)
        return
    rail, node = group_of(rank, "ep_rail", mesh), group_of(rank, "ep_node", mesh)
    on_rail = [sent[ranks.index(one)] for one in rail]
    share = model.experts // len(rail)
    tokens = _larger([one.tokens for one in on_rail], rail.index(rank))
    yield from _exchange(setup, "ep_rail", rail, len(rail), rows=tokens, weights=share)
    rows = _larger(_inside(setup, rank, sent), node.index(rank))
    yield from _exchange(setup, "ep_node", node, share, rows=rows)


def _inside(setup: Setup, rank: int, sent: Sequence[Routed]) -> list[list[int]]:
    """Rows between the ranks of ``rank``'s node: each hands on what came to it along its rail."""
    mesh = setup.mesh
    ranks, node = group_of(rank, "ep", mesh), group_of(rank, "ep_node", mesh)
    rows = peers(sent)
    handed = []
    for one in node:
        from_rail = [rows[ranks.index(source)] for source in group_of(one, "ep_rail", mesh)]
        handed.append([sum(row[ranks.index(to)] for row in from_rail) for to in node])
    return handed


def _larger(rows: Sequence[Sequence[int]], me: int) -> int:
    """Rows of the larger side of an all-to-all from each (row) to each (column)."""
    return max(sum(rows[me]), sum(row[me] for row in rows))


def _exchange(
    setup: Setup, axis: str, ranks: tuple[int, ...], counts: int, *, rows: int, weights: int = 0
) -> Iterator[PlannedCall]:
    """``counts`` numbers say how many rows come; then the rows go."""
    if len(ranks) == 1:
        return
    yield PlannedCall(
        "all_to_all", axis, ranks, counts * COUNT.bytes, COUNT.name, "forward", 1, False,
        "how many rows come from each rank",
    )  # fmt: skip
    yield from _swaps(setup, axis, ranks, rows=rows, weights=weights)


def _swaps(
    setup: Setup, axis: str, ranks: tuple[int, ...], *, rows: int, weights: int = 0
) -> Iterator[PlannedCall]:
    """``rows`` there, ``weights`` wide beside H, and back, in both directions of the mixture."""
    dtype, H = DTYPES[setup.train.dtype], setup.model.hidden
    there, back = rows * (H + weights) * dtype.bytes, rows * H * dtype.bytes
    for phase, out, home in (
        ("forward", "tokens to experts", "what experts say of them"),
        ("backward", "gradients back from experts", "gradients to experts"),
    ):
        for size, why in ((there, out), (back, home)):
            yield PlannedCall("all_to_all_v", axis, ranks, size, dtype.name, phase, 1, False, why)
