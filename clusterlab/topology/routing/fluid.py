"""Which links a byte from one device to another crosses, and in what shares.

The nearest kind of path wins, as in NCCL (NVLink before PCIe before the socket link before the
network); among equally near paths traffic spreads in proportion to their capacity (a fluid: what
striping over NVSwitches and adaptive routing do).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass

from clusterlab.core.errors import UsageError
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import END_POINTS, Link

_DISTANCE: dict[str, int] = {
    "memory": 1,
    "nvlink": 1,
    "xgmi": 1,
    "c2c": 1,
    "pcie": 16,
    "upi": 256,
    "ib": 4096,
    "ethernet": 4096,
    "network": 4096,
}
"""How far a link of a class is: orders paths as NCCL's types do (NVL, PIX…PHB, SYS, NET). No figures."""

ACCELERATOR_LINKS: frozenset[str] = frozenset({"nvlink", "xgmi", "c2c"})
"""Links between accelerators: a library that moves host memory cannot use them."""


@dataclass(frozen=True, slots=True)
class Crossing:
    """One link on a route and the share (0 to 1] of the route's bytes that crosses it."""

    link: Link
    share: float


def route(
    fabric: Fabric, src: str, dst: str, *, avoid: frozenset[str] = frozenset()
) -> tuple[Crossing, ...]:
    """The links from ``src`` to ``dst`` with their shares, nearest first. Links of classes in ``avoid``
    and links that are down carry nothing. From a device to itself: its memory link, if it has one.

    Raises UsageError when nothing leads there (a fabric cut in two).
    """
    key = ("route", src, dst, avoid)
    found = fabric.memo.get(key)
    if found is None:
        found = fabric.memo[key] = _route(fabric, src, dst, avoid)
    crossings: tuple[Crossing, ...] = found
    return crossings


def path_latency_us(crossings: Iterable[Crossing]) -> float:
    """Least latency of a route: the known latencies of its links, by share; unknown ones count 0."""
    return sum(c.share * c.link.latency_us for c in crossings if c.link.latency_us is not None)


def _route(fabric: Fabric, src: str, dst: str, avoid: frozenset[str]) -> tuple[Crossing, ...]:
    fabric.device(src)
    fabric.device(dst)
    if src == dst:
        return tuple(Crossing(link, 1.0) for link in fabric.links_from(src) if link.dst == src)
    nearest = _distances(fabric, src, avoid)
    if dst not in nearest:
        raise UsageError(
            f"no path from {src} to {dst}",
            where=f"fabric {fabric.name}",
            expected="links that are up between all ranks",
        )
    ahead = _towards(fabric, nearest, dst, avoid)
    return _spread(nearest, ahead, src)


def _usable(link: Link, avoid: frozenset[str]) -> bool:
    return link.health > 0 and link.link_class not in avoid and link.src != link.dst


def _distances(fabric: Fabric, src: str, avoid: frozenset[str]) -> dict[str, int]:
    """Dijkstra from ``src``; GPUs and externals end paths, they forward nothing."""
    key = ("distances", src, avoid)
    known = fabric.memo.get(key)
    if known is not None:
        distances: dict[str, int] = known
        return distances
    nearest = {src: 0}
    queue = [(0, src)]
    while queue:
        far, name = heapq.heappop(queue)
        if far > nearest[name] or (name != src and fabric.device(name).kind in END_POINTS):
            continue
        for link in fabric.links_from(name):
            there = far + _DISTANCE[link.link_class]
            if _usable(link, avoid) and there < nearest.get(link.dst, there + 1):
                nearest[link.dst] = there
                heapq.heappush(queue, (there, link.dst))
    fabric.memo[key] = nearest
    return nearest


def _towards(
    fabric: Fabric, nearest: dict[str, int], dst: str, avoid: frozenset[str]
) -> dict[str, list[Link]]:
    """For each device on a nearest path to ``dst``, the links that go on."""
    ahead: dict[str, list[Link]] = {}
    reached = {dst}
    queue = [dst]
    while queue:
        name = queue.pop()
        for link in fabric.links_to(name):
            before = nearest.get(link.src)
            if (
                before is None
                or not _usable(link, avoid)
                or before + _DISTANCE[link.link_class] != nearest[name]
                or (before > 0 and fabric.device(link.src).kind in END_POINTS)
            ):
                continue
            ahead.setdefault(link.src, []).append(link)
            if link.src not in reached:
                reached.add(link.src)
                queue.append(link.src)
    return ahead


def _spread(
    nearest: dict[str, int], ahead: dict[str, list[Link]], src: str
) -> tuple[Crossing, ...]:
    """Shares from ``src`` on: at each device in proportion to the capacity that goes on."""
    arriving = {src: 1.0}
    crossings = []
    for name in sorted(ahead, key=lambda n: nearest[n]):
        links = ahead[name]
        known = [link.capacity_GBps for link in links]
        weights = [1.0 if None in known else float(c or 0.0) for c in known]
        for link, weight in zip(links, weights, strict=True):
            share = arriving[name] * weight / sum(weights)
            crossings.append(Crossing(link, share))
            arriving[link.dst] = arriving.get(link.dst, 0.0) + share
    return tuple(crossings)
