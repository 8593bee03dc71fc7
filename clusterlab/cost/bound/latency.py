"""Latency: a result that depends on another rank's data takes at least the quickest path from there.

Unknown latencies count as 0. No rounds are counted: GPUs have many ports, so a rank may hear all others at
once. Every device may forward, as a rank may pass on what it gets.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence

from clusterlab.cost.bound.demand import FROM_ONE, first_of
from clusterlab.topology.fabric import Fabric

_ALL_SOURCES = 32  # up to here the distance between any two counts


def latency_us(
    fabric: Fabric,
    devices: tuple[str, ...],
    collective: str,
    root: int,
    talking: Sequence[tuple[int, int]] | None = None,
) -> float:
    """The longest of the quickest paths the result depends on (some of them, for many ranks).

    ``talking``: the pairs of ranks that exchange anything; None: as the collective has it.
    """
    if talking is not None:
        paths = [(devices[i], devices[j]) for i, j in talking[:_ALL_SOURCES]]
        return max((_farthest(fabric, a, [b])[0] for a, b in paths), default=0.0)
    first = devices[first_of(collective, root)]
    if collective in ("send", "ping_pong"):
        return _farthest(fabric, first, devices[1:2])[0]
    to_one = collective in ("reduce", "gather")
    if to_one or collective in FROM_ONE or collective == "scatter":
        return _farthest(fabric, first, devices, backwards=to_one)[0]
    if collective == "send_recv":
        nexts = (*devices[1:], devices[0])
        pairs = list(zip(devices, nexts, strict=True))[:_ALL_SOURCES]
        return max(_farthest(fabric, a, [b])[0] for a, b in pairs)
    # Every rank's result depends on all. Sources by name: the order of the ranks does not matter.
    ends = sorted(set(devices))
    if len(ends) <= _ALL_SOURCES:
        return max(_farthest(fabric, end, ends)[0] for end in ends)
    far, end = _farthest(fabric, ends[0], ends)
    return max(far, _farthest(fabric, end, ends)[0])


def _farthest(
    fabric: Fabric, start: str, ends: Iterable[str], *, backwards: bool = False
) -> tuple[float, str]:
    """The latency to the end that is farthest from ``start``, and that end."""
    distances = _distances(fabric, start, set(ends), backwards)
    return max((distances[end], end) for end in distances)


def _distances(fabric: Fabric, start: str, ends: set[str], backwards: bool) -> Mapping[str, float]:
    """Dijkstra from ``start`` (or to it) until all ends that can be reached are."""
    nearest = {start: 0.0}
    found: dict[str, float] = {}
    queue = [(0.0, start)]
    missing = set(ends)
    while queue and missing:
        far, name = heapq.heappop(queue)
        if far > nearest[name]:
            continue
        if name in missing:
            found[name] = far
            missing.discard(name)
        for link in fabric.links_to(name) if backwards else fabric.links_from(name):
            beyond = link.src if backwards else link.dst
            there = far + (link.latency_us or 0.0)
            if link.health > 0 and there < nearest.get(beyond, float("inf")):
                nearest[beyond] = there
                heapq.heappush(queue, (there, beyond))
    return found or {start: 0.0}
