"""Which end points can still reach each other, and how many pairs no longer can. Pure.

Traffic passes through switches and, inside one host, from device to device (a GPU reaches a far NIC
through PCIe), but never through another host, and never through a GPU. Hosts that are equal inside and
joined to the same parts of the network are looked at once (``pieces``).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from clusterlab.topology.fabric import Fabric
from clusterlab.topology.failures.pieces import End, HostClass, Part, pieces


@dataclass(frozen=True, slots=True)
class Reach:
    """End points (GPUs; where there are none, hosts and NICs) and the pairs of them that are joined.

    ``alone`` are those that reach no other end point, ``shut_in`` the hosts whose end points reach none
    of another host.
    """

    end_points: int
    pairs: int
    alone: tuple[str, ...]
    shut_in: tuple[str, ...]


def reach(fabric: Fabric, *, ignore_health: bool = False) -> Reach:
    """Count the joined pairs over links that are up (``ignore_health``: over all links).

    Kept in the fabric's memo.
    """
    key = ("reach", ignore_health)
    if key not in fabric.memo:
        fabric.memo[key] = _reach(pieces(fabric, ignore_health=ignore_health))
    found: Reach = fabric.memo[key]
    return found


def _reach(classes: list[HostClass]) -> Reach:
    sizes: Counter[frozenset[Part]] = Counter()
    for alike in classes:
        for end in alike.ends:
            sizes[end.outside] += len(alike.hosts)
    met = _met(sizes)
    partners = {
        (i, end.name): met[end.outside] + _only_inside(end, alike.ends)
        for i, alike in enumerate(classes)
        for end in alike.ends
    }
    every = [(i, end) for i, alike in enumerate(classes) for end in alike.ends]
    return Reach(
        end_points=sum(sizes.values()),
        pairs=sum(len(classes[i].hosts) * (partners[i, end.name] - 1) for i, end in every) // 2,
        alone=tuple(
            classes[i].full_name(host, end.name)
            for i, end in every
            if partners[i, end.name] == 1
            for host in classes[i].hosts
        ),
        shut_in=tuple(_shut_in(classes, met)),
    )


def _met(sizes: Counter[frozenset[Part]]) -> dict[frozenset[Part], int]:
    """For each set of outside parts, how many end points share one of them, itself included."""
    holders: defaultdict[Part, list[frozenset[Part]]] = defaultdict(list)
    for group in sizes:
        for part in group:
            holders[part].append(group)
    return {
        group: sum(sizes[other] for other in {o for part in group for o in holders[part]})
        for group in sizes
    }


def _only_inside(end: End, ends: tuple[End, ...]) -> int:
    """The end points of its host that it meets inside and not outside; itself, where it has no way out."""
    others = sum(
        bool(end.inside & other.inside) and not end.outside & other.outside
        for other in ends
        if other is not end
    )
    return others + (not end.outside)


def _shut_in(classes: list[HostClass], met: dict[frozenset[Part], int]) -> Iterator[str]:
    for alike in classes:
        # What its own end points alone hold, no other host shares.
        if alike.ends and all(
            met[end.outside] <= sum(bool(end.outside & o.outside) for o in alike.ends)
            for end in alike.ends
        ):
            yield from (host for host in alike.hosts if host)
