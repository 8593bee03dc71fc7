"""What communication beside computation leaves exposed: one channel, one after the other. Pure.

Calls of two kinds: some bring what the next part of the computation needs (FSDP's all_gathers), others carry
away what a part has made (buckets of gradients)::

      compute       . |part 0|part 1|.|part 2|          gathers g: asked for when the part before begins
      channel       g0|g1|r0| g2    |r1|  |r2|          results r: as soon as their part is done
                    ^ exposed        ^      ^ exposed
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction


def exposed_us(compute_us: float, before: Sequence[float], after: Sequence[float]) -> float:
    """How much longer than ``compute_us`` it takes until all is done.

    ``before``, ``after``: µs of each call, in order; each kind cuts the computation in equal parts.
    """
    events = sorted(
        [(Fraction(i, len(before)), 1, i) for i in range(len(before))]
        + [(Fraction(i + 1, len(after)), 0, i) for i in range(len(after))]
    )
    clock = channel = 0.0
    done_at = Fraction(0)
    arrival = before[0] if before else 0.0
    channel = arrival
    for at, needs, i in events:
        clock += float(at - done_at) * compute_us
        done_at = at
        if not needs:
            channel = max(channel, clock) + after[i]
            continue
        clock = max(clock, arrival)
        if i + 1 < len(before):
            channel = max(channel, clock) + before[i + 1]
            arrival = channel
    clock += float(1 - done_at) * compute_us
    return max(clock, channel) - compute_us
