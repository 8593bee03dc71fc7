"""A large network as few things: units of hosts with their leaves, groups of spines, pods, cores. Pure.

A unit is the hosts that share leaves (an SU, a rack, a segment). Spines that see the same units, of one
rail and plane, are a group; units and spine groups that are joined are a pod. Networks of another role
(storage) are not in it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace

from clusterlab.core.order import natural
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.host_groups import is_host_group
from clusterlab.topology.parts import Device
from clusterlab.topology.shapes import host_shapes
from clusterlab.topology.summary import compute_hosts

_COMPUTE = (None, "compute")


@dataclass(frozen=True)
class Unit:
    """Hosts and the leaves they share, and the NVSwitches outside the hosts that only they reach.

    ``name`` is the leaves' key in ``Groups.group_of``. ``others`` are those of the hosts, listed last, that
    are not known to compute where some hosts of the fabric are: the subnet manager's, a login node.
    """

    name: str
    hosts: tuple[str, ...]
    gpus: int
    leaves: tuple[Device, ...]
    scale_up: tuple[Device, ...] = ()
    others: tuple[str, ...] = ()

    @property
    def nodes(self) -> tuple[str, ...]:
        """The hosts but the others."""
        return self.hosts[: len(self.hosts) - len(self.others)]

    @property
    def noun(self) -> str:
        """``SU``, ``rack`` (of an NVLink domain), ``unit`` (under one leaf)."""
        return self.name.split()[0]


@dataclass(frozen=True)
class SpineGroup:
    """Spines (or cores) that are joined to the same things."""

    name: str
    switches: tuple[Device, ...]
    rail: int | None
    plane: int | None


@dataclass(frozen=True)
class Pod:
    """Units and the spine groups above them."""

    name: str
    units: tuple[Unit, ...]
    spines: tuple[SpineGroup, ...]


@dataclass(frozen=True)
class Groups:
    """``group_of``: the name of the unit (for hosts' devices: ``NAME hosts``) or group of each device."""

    pods: tuple[Pod, ...]
    cores: tuple[SpineGroup, ...]
    rest: tuple[Device, ...]
    group_of: Mapping[str, str]


def grouped(fabric: Fabric) -> Groups:
    """The groups of ``fabric``'s compute network; kept in its memo."""
    known: Groups | None = fabric.memo.get("groups")
    if known is None:
        known = fabric.memo["groups"] = _grouped(fabric)
    return known


def _grouped(fabric: Fabric) -> Groups:
    tiers = {
        kind: [d for d in fabric.network_devices if d.kind == kind and d.role in _COMPUTE]
        for kind in ("leaf", "spine", "core", "nvswitch")
    }
    units = _named(_with_scale_up(fabric, _units(fabric, tiers["leaf"]), tiers["nvswitch"]))
    group_of = {d.name: unit.name for unit in units for d in unit.leaves}
    spines = _spine_groups(fabric, tiers["spine"], group_of, "spines")
    group_of |= {d.name: group.name for group in spines for d in group.switches}
    pods = _pods(fabric, units, spines, group_of)
    pod_of = {g.name: pod.name for pod in pods for g in pod.spines}
    above = {name: pod_of[group] for name, group in group_of.items() if group in pod_of}
    cores = _spine_groups(fabric, tiers["core"], above, "cores")
    group_of |= {d.name: group.name for group in cores for d in group.switches}
    for unit in units:
        for host in unit.hosts:
            group_of[host] = hosts_of(unit)
    shown = {*group_of, *(d.name for d in tiers["nvswitch"])}
    rest = tuple(
        d
        for d in fabric.network_devices
        if d.name not in shown and d.role != "aggregation" and not is_host_group(d)
    )
    return Groups(pods, tuple(cores), rest, group_of)


def hosts_of(unit: Unit) -> str:
    """The group name of a unit's hosts."""
    return f"{unit.name} hosts"


def _named(units: list[Unit]) -> list[Unit]:
    """Units called as people call them, all of a fabric alike."""
    noun = "SU" if any(len(unit.leaves) > 1 for unit in units) else "unit"
    if any(unit.scale_up for unit in units):
        noun = "rack"
    return [replace(unit, name=f"{noun} {i}") for i, unit in enumerate(units)]


def _with_scale_up(fabric: Fabric, units: list[Unit], switches: list[Device]) -> list[Unit]:
    if not switches:
        return units
    unit_of = {host: i for i, unit in enumerate(units) for host in unit.hosts}
    own: defaultdict[int, list[Device]] = defaultdict(list)
    for d in switches:
        hosts = {fabric.host_of(k.dst) for k in fabric.links_from(d.name)}
        reached = {unit_of[host] for host in hosts if host is not None}
        if len(reached) == 1:
            own[reached.pop()].append(d)
    return [replace(unit, scale_up=tuple(own[i])) for i, unit in enumerate(units)]


def _units(fabric: Fabric, leaves: list[Device]) -> list[Unit]:
    """Connected pieces of hosts and leaves; hosts without a leaf are one more unit."""
    names = {d.name for d in leaves}
    joined = _Joined([*(d.name for d in leaves), *fabric.hosts])
    for link in fabric.network_links:
        if link.src in names and (host := fabric.host_of(link.dst)) is not None:
            joined.join(link.src, host)
    hosts: defaultdict[str, list[str]] = defaultdict(list)
    of_leaf: defaultdict[str, list[Device]] = defaultdict(list)
    for leaf in leaves:
        of_leaf[joined.root(leaf.name)].append(leaf)
    for host in fabric.hosts:
        root = joined.root(host)
        hosts[root if root in of_leaf else ""].append(host)
    gpus = {
        host: sum(d.kind == "gpu" for d in shape.devices)
        for shape in host_shapes(fabric)
        for host in shape.hosts
    }
    roots = [*of_leaf, *([""] if hosts[""] else [])]
    known = compute_hosts(fabric)
    units = []
    for i, root in enumerate(roots):
        own = sorted(hosts[root], key=natural)
        others = tuple(host for host in own if known and host not in known)
        units.append(
            Unit(
                name=f"unit {i}",
                hosts=(*(host for host in own if host not in set(others)), *others),
                gpus=sum(gpus[host] for host in own),
                leaves=tuple(sorted(of_leaf.get(root, ()), key=_place)),
                others=others,
            )
        )
    return units


def _place(leaf: Device) -> tuple[object, ...]:
    """By rail, plane and name; those without a rail last."""
    return (leaf.rail is None, leaf.rail or 0, leaf.plane or 0, natural(leaf.name))


def _spine_groups(
    fabric: Fabric, switches: list[Device], below: Mapping[str, str], word: str
) -> list[SpineGroup]:
    groups: defaultdict[Hashable, list[Device]] = defaultdict(list)
    for d in switches:
        seen = frozenset(below[k.dst] for k in fabric.links_from(d.name) if k.dst in below)
        groups[seen, d.rail, d.plane].append(d)
    return [
        SpineGroup(f"{word} {i}", tuple(found), found[0].rail, found[0].plane)
        for i, found in enumerate(groups.values())
    ]


def _pods(
    fabric: Fabric,
    units: list[Unit],
    spines: list[SpineGroup],
    group_of: Mapping[str, str],
) -> tuple[Pod, ...]:
    joined = _Joined([*(u.name for u in units), *(g.name for g in spines)])
    for group in spines:
        for d in group.switches:
            for link in fabric.links_from(d.name):
                if link.dst in group_of:
                    joined.join(group.name, group_of[link.dst])
    members: defaultdict[str, list[Unit]] = defaultdict(list)
    above: defaultdict[str, list[SpineGroup]] = defaultdict(list)
    for unit in units:
        # Units under no spine stand together: they are one rail-only network, or islands.
        members[joined.root(unit.name) if spines else ""].append(unit)
    for group in spines:
        above[joined.root(group.name)].append(group)
    roots = list(dict.fromkeys((*members, *above)))
    return tuple(
        Pod(f"pod {i}", tuple(members[root]), tuple(above[root])) for i, root in enumerate(roots)
    )


class _Joined:
    """Union-find over names."""

    def __init__(self, names: Iterable[str]) -> None:
        self._parent = {name: name for name in names}

    def root(self, name: str) -> str:
        while self._parent[name] != name:
            self._parent[name] = self._parent[self._parent[name]]
            name = self._parent[name]
        return name

    def join(self, a: str, b: str) -> None:
        self._parent[self.root(a)] = self.root(b)
