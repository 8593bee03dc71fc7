"""Hosts and switches of a network in groups, as schedulers and drawings want them: a tree.

In a rail fabric a host hangs on one leaf per rail, and every leaf on many spines. What forms a tree in it are
groups: the leaves that share hosts (a scalable unit), the units that share spines (a pod), and so on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import SWITCH_KINDS, Device, Link


@dataclass(frozen=True, slots=True)
class Group:
    """Switches of one tier that serve the same things below: ``hosts`` in tier 1, ``below`` (indices of
    groups one tier down) further up.
    """

    switches: tuple[str, ...]
    hosts: tuple[str, ...] = ()
    below: tuple[int, ...] = ()


@dataclass(frozen=True)
class Network:
    """``tiers[0]`` are the groups of leaves with their hosts. ``loose`` are hosts on no switch."""

    tiers: tuple[tuple[Group, ...], ...]
    loose: tuple[str, ...]
    host_switches: Mapping[str, tuple[str, ...]]
    switch_links: Mapping[str, tuple[str, ...]]
    """Switches next to each switch, over links that are up."""


def network_of(fabric: Fabric) -> Network:
    """The groups of the compute network. Links that are down and storage or management do not count."""
    switches = {d.name: d for kind in SWITCH_KINDS for d in fabric.of_kind(kind) if _serves(d)}
    order = {name: i for i, name in enumerate(switches)}
    on_switch: defaultdict[str, dict[str, None]] = defaultdict(dict)
    near: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for link in fabric.network_links:
        if link.health <= 0:
            continue
        if link.src in switches and link.dst in switches:
            near[link.src][link.dst] = None
        elif link.dst in switches and _serves(fabric.device(link.src)):
            host = fabric.host_of(link.src)
            if host is not None:
                on_switch[host][link.dst] = None
    hosts = {host: tuple(on_switch[host]) for host in fabric.hosts if host in on_switch}
    return Network(
        tiers=tuple(_tiers(fabric, hosts, near, order)),
        loose=tuple(host for host in fabric.hosts if host not in hosts),
        host_switches=hosts,
        switch_links={name: tuple(near[name]) for name in switches},
    )


def _serves(device: Device) -> bool:
    """Whether it is part of the compute network."""
    return device.role in (None, "compute")


def _tiers(
    fabric: Fabric,
    hosts: Mapping[str, Sequence[str]],
    near: Mapping[str, Iterable[str]],
    order: Mapping[str, int],
) -> Iterable[tuple[Group, ...]]:
    components = _components(hosts.items())
    group_of: dict[str, int] = {}
    tier: list[Group] = []
    for switches, members in components:
        group_of |= dict.fromkeys(switches, len(tier))
        tier.append(Group(tuple(sorted(switches, key=order.__getitem__)), hosts=tuple(members)))
    placed = set(group_of)
    while tier:
        yield tuple(tier)
        above: defaultdict[str, dict[str, None]] = defaultdict(dict)
        for name, group in group_of.items():
            for other in near.get(name, ()):
                if other not in placed:
                    above[str(group)][other] = None
        if not above:
            return
        next_tier: list[Group] = []
        next_of: dict[str, int] = {}
        for switches, members in _components(above.items()):
            next_of |= dict.fromkeys(switches, len(next_tier))
            below = tuple(sorted(int(m) for m in members))
            next_tier.append(Group(tuple(sorted(switches, key=order.__getitem__)), below=below))
        placed |= set(next_of)
        group_of, tier = next_of, next_tier


def _components(
    edges: Iterable[tuple[str, Iterable[str]]],
) -> list[tuple[set[str], list[str]]]:
    """(switches, members) that hang together, members in the order given."""
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    members: list[tuple[str, str]] = []
    for member, switches in edges:
        first = None
        for switch in switches:
            parent.setdefault(switch, switch)
            if first is None:
                first = root(switch)
            else:
                parent[root(switch)] = first
        if first is not None:
            members.append((member, first))
    found: dict[str, tuple[set[str], list[str]]] = {}
    for member, switch in members:
        found.setdefault(root(switch), (set(), []))[1].append(member)
    for switch in parent:
        found[root(switch)][0].add(switch)
    return list(found.values())


def scale_up_domains(fabric: Fabric) -> list[tuple[str, ...]]:
    """Hosts whose GPUs reach each other by NVLink or xGMI, one tuple per domain, in the fabric's order."""
    by_switch: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for link in fabric.network_links:
        if link.link_class in ("nvlink", "xgmi") and link.health > 0:
            host = fabric.host_of(link.src)
            if host is not None:
                by_switch[host][_outside(fabric, link)] = None
    return [tuple(hosts) for _, hosts in _components(by_switch.items())]


def _outside(fabric: Fabric, link: Link) -> str:
    """The far end: a switch outside the hosts, or another host."""
    return fabric.host_of(link.dst) or link.dst
