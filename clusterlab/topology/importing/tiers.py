"""Which tier each switch of a network belongs to, from what is plugged into it. Pure.

A leaf holds hosts; a spine is one switch away from a leaf, a core further. Hosts also hang on spines (a
file server or two): such a switch has fewer hosts than the switches around it, which are not joined to
each other. A switch without a live host (a rack without power, leaves for hosts to come) is a leaf where
it is cabled to the spines of the leaves that are named like it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Set

from clusterlab.topology.parts import DeviceKind


def tiers(
    neighbours: Mapping[str, Set[str]],
    hosts: Mapping[str, int],
    named: Mapping[str, DeviceKind | None],
    alike: Mapping[str, str | None],
) -> dict[str, DeviceKind]:
    """Leaf, spine or core for every switch of ``neighbours`` (switch → switches it is cabled to).

    ``hosts`` is the number of host ports on each; ``named`` is what a switch's name says, which decides
    where the cables do not: no host can be reached (a listing that was cut), or few hang on it.
    ``alike`` is a switch's name without its numbers, None where it has none.
    """
    bearing = {s for s in neighbours if hosts.get(s, 0) > 0}
    leaves = bearing - {s for s in bearing if _is_above(s, neighbours, hosts, named.get(s))}
    distance = _distances(leaves, neighbours)
    distance |= dict.fromkeys(_leaves_without_hosts(distance, neighbours, named, alike), 0)
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


def _leaves_without_hosts(
    distance: Mapping[str, int],
    neighbours: Mapping[str, Set[str]],
    named: Mapping[str, DeviceKind | None],
    alike: Mapping[str, str | None],
) -> set[str]:
    """Switches two steps from a leaf that are leaves themselves: to the cables alone they are cores.

    A core meets the spines of several pods, a leaf those of its own. Where both meet the same (one pod
    below cores), the name decides; where that says nothing, such switches are leaves if they are fewer.
    """
    leaves_at: defaultdict[frozenset[str], set[str]] = defaultdict(set)
    far_at: defaultdict[frozenset[str], set[str]] = defaultdict(set)
    for switch, steps in distance.items():
        up = frozenset(s for s in neighbours[switch] if distance[s] == 1)
        if steps == 0:
            leaves_at[up].add(switch)
        elif steps == 2 and up == neighbours[switch] and named.get(switch) in (None, "leaf"):
            far_at[up].add(switch)
    leaf_names = {alike.get(leaf) for own in leaves_at.values() for leaf in own} - {None}
    spine_names = {alike.get(s) for s, steps in distance.items() if steps == 1}
    found: set[str] = set()
    for up, switches in far_at.items():
        near = any(2 * len(up & other) >= len(up | other) for other in leaves_at if other)
        fewer = len(switches) < len(leaves_at.get(up, ()))
        for switch in switches:
            name = alike.get(switch)
            told = named.get(switch) == "leaf" or name in leaf_names - spine_names
            unsaid = name is None or name in leaf_names
            if (near and told) or (fewer and unsaid):
                found.add(switch)
    return found


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
