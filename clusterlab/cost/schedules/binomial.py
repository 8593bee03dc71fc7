"""Binomial trees of whole buffers (Thakur, Rabenseifner, Gropp 2005)."""

from __future__ import annotations

from collections.abc import Iterator

from clusterlab.cost.schedules.counts import Counts
from clusterlab.cost.schedules.family import Family
from clusterlab.cost.schedules.logs import ceil_log2, floor_log2, power_of_two_nodes
from clusterlab.cost.schedules.rounds import Round, Transfer
from clusterlab.cost.schedules.schedule import Flow, Phase, Schedule
from clusterlab.cost.schedules.shape import GroupShape

SOURCE = "Thakur, Rabenseifner, Gropp 2005"


def binomial_broadcast(n: int, S: float, *, root: int = 0) -> Schedule:
    """ceil(log2 n) levels; in level i the 2^i ranks that have the buffer each send it whole to one more."""
    phases = []
    for level in range((n - 1).bit_length()):
        pairs = [(r, r + (1 << level)) for r in range(1 << level) if r + (1 << level) < n]
        flows = tuple(Flow((a + root) % n, (b + root) % n, S) for a, b in pairs)
        phases.append(Phase(f"level {level}", flows, 1))
    return Schedule("broadcast", "binomial_tree", n, S, tuple(phases))


def binomial_broadcast_rounds(n: int, root: int) -> Iterator[Round]:
    """One block."""
    span = 1
    while span < n:
        yield [
            Transfer((r + root) % n, (r + span + root) % n, 0) for r in range(span) if r + span < n
        ]
        span *= 2


def binomial_reduce_rounds(shape: GroupShape, chunks: int = 1) -> Iterator[Round]:
    """One block; the broadcast's rounds backwards."""
    for transfers in reversed(list(binomial_broadcast_rounds(shape.ranks, 0))):
        yield [Transfer(t.dst, t.src, t.block, reduces=True) for t in transfers]


def binomial_broadcast_counts(shape: GroupShape, S: float, chunks: int = 1) -> Counts:
    """ceil(log2 n) steps; the root sends S in each of them, a node receives g·S."""
    n, g = shape.ranks, shape.ranks_per_node
    steps, inside = ceil_log2(n), ceil_log2(g)
    hops = _tree_hops(shape)
    if shape.nodes == 1:
        return Counts(steps, hops[0], hops[1], steps * S, steps * S, S)
    by_nic = [_binomial_crossings(shape, head) for head in range(shape.heads)]
    return Counts(
        steps,
        hops[0],
        hops[1],
        steps * S,
        inside * S,
        S if g > 1 else 0.0,
        sum(by_nic) * S,
        g * S,
        max(by_nic) * S,
        shape.most_per_nic * S,
    )


def _binomial_crossings(shape: GroupShape, head: int) -> int:
    """Messages out of the root's node by one of its NICs: in round i from ranks r < 2^i to r + 2^i."""
    n, g = shape.ranks, shape.ranks_per_node
    first = shape.head_local(head)
    end = shape.head_local(head + 1) if head + 1 < shape.heads else g
    spans = (1 << i for i in range(ceil_log2(n)))
    return sum(max(0, min(end, s, n - s) - max(first, g - s)) for s in spans)


def binomial_reduce_counts(shape: GroupShape, S: float, chunks: int = 1) -> Counts:
    """The broadcast's, backwards: every rank but the root sends S once."""
    back = binomial_broadcast_counts(shape, S).reversed()
    return Counts(
        back.steps,
        back.hops_inside,
        back.hops_between,
        S,
        back.gpu_out_bytes,
        back.gpu_in_bytes,
        back.node_out_bytes,
        back.node_in_bytes,
        back.nic_out_bytes,
        back.nic_in_bytes,
    )


def _tree_hops(shape: GroupShape) -> tuple[int, int]:
    """One hop per bit of the rank; bits of g and above leave the node. Where g is no power of two one
    of the lower bits may too, and this is an upper bound.
    """
    n, g = shape.ranks, shape.ranks_per_node
    if shape.nodes == 1:
        return floor_log2(n), 0
    low = ceil_log2(g)
    if g == 1 << low:
        return low, floor_log2(shape.nodes)
    between = min(floor_log2(n), floor_log2(((n - 1) >> low) + 1) + 1)
    return floor_log2(n) - between, between


def _one(shape: GroupShape, chunks: int) -> int:
    return 1


FAMILIES = (
    Family(
        "broadcast",
        "binomial_tree",
        _one,
        lambda shape, chunks: binomial_broadcast_rounds(shape.ranks, 0),
        binomial_broadcast_counts,
        SOURCE,
        exact_hops=power_of_two_nodes,
    ),
    Family(
        "reduce",
        "binomial_tree",
        _one,
        binomial_reduce_rounds,
        binomial_reduce_counts,
        SOURCE,
        exact_hops=power_of_two_nodes,
    ),
)
