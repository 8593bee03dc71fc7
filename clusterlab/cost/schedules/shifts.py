"""Loads of algorithms whose every round sends from each rank to the one a fixed distance on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

from clusterlab.cost.schedules.counts import Counts
from clusterlab.cost.schedules.shape import GroupShape


def shift_counts(
    shape: GroupShape,
    shifts: Iterable[tuple[int, int]],
    *,
    block_bytes: float,
    steps: int,
    hops: tuple[int, int],
) -> Counts:
    """Exact counts where each rank r sends so many blocks to rank r + d (mod n), for (d, blocks) in
    ``shifts``. ``hops``: inside, between.

    From local rank l, distance d = q·g + e leads q nodes on if l + e < g, else q + 1; it stays inside
    if that is 0 modulo N. Takes O(shifts + g).
    """
    g, nodes = shape.ranks_per_node, shape.nodes
    leaves, enters = [0] * (g + 1), [0] * (g + 1)  # blocks inside, as differences along l
    total = 0
    for distance, blocks in shifts:
        total += blocks
        q, e = divmod(distance, g)
        if q % nodes == 0:
            _add(leaves, 0, g - e, blocks)
            _add(enters, e, g, blocks)
        if (q + 1) % nodes == 0:
            _add(leaves, g - e, g, blocks)
            _add(enters, 0, e, blocks)
    out, into = list(accumulate(leaves[:g])), list(accumulate(enters[:g]))
    node_out, nic_out = _over_nics(shape, [total - inside for inside in out])
    node_in, nic_in = _over_nics(shape, [total - inside for inside in into])
    return Counts(
        steps,
        hops[0],
        hops[1],
        *(
            blocks * block_bytes
            for blocks in (total, max(out), max(into), node_out, node_in, nic_out, nic_in)
        ),
    )


def _add(differences: list[int], first: int, end: int, blocks: int) -> None:
    differences[first] += blocks
    differences[end] -= blocks


def _over_nics(shape: GroupShape, crossing: Sequence[int]) -> tuple[int, int]:
    """Blocks of a node, and of its busiest NIC, from those of each local rank."""
    if shape.nodes == 1:
        return 0, 0
    nics = [0] * shape.heads
    for local, blocks in enumerate(crossing):
        nics[shape.nic_of(local)] += blocks
    return sum(crossing), max(nics)
