"""What a fault does to the wires: a rate, a latency, and which of the healthy times they reach.

Nothing of ``clusterlab.cost`` is used. What a fault does not touch keeps its time; what it touches keeps the
healthy curve's noise.
"""

from __future__ import annotations

import math
import random

from tests.benchmarks.why_bases import Base

RINGS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast")
"""Collectives of which NCCL chooses algorithm and protocol, and whose busbw a ring of links sets."""


_OF_BYTES = 1.5
"""What may take longer with the bytes is at most so many times their own time: the rest of a small call is
steps."""


def _rough(base: Base) -> list[float]:
    """Log of each row over the line through its neighbours in size: the base's own noise."""
    logs = [math.log(t) for t in base.times_us]
    steps = 2 if len(set(base.sizes)) < len(base.sizes) else 1
    off = [0.0] * len(logs)
    for i in range(steps, len(logs) - steps):
        near = (logs[i - steps] + logs[i + steps]) / 2
        off[i] = (logs[i] - near) / math.sqrt(1.5)
    return off


def limited(
    base: Base, draw: random.Random, busbw_GBps: float, more_us: float = 0.0
) -> tuple[float, ...]:
    """Everything through a resource that gives at most this busbw, and ``more_us`` in every call.

    A healthy time is a latency, the bytes at the plateau's rate, and the rest: pipes that fill, chunks too
    small for the links. Bytes take longer in proportion. Of the rest a share does too, which is drawn once:
    A100 and H100 nodes, or 200G and 400G NICs, differ by 1.2 to 1.5 at 1 to 2 MiB, where the plateaus differ
    by 2, and by nearly all of it from 8 to 32 MiB on (published tables of such pairs).
    """
    slower = max(1.0, base.plateau_GBps / busbw_GBps)
    along = 1 + draw.uniform(0.0, 1.0) * (slower - 1)
    times = []
    for point, rough in zip(base.points, _rough(base), strict=True):
        healthy = point.time_us * math.exp(-rough)
        wire = min(healthy, point.busbw_GBps * point.time_us / base.plateau_GBps)
        rest = min(_OF_BYTES * wire, max(0.0, healthy - base.floor_us - wire))
        time_us = healthy + more_us + wire * (slower - 1) + rest * (along - 1)
        times.append(time_us * math.exp(rough))
    return tuple(times)


def another_way(base: Base, draw: random.Random, busbw_GBps: float) -> tuple[float, ...]:
    """The library goes another way with that plateau, where the healthy one was better.

    What is beside latency and bytes is the other way's own: 16 H100 had rings of 0.83 of the plateau of their
    NVLS trees, and the same times from 16 to 256 MiB.
    """
    rest_of = draw.uniform(0.2, 1.2)
    times = []
    for point, rough in zip(base.points, _rough(base), strict=True):
        healthy = point.time_us * math.exp(-rough)
        wire = min(healthy, point.busbw_GBps * point.time_us / base.plateau_GBps)
        rest = max(0.0, healthy - base.floor_us - wire)
        slower = max(1.0, base.plateau_GBps / busbw_GBps)
        latency = min(healthy, base.floor_us)
        time_us = max(healthy, latency + wire * slower + rest * rest_of)
        times.append(time_us * math.exp(rough))
    return tuple(times)


def slow_start(base: Base, draw: random.Random, latency_us: float) -> tuple[float, ...]:
    """A latency instead of the healthy one, hidden behind what takes longer, more or less sharply."""
    p = draw.uniform(1.5, 4.0)
    return tuple(
        max(t, (t**p + (latency_us * math.exp(rough)) ** p) ** (1 / p))
        for t, rough in zip(base.times_us, _rough(base), strict=True)
    )


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
