"""A referee for cost/flows: every flow on its own, routed by itself, max-min shared, run to its end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clusterlab.topology.fabric import Fabric
from clusterlab.topology.routing.fluid import route

Flow = tuple[str, str, float]
"""From a NIC, to a NIC, bytes."""


def finish_times(fabric: Fabric, flows: Sequence[Flow]) -> np.ndarray:
    """When each flow ends, all begun at 0: exact max-min rates, anew at every end."""
    share, capacity = _incidence(fabric, flows)
    left = np.array([size for _, _, size in flows])
    ends, now, running = np.zeros(len(flows)), 0.0, left > 0
    while running.any():
        rate = max_min(share[:, running], capacity)
        step = np.min(left[running] / rate)
        left[running] -= rate * step
        now += step
        over = running & (left <= 1e-9 * np.array([size for _, _, size in flows]))
        ends[over] = now
        running &= ~over
    return ends


def max_min(share: np.ndarray, capacity: np.ndarray) -> np.ndarray:
    """Rates of flows that put ``share`` [links, flows] of themselves on links: progressive filling."""
    rate = np.zeros(share.shape[1])
    free = np.ones(share.shape[1], dtype=bool)
    room = capacity.astype(float).copy()
    level = 0.0
    while free.any():
        weight = share[:, free].sum(axis=1)
        used = weight > 1e-15
        rise = np.full(len(room), np.inf)
        rise[used] = room[used] / weight[used]
        least = rise.min()
        level += least
        room -= least * weight
        full = used & (rise <= least * (1 + 1e-12))
        stop = free & (share[full] > 1e-15).any(axis=0)
        rate[stop] = level
        free &= ~stop
    return rate


def _incidence(fabric: Fabric, flows: Sequence[Flow]) -> tuple[np.ndarray, np.ndarray]:
    number: dict[int, int] = {}
    capacity: list[float] = []
    entries = []
    for f, (src, dst, _) in enumerate(flows):
        for crossing in route(fabric, src, dst):
            link = number.setdefault(id(crossing.link), len(number))
            if link == len(capacity):
                capacity.append(float(crossing.link.capacity_GBps or np.inf))
            entries.append((link, f, crossing.share))
    share = np.zeros((len(capacity), len(flows)))
    for link, f, part in entries:
        share[link, f] += part
    return share, np.array(capacity)
