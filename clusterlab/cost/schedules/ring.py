"""Rings: reduce-scatter and all-gather of n-ths of the buffer, and what is made of them.

Step and volume formulas are standard (Thakur, Rabenseifner, Gropp 2005). n ranks, S bytes in nccl-tests'
sense, ranks in ring order.

The families spread the buffer over one ring per rail, as NCCL does (`src/graph/rings.cc`): ring c
enters a node at head c, visits its GPUs in order and leaves from the GPU before that head, so that
every NIC carries one ring each way. R rails, g ranks per node, N nodes.
"""

from __future__ import annotations

from collections.abc import Iterator

from clusterlab.cost.schedules.counts import Counts, even
from clusterlab.cost.schedules.family import Family
from clusterlab.cost.schedules.rounds import Round, Transfer
from clusterlab.cost.schedules.schedule import Flow, Phase, Schedule
from clusterlab.cost.schedules.shape import GroupShape

SOURCE = "Thakur, Rabenseifner, Gropp 2005; NCCL src/graph/rings.cc"


def ring_flows(n: int, size_bytes: float) -> tuple[Flow, ...]:
    """``size_bytes`` from every rank to the next."""
    return tuple(Flow(r, (r + 1) % n, size_bytes) for r in range(n)) if n > 1 else ()


def ring_all_reduce(n: int, S: float, *, chunks: int = 1) -> Schedule:
    """Reduce-scatter then all-gather around the ring: 2(n-1) steps of S/n, each in ``chunks`` parts."""
    flows = ring_flows(n, S / (n * chunks))
    steps = (n - 1) * chunks
    return Schedule(
        "all_reduce",
        "ring",
        n,
        S,
        (
            Phase("reduce_scatter", flows, steps, reduces=True),
            Phase("all_gather", flows, steps),
        ),
    )


def ring_reduce_scatter(n: int, S: float, *, chunks: int = 1) -> Schedule:
    """n-1 steps of S/n."""
    phase = Phase("reduce_scatter", ring_flows(n, S / (n * chunks)), (n - 1) * chunks, reduces=True)
    return Schedule("reduce_scatter", "ring", n, S, (phase,))


def ring_all_gather(n: int, S: float, *, chunks: int = 1) -> Schedule:
    """n-1 steps of S/n."""
    phase = Phase("all_gather", ring_flows(n, S / (n * chunks)), (n - 1) * chunks)
    return Schedule("all_gather", "ring", n, S, (phase,))


def ring_reduce_gather(n: int, S: float, *, chunks: int = 1, root: int = 0) -> Schedule:
    """Ring reduce-scatter, then every rank sends its reduced part to the root at once."""
    scatter = Phase(
        "reduce_scatter", ring_flows(n, S / (n * chunks)), (n - 1) * chunks, reduces=True
    )
    to_root = tuple(Flow(r, root, S / n) for r in range(n) if r != root)
    return Schedule(
        "reduce", "ring_gather", n, S, (scatter, Phase("gather", to_root, min(1, n - 1)))
    )


def ring_reduce_scatter_rounds(n: int) -> Iterator[Round]:
    """n blocks; afterwards rank r has block r complete."""
    for step in range(n - 1):
        yield [Transfer(r, (r + 1) % n, (r - step - 1) % n, reduces=True) for r in range(n)]


def ring_all_gather_rounds(n: int) -> Iterator[Round]:
    """n blocks; rank r starts with block r."""
    for step in range(n - 1):
        yield [Transfer(r, (r + 1) % n, (r - step) % n) for r in range(n)]


def ring_all_reduce_rounds(n: int) -> Iterator[Round]:
    """n blocks; both of the above."""
    yield from ring_reduce_scatter_rounds(n)
    yield from ring_all_gather_rounds(n)


def ring_reduce_gather_rounds(n: int, root: int) -> Iterator[Round]:
    """n blocks, reduced around the ring, then sent to the root by their owners."""
    yield from ring_reduce_scatter_rounds(n)
    if n > 1:
        yield [Transfer(r, root, r) for r in range(n) if r != root]


def ring_order(shape: GroupShape, rail: int) -> list[int]:
    """The ranks in the order in which ring ``rail`` visits them."""
    g, first = shape.ranks_per_node, shape.head_local(rail)
    return [node * g + (first + i) % g for node in range(shape.nodes) for i in range(g)]


def rail_reduce_scatter_rounds(shape: GroupShape, chunks: int = 1) -> Iterator[Round]:
    """R·n blocks: rank r ends with blocks r·R … r·R + R-1, block r·R + c by ring c."""
    n, rails = shape.ranks, shape.rails
    orders = [ring_order(shape, c) for c in range(rails)]
    for step in range(n - 1):
        yield [
            Transfer(o[i], o[(i + 1) % n], o[(i - step - 1) % n] * rails + c, reduces=True)
            for c, o in enumerate(orders)
            for i in range(n)
        ]


def rail_all_gather_rounds(shape: GroupShape, chunks: int = 1) -> Iterator[Round]:
    """R·n blocks, rank r begins with r·R … r·R + R-1."""
    n, rails = shape.ranks, shape.rails
    orders = [ring_order(shape, c) for c in range(rails)]
    for step in range(n - 1):
        yield [
            Transfer(o[i], o[(i + 1) % n], o[(i - step) % n] * rails + c)
            for c, o in enumerate(orders)
            for i in range(n)
        ]


def rail_all_reduce_rounds(shape: GroupShape, chunks: int = 1) -> Iterator[Round]:
    """Both."""
    yield from rail_reduce_scatter_rounds(shape)
    yield from rail_all_gather_rounds(shape)


def ring_volume(shape: GroupShape, rails: int, sent: float, steps: int, between: int) -> Counts:
    """Counts where every rank sends ``sent`` to the next on its rings, in equal shares.

    A GPU leaves its node on those rings that it is the last of: on one of R = g, on none where some GPU
    has no NIC of its own (then the busiest sends all of it inside).
    """
    g = shape.ranks_per_node
    if shape.nodes == 1:
        return even(steps=steps, hops=(shape.ranks - 1, 0), sent=sent, gpu=sent)
    inside = sent * (g - 1) / g if rails == g else sent
    return even(
        steps=steps,
        hops=(shape.ranks - 1 - between, between),
        sent=sent,
        gpu=inside,
        node=sent,
        nic=sent / rails,
    )


def ring_half_counts(shape: GroupShape, S: float, chunks: int = 1) -> Counts:
    """reduce_scatter, all_gather: n-1 steps, S(n-1)/n. A block makes n-1 of the n hops round the ring;
    N of them leave a host (N-1 where all hops do).
    """
    n, nodes = shape.ranks, shape.nodes
    between = nodes if shape.ranks_per_node > 1 else nodes - 1
    return ring_volume(shape, shape.rails, S * (n - 1) / n, n - 1, between)


def ring_all_reduce_counts(shape: GroupShape, S: float, chunks: int = 1) -> Counts:
    """2(n-1) steps, 2S(n-1)/n. A block makes 2n-2 hops: two rounds but for two hops in a row, so 2N of
    them leave a host (2N-1 with two GPUs per host, 2N-2 with one).
    """
    n, nodes = shape.ranks, shape.nodes
    once = ring_volume(shape, shape.rails, 2 * S * (n - 1) / n, 2 * (n - 1), 0)
    between = 2 * nodes - max(0, 3 - shape.ranks_per_node) if nodes > 1 else 0
    return Counts(
        once.steps,
        2 * (n - 1) - between,
        between,
        once.sent_bytes,
        once.gpu_out_bytes,
        once.gpu_in_bytes,
        once.node_out_bytes,
        once.node_in_bytes,
        once.nic_out_bytes,
        once.nic_in_bytes,
    )


def ring_gather_rounds(shape: GroupShape, chunks: int = 1) -> Iterator[Round]:
    """gloo's reduce: n blocks, reduced around one ring, then sent to the root by their owners."""
    n = shape.ranks
    yield from ring_reduce_scatter_rounds(n)
    yield [Transfer(r, 0, r) for r in range(1, n)]


def ring_gather_counts(shape: GroupShape, S: float, chunks: int = 1) -> Counts:
    """n steps; every rank sends S(n-1)/n around one ring and S/n to the root (gloo/reduce.cc)."""
    n, g, nodes, heads = shape.ranks, shape.ranks_per_node, shape.nodes, shape.heads
    block = S / n
    around = (n - 1) * block
    if nodes == 1:
        return Counts(n, n, 0, S, S, around + (g - 1) * block)
    last_nic = g - shape.head_local(heads - 1)
    between = nodes + 1 if g > 1 else nodes
    return Counts(
        steps=n,
        hops_inside=n - between,
        hops_between=between,
        sent_bytes=S,
        # The last GPU of a node sends out of it around the ring; with two, it is the root's only peer.
        gpu_out_bytes=(0.0, around, S)[min(g, 3) - 1],
        gpu_in_bytes=_gather_in(g, around, block),
        node_out_bytes=around + g * block,
        node_in_bytes=around + (n - g) * block,
        nic_out_bytes=around + last_nic * block,
        nic_in_bytes=around + (n - g) * block,
    )


def _gather_in(g: int, around: float, block: float) -> float:
    # The root is the first of its node: what comes around the ring reaches it from outside.
    return 0.0 if g == 1 else max(around, (g - 1) * block)


def _ring_parts(shape: GroupShape, chunks: int) -> int:
    return shape.ranks * shape.rails


FAMILIES = (
    Family(
        "all_reduce", "ring", _ring_parts, rail_all_reduce_rounds, ring_all_reduce_counts, SOURCE
    ),
    Family(
        "reduce_scatter",
        "ring",
        _ring_parts,
        rail_reduce_scatter_rounds,
        ring_half_counts,
        SOURCE,
    ),
    Family("all_gather", "ring", _ring_parts, rail_all_gather_rounds, ring_half_counts, SOURCE),
    Family(
        "reduce",
        "ring_gather",
        lambda shape, chunks: shape.ranks,
        ring_gather_rounds,
        ring_gather_counts,
        "gloo/reduce.cc",
    ),
)
