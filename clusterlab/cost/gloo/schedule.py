"""What gloo really does for each call of torch.distributed (torch 2.13's ProcessGroupGloo).

Read in pytorch/gloo 70dc3602 (gloo/allreduce.cc, reduce.cc, broadcast.cc, allgather.cc, alltoall.cc,
alltoallv.cc, gather.cc, scatter.cc) and checked against the bytes that cross the loopback interface (n
ranks, S bytes):

    all_reduce      ring to rank - 1, at least 2 segments per rank of at most 1 MiB    2(n-1) S
    reduce_scatter  torch copies the input, runs the all_reduce, keeps a slice        2(n-1) S
    all_gather      ring to rank + 1 in half parts; torch gathers into a fresh buffer
                    and copies                                                         (n-1) S
    all_to_all      all sends posted at once, the one to rank + 1 first                (n-1) S
    all_to_all_v    the same with the parts as they are                              its parts
    gather          all ranks send to the root at once; torch gathers into a fresh
                    buffer and copies                                            S (n-1)/n
    scatter         the root posts all its sends at once                         S (n-1)/n
    broadcast       binomial tree of the whole buffer, no pipelining                   (n-1) S
    reduce          ring reduce-scatter to rank - 1, then every rank sends its part
                    to the root                                                        (n-1) S + S (n-1)/n
    send_recv       isend to rank + 1 and irecv from rank - 1                              n S
    send            isend and irecv between two ranks                                        S
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from clusterlab.core.uneven import parts_of
from clusterlab.cost.schedules import binomial, direct, ring
from clusterlab.cost.schedules.schedule import Flow, Phase, Schedule

SEGMENT_BYTES = 1 << 20
"""kMaxSegmentSize of gloo/allreduce.h and gloo/reduce.h."""


def gloo_schedule(
    collective: str, n: int, size_bytes: float, *, root: int = 0, uneven: str | None = None
) -> Schedule:
    """What gloo runs for ``size_bytes`` (nccl-tests' size) among ``n`` ranks; ``uneven`` names how the parts
    of an all_to_all_v differ.
    """
    S = float(size_bytes)
    segments = segments_per_rank(n, S)
    build: dict[str, Callable[[], Schedule]] = {
        "all_reduce": lambda: _to_the_one_before(ring.ring_all_reduce(n, S, chunks=segments)),
        "reduce_scatter": lambda: replace(
            _to_the_one_before(ring.ring_all_reduce(n, S, chunks=segments)),
            collective="reduce_scatter",
            algorithm="ring_all_reduce",
            copied_bytes=n * S + S,
        ),
        "all_gather": lambda: replace(ring.ring_all_gather(n, S, chunks=2), copied_bytes=n * S + S),
        "all_to_all": lambda: replace(direct.direct_all_to_all(n, S), copied_bytes=S),
        "all_to_all_v": lambda: _all_to_all_v(n, S, uneven),
        "gather": lambda: replace(direct.direct_gather(n, S, root=root), copied_bytes=S / n + S),
        "scatter": lambda: replace(direct.direct_scatter(n, S, root=root), copied_bytes=S / n),
        "broadcast": lambda: binomial.binomial_broadcast(n, S, root=root),
        "reduce": lambda: _to_the_one_before(
            ring.ring_reduce_gather(n, S, chunks=segments, root=root)
        ),
        "send_recv": lambda: direct.ring_shift(n, S),
        "send": lambda: direct.one_message(S),
    }
    return build[collective]()


def _all_to_all_v(n: int, S: float, uneven: str | None) -> Schedule:
    if uneven is None:
        even = replace(direct.direct_all_to_all(n, S), collective="all_to_all_v")
        return replace(even, copied_bytes=S)
    matrix = parts_of(uneven, n, int(S))
    own = sum(matrix[rank][rank] for rank in range(n))
    return replace(direct.direct_all_to_all_v(matrix, S), copied_bytes=own)


def _to_the_one_before(schedule: Schedule) -> Schedule:
    """The same with its rings turned round: sendRank is rank - 1 in gloo/allreduce.cc and reduce.cc."""
    n = schedule.world_size

    def turned(phase: Phase) -> Phase:
        if any(f.dst != (f.src + 1) % n for f in phase.flows):
            return phase
        flows = tuple(Flow(f.src, (f.src - 1) % n, f.size_bytes) for f in phase.flows)
        return replace(phase, flows=flows)

    return replace(schedule, phases=tuple(map(turned, schedule.phases)))


def segments_per_rank(n: int, S: float) -> int:
    """Segments each rank's n-th of the buffer is sent in."""
    whole_buffer = max(2 * n, -int(-S // SEGMENT_BYTES))
    return -(-whole_buffer // n)
