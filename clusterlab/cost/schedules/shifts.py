"""Loads of algorithms whose every round sends from each rank to the one a fixed distance on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

from clusterlab.cost.schedules.counts import Counts
from clusterlab.cost.schedules.shape import GroupShape


def shift_counts(
    shape: GroupShape,
    shifts: Iterable[tuple[int, float]],
    *,
    steps: int,
    hops: tuple[int, int],
) -> Counts:
    """Exact counts where each rank r sends so many bytes to rank r + d (mod n), for (d, bytes) in
    ``shifts``. ``hops``: inside, between.

    From local rank l, distance d = q·g + e leads q nodes on if l + e < g, else q + 1; it stays inside
    if that is 0 modulo N. Takes O(shifts + g).
    """
    g, nodes = shape.ranks_per_node, shape.nodes
    leaves, enters = [0.0] * (g + 1), [0.0] * (g + 1)  # bytes inside, as differences along l
    total = 0.0
    for distance, size in shifts:
        total += size
        q, e = divmod(distance, g)
        if q % nodes == 0:
            _add(leaves, 0, g - e, size)
            _add(enters, e, g, size)
        if (q + 1) % nodes == 0:
            _add(leaves, g - e, g, size)
            _add(enters, 0, e, size)
    out, into = list(accumulate(leaves[:g])), list(accumulate(enters[:g]))
    node_out, nic_out = _over_nics(shape, [total - inside for inside in out])
    node_in, nic_in = _over_nics(shape, [total - inside for inside in into])
    return Counts(
        steps,
        hops[0],
        hops[1],
        total,
        max(out),
        max(into),
        node_out,
        node_in,
        nic_out,
        nic_in,
    )


def _add(differences: list[float], first: int, end: int, size: float) -> None:
    differences[first] += size
    differences[end] -= size


def _over_nics(shape: GroupShape, crossing: Sequence[float]) -> tuple[float, float]:
    """Bytes of a node, and of its busiest NIC, from those of each local rank."""
    if shape.nodes == 1:
        return 0.0, 0.0
    nics = [0.0] * shape.heads
    for local, size in enumerate(crossing):
        nics[shape.nic_of(local)] += size
    return sum(crossing), max(nics)
