"""Which end points can still reach each other, and how many pairs no longer can. Pure.

Traffic passes through switches and, inside one host, from device to device (a GPU reaches a far NIC
through PCIe), but never through another host, and never through a GPU.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import END_POINTS, DeviceKind
from clusterlab.topology.repeated import Repeated

_SIDES: tuple[tuple[DeviceKind, ...], ...] = (("gpu",), ("host", "nic"))


class _Place(NamedTuple):
    """What matters of a device here."""

    kind: DeviceKind
    host: str | None

    @property
    def ends(self) -> bool:
        return self.kind in END_POINTS


@dataclass(frozen=True, slots=True)
class Reach:
    """End points (GPUs; where there are none, hosts and NICs) and the pairs of them that are joined.

    ``alone`` are those that reach no other end point.
    """

    end_points: int
    pairs: int
    alone: tuple[str, ...]


def reach(fabric: Fabric, *, ignore_health: bool = False) -> Reach:
    """Count the joined pairs over links that are up (``ignore_health``: over all links)."""
    devices = dict(_places(fabric))
    present = {place.kind for place in devices.values()}
    kinds = next((kinds for kinds in _SIDES if present & set(kinds)), ())
    parts = _parts(devices, _joined(fabric, ignore_health))
    of_end_point = {
        name: frozenset(parts[name]) for name, place in devices.items() if place.kind in kinds
    }
    sizes = Counter(of_end_point.values())
    partners = _partners(sizes)
    pairs = sum(size * (partners[group] - 1) for group, size in sizes.items()) // 2
    alone = tuple(name for name, group in of_end_point.items() if partners[group] == 1)
    return Reach(len(of_end_point), pairs, alone)


def _places(fabric: Fabric) -> Iterator[tuple[str, _Place]]:
    """Every device's name and place; those of equal hosts are not made for it."""
    devices = fabric.devices
    if isinstance(devices, Repeated):
        for group in devices.groups:
            for host in group.hosts:
                for d in group.items:
                    yield f"{host}/{d.name}", _Place(d.kind, host)
    for d in fabric.single_devices:
        yield d.name, _Place(d.kind, d.host)


def _joined(fabric: Fabric, ignore_health: bool) -> Iterator[tuple[str, str]]:
    """The ends of every link that is up."""
    links = fabric.links
    if isinstance(links, Repeated):
        for group in links.groups:
            pairs = [(k.src, k.dst) for k in group.items if ignore_health or k.health > 0]
            for host in group.hosts:
                for src, dst in pairs:
                    yield f"{host}/{src}", f"{host}/{dst}"
    for k in fabric.single_links:
        if ignore_health or k.health > 0:
            yield k.src, k.dst


def _parts(
    devices: dict[str, _Place], pairs: Iterable[tuple[str, str]]
) -> dict[str, set[Hashable]]:
    """For each device the connected parts of the fabric it can send into.

    A part is a piece of one host, a piece of the network, or one link from end point to end point or
    from host to host.
    """
    parent = {name: name for name, place in devices.items() if not place.ends}

    def root(name: str) -> str:
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    between: list[tuple[str, str]] = []
    for a, b in pairs:
        if a in parent and b in parent and devices[a].host == devices[b].host:
            parent[root(a)] = root(b)
        elif a != b:
            between.append((a, b))
    roots = {name: root(name) for name in parent}
    parts: defaultdict[str, set[Hashable]] = defaultdict(set)
    for name in roots.values():
        parts[name].add(name)
    _across(devices, between, parts, roots)
    return {name: parts[roots.get(name, name)] for name in devices}


def _across(
    devices: dict[str, _Place],
    between: list[tuple[str, str]],
    parts: defaultdict[str, set[Hashable]],
    root: dict[str, str],
) -> None:
    """Add what lies beyond a piece: of a host's, the networks its NICs are on; of an end point's, all."""
    inner: list[tuple[str, str]] = []
    for a, b in between:
        ends = {a, b} & root.keys()
        in_host = {name for name in ends if devices[name].host is not None}
        if len(ends) < 2:
            inner.append((a, b))
        elif len(in_host) == 2:
            for name in (a, b):
                parts[root[name]].add(frozenset((a, b)))
        else:
            (host_side,) = in_host
            (network_side,) = ends - in_host
            parts[root[host_side]].add(root[network_side])
    for a, b in inner:
        for end, other in ((a, b), (b, a)):
            if end not in root:
                parts[end] |= parts[root[other]] if other in root else {frozenset((a, b))}


def _partners(sizes: Counter[frozenset[Hashable]]) -> dict[frozenset[Hashable], int]:
    """For each set of parts, how many end points share one of them, itself included.

    Parts that only one set has (the inside of each host) join nobody else; without them the sets of a
    large fabric are few, so that comparing each with each is cheap.
    """
    holders = Counter(part for group in sizes for part in group)
    public = {g: frozenset(part for part in g if holders[part] > 1) for g in sizes}
    together: Counter[frozenset[Hashable]] = Counter()
    for group, size in sizes.items():
        together[public[group]] += size
    met = {
        mine: sum(size for theirs, size in together.items() if mine & theirs)
        for mine in together
        if mine
    }
    return {
        group: met[public[group]] if public[group] else (size if group else 1)
        for group, size in sizes.items()
    }
