"""All nearest paths between two devices, by search from both ends at once.

Only what is nearer to one end than to the other is looked at: a few switches and hosts of a fabric of
thousands. GPUs, hosts and externals end paths; they forward nothing.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import END_POINTS, Link

Length = Callable[[Link], int | None]
"""How far a link is, at least 1; None: it carries nothing."""


@dataclass(frozen=True, slots=True)
class NearestPaths:
    """``ahead``: device → the links by which nearest paths go on from it, the devices by distance."""

    distance: int
    ahead: Mapping[str, list[Link]]


def nearest_paths(fabric: Fabric, src: str, dst: str, length: Length) -> NearestPaths | None:
    """The nearest paths from ``src`` to another device ``dst``; None where there are none."""
    there, back = _Half(fabric, src, length), _Half(fabric, dst, length, backwards=True)
    best = there.expand(back)
    while there.radius + back.radius < best:
        side, other = (there, back) if there.radius <= back.radius else (back, there)
        best = min(best, side.expand(other))
    return None if math.isinf(best) else _joined(there, back, int(best))


@dataclass(slots=True)
class _Half:
    """Dijkstra from ``start``, or towards it; ``via`` are the last links of all nearest ways to a device.

    ``far`` is final for what is nearer than ``radius``, where the search stands.
    """

    fabric: Fabric
    start: str
    length: Length
    backwards: bool = False
    far: dict[str, int] = field(default_factory=dict)
    via: dict[str, list[Link]] = field(default_factory=dict)
    queue: list[tuple[int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.far[self.start] = 0
        self.queue.append((0, self.start))

    @property
    def radius(self) -> float:
        """Distance of the next device to be looked at; inf where all have been."""
        while self.queue and self.queue[0][0] > self.far[self.queue[0][1]]:
            heapq.heappop(self.queue)
        return self.queue[0][0] if self.queue else math.inf

    def passes(self, name: str) -> bool:
        """Whether a path may begin or go on at ``name``."""
        return name == self.start or self.fabric.kind_of(name) not in END_POINTS

    def expand(self, other: _Half) -> float:
        """Look at the next device; the length of the shortest way to the other end found by it, or inf."""
        shortest = math.inf
        far, name = heapq.heappop(self.queue)
        if not self.passes(name):
            return shortest
        links = self.fabric.links_to(name) if self.backwards else self.fabric.links_from(name)
        for link in links:
            step = self.length(link)
            if step is None:
                continue
            beyond = link.src if self.backwards else link.dst
            before, reached = self.far.get(beyond), far + step
            if before is None or reached < before:
                self.far[beyond], self.via[beyond] = reached, [link]
                heapq.heappush(self.queue, (reached, beyond))
            elif reached == before:
                self.via[beyond].append(link)
            if beyond in other.far and other.passes(beyond):
                shortest = min(shortest, reached + other.far[beyond])
        return shortest


def _joined(there: _Half, back: _Half, best: int) -> NearestPaths:
    """Both halves along the links that cross from one into the other: each path has exactly one such.

    It begins nearer to the source than the search from there stands, and ends no nearer. As both searches
    meet, what follows is nearer to the destination than the other one stands: both distances are final.
    """
    border = min(there.radius, best)
    ahead: dict[str, list[Link]] = {}
    left: dict[str, None] = {}
    right: dict[str, None] = {}
    for name, far in there.far.items():
        if far >= border or not there.passes(name):
            continue
        for link in there.fabric.links_from(name):
            step = there.length(link)
            if (
                step is None
                or far + step < border
                or far + step + back.far.get(link.dst, best) != best
            ):
                continue
            if back.passes(link.dst):
                ahead.setdefault(name, []).append(link)
                left[name] = right[link.dst] = None
    _follow(there, left, ahead)
    _follow(back, right, ahead)

    def distance(name: str) -> int:
        far = there.far.get(name, best)
        return far if far < border else best - back.far[name]

    return NearestPaths(best, {name: ahead[name] for name in sorted(ahead, key=distance)})


def _follow(half: _Half, names: dict[str, None], ahead: dict[str, list[Link]]) -> None:
    """Add the links of all nearest ways between ``half``'s start and ``names``."""
    queue = list(names)
    for name in queue:
        for link in half.via.get(name, ()):
            ahead.setdefault(link.src, []).append(link)
            nearer = link.dst if half.backwards else link.src
            if nearer not in names:
                names[nearer] = None
                queue.append(nearer)
