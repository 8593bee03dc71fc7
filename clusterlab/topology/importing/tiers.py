"""Which tier each switch of a network belongs to, from what is plugged into it. Pure.

A leaf holds hosts; a spine is one switch away from a leaf, a core further. Hosts also hang on spines (a
file server or two): such a switch has fewer hosts than the switches around it, which are not joined to
each other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Set

from clusterlab.topology.parts import DeviceKind


def tiers(
    neighbours: Mapping[str, Set[str]],
    hosts: Mapping[str, int],
    named: Mapping[str, DeviceKind | None],
) -> dict[str, DeviceKind]:
    """Leaf, spine or core for every switch of ``neighbours`` (switch → switches it is cabled to).

    ``hosts`` is the number of host ports on each; ``named`` is what a switch's name says, which decides
    where the cables do not: no host can be reached (a listing that was cut), or few hang on it.
    """
    bearing = {s for s in neighbours if hosts.get(s, 0) > 0}
    leaves = bearing - {s for s in bearing if _is_above(s, neighbours, hosts, named.get(s))}
    distance = _distances(leaves, neighbours)
    return {s: _tier(distance.get(s), named.get(s)) for s in neighbours}


def _tier(distance: int | None, named: DeviceKind | None) -> DeviceKind:
    if distance is None:
        return named or "leaf"
    return ("leaf", "spine", "core")[min(distance, 2)]


def _is_above(
    switch: str,
    neighbours: Mapping[str, Set[str]],
    hosts: Mapping[str, int],
    named: DeviceKind | None,
) -> bool:
    """Whether a switch with hosts is no leaf: it is called a spine and holds few, or else
    most switches around it hold far more hosts and meet only through such as it.
    """
    around = neighbours[switch]
    if named is not None:
        return named != "leaf" and hosts[switch] * 2 <= len(around)
    many = 2 * hosts[switch]
    fuller = {s for s in around if hosts.get(s, 0) >= many}
    if len(fuller) < 2 or len(fuller) * 2 <= len(around):
        return False
    joined = sum(any(hosts.get(other, 0) >= many for other in neighbours[s]) for s in fuller)
    return joined * 2 <= len(fuller)


def _distances(start: Iterable[str], neighbours: Mapping[str, Set[str]]) -> dict[str, int]:
    distance = dict.fromkeys(start, 0)
    waiting = deque(distance)
    while waiting:
        here = waiting.popleft()
        for other in neighbours[here]:
            if other not in distance:
                distance[other] = distance[here] + 1
                waiting.append(other)
    return distance
