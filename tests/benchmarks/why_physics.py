"""What a fault does to the wires: a rate, a latency, and which of the healthy times they reach.

Nothing of ``clusterlab.cost`` is used. What a fault does not touch keeps its time; what it touches keeps the
healthy curve's noise.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from tests.benchmarks.why_bases import Base

RINGS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast")
"""Collectives of which NCCL chooses algorithm and protocol, and whose busbw a ring of links sets."""


def _rough(base: Base) -> list[float]:
    """Log of each row over the line through its neighbours in size: the base's own noise."""
    logs = [math.log(t) for t in base.times_us]
    steps = 2 if len(set(base.sizes)) < len(base.sizes) else 1
    off = [0.0] * len(logs)
    for i in range(steps, len(logs) - steps):
        near = (logs[i - steps] + logs[i + steps]) / 2
        off[i] = (logs[i] - near) / math.sqrt(1.5)
    return off


def at_least(base: Base, other: Sequence[float]) -> tuple[float, ...]:
    """The healthy rows, or ``other`` with their noise where that takes longer."""
    rough = _rough(base)
    return tuple(
        max(t, o * math.exp(r)) for t, o, r in zip(base.times_us, other, rough, strict=True)
    )


def limited(
    base: Base, draw: random.Random, busbw_GBps: float, latency_us: float | None = None
) -> tuple[float, ...]:
    """Everything through a resource that gives at most this busbw, with a latency of its own."""
    p = draw.uniform(1.3, 3.0)
    ramp = math.exp(draw.uniform(math.log(64 << 10), math.log(2 << 20)))
    floor = latency_us or base.floor_us
    other = []
    for point in base.points:
        wire = point.busbw_GBps * point.time_us / busbw_GBps
        wire *= 1 + math.sqrt(ramp / point.size_bytes) * min(1.0, busbw_GBps / base.plateau_GBps)
        other.append((floor**p + wire**p) ** (1 / p))
    return at_least(base, other)


def network_steps(base: Base) -> float:
    """Messages between nodes one after another in a small call: up and down a tree; one for the rest."""
    if base.points[0].collective == "all_reduce":
        return 2 * math.log2(base.nodes)
    return math.log2(base.nodes) + 1


def of_network(base: Base, share: float) -> float:
    """busbw when each node's NICs give ``share`` of their rate.

    On two nodes an all_reduce by NVLS trees sends S each way where a ring sends 2 S (n-1)/n: there the
    links inside are the limit until the NICs have lost some of their rate.
    """
    collective, net = base.points[0].collective, base.site.nics * base.site.nic_GBps
    if collective == "all_reduce" and base.nodes == 2 and base.site.nvls and net:
        return min(base.plateau_GBps, 2 * (1 - 1 / base.ranks) * 0.9 * net * share)
    return base.plateau_GBps * share


def ring_GBps(base: Base) -> float:
    """What a ring gets where NVLS is faster: its links' rate on one node, the NICs' between nodes."""
    if not base.site.nvls or base.points[0].collective != "all_reduce":
        return base.plateau_GBps
    if base.nodes > 1:
        return min(base.plateau_GBps, 0.98 * base.site.nics * base.site.nic_GBps)
    return base.plateau_GBps * (0.76 if base.ranks > 4 else 0.95)


def networked(base: Base) -> bool:
    return base.nodes > 1 and base.site.nics > 0 and base.has_plateau


def one_node(base: Base) -> bool:
    return base.nodes == 1 and base.has_plateau
