"""Which links a byte from one device to another crosses, and in what shares.

The nearest kind of path wins, as in NCCL (NVLink before PCIe before the socket link before the
network); among equally near paths traffic spreads in proportion to their capacity (a fluid: what
striping over NVSwitches and adaptive routing do).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from clusterlab.core.errors import UsageError
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import Link
from clusterlab.topology.routing.nearest import nearest_paths

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
    length = {name: far for name, far in _DISTANCE.items() if name not in avoid}
    found = nearest_paths(
        fabric,
        src,
        dst,
        lambda link: (
            length.get(link.link_class) if link.health > 0 and link.src != link.dst else None
        ),
    )
    if found is None:
        raise UsageError(
            f"no path from {src} to {dst}",
            where=f"fabric {fabric.name}",
            expected="links that are up between all ranks",
        )
    return _spread(found.ahead, src)


def _spread(ahead: Mapping[str, list[Link]], src: str) -> tuple[Crossing, ...]:
    """Shares from ``src`` on: at each device in proportion to the capacity that goes on."""
    arriving = {src: 1.0}
    crossings = []
    for name, links in ahead.items():
        known = [link.capacity_GBps for link in links]
        weights = [1.0 if None in known else float(c or 0.0) for c in known]
        for link, weight in zip(links, weights, strict=True):
            share = arriving[name] * weight / sum(weights)
            crossings.append(Crossing(link, share))
            arriving[link.dst] = arriving.get(link.dst, 0.0) + share
    return tuple(crossings)
