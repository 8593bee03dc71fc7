"""A fabric cut where nothing passes: pieces of hosts, and the parts of the network they are joined to.

Equal hosts with the same way out make one class, so that 3,000 hosts of a few kinds cost as much as
those few, and one pass over the links of the network.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field

from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import END_POINTS, Device, DeviceKind, Link
from clusterlab.topology.repeated import Group, Repeated

Part = Hashable
"""A connected piece of the network, or one link between two hosts: what several hosts may share."""

_SIDES: tuple[tuple[DeviceKind, ...], ...] = (("gpu",), ("host", "nic"))


@dataclass(frozen=True, slots=True)
class End:
    """An end point of a host: the pieces of the host it can send into, and the parts outside."""

    name: str
    inside: frozenset[Hashable]
    outside: frozenset[Part]


@dataclass(frozen=True, slots=True)
class HostClass:
    """Hosts whose end points (names local to a repeated host) have the same ways. ``""``: outside all."""

    hosts: tuple[str, ...]
    ends: tuple[End, ...]
    repeated: bool

    def full_name(self, host: str, end: str) -> str:
        """The device's name in the fabric."""
        return f"{host}/{end}" if self.repeated else end


@dataclass(frozen=True, slots=True)
class _Inside:
    """One host inside: kinds of its devices, the end points that count, the piece of each other device,
    and what end points can send into.
    """

    ends: tuple[str, ...]
    piece: dict[str, str]
    into: dict[str, frozenset[Hashable]]


@dataclass(slots=True)
class _Links:
    """Single links: of the network among itself, inside hosts, and between a host and what is outside."""

    network: list[tuple[str, str]] = field(default_factory=list)
    inside: defaultdict[str, list[tuple[str, str]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    out: list[tuple[str, str]] = field(default_factory=list)


def pieces(fabric: Fabric, *, ignore_health: bool = False) -> list[HostClass]:
    """The hosts of ``fabric`` by class, over links that are up (``ignore_health``: over all)."""
    names = _Places(fabric)
    counted = next((kinds for kinds in _SIDES if names.kinds & set(kinds)), ())
    links = _sorted(fabric, names, ignore_health)
    root = _union(names.passing_outside, links.network)
    insides = _insides(fabric, names, links, counted, ignore_health)
    ways: defaultdict[str, defaultdict[str, set[Part]]] = defaultdict(lambda: defaultdict(set))
    for a, b in links.out:
        _join(names, insides, root, ways, (a, b))
    classes: dict[Hashable, tuple[list[str], _Inside, dict[str, frozenset[Part]]]] = {}
    for host, inside in insides.items():
        out = {local: frozenset(parts) for local, parts in ways[host].items()}
        key = (id(inside), frozenset(out.items()))
        classes.setdefault(key, ([], inside, out))[0].append(host)
    found = [
        HostClass(tuple(hosts), _ends(inside, out), hosts[0] in names.group_of)
        for hosts, inside, out in classes.values()
    ]
    outside = [
        End(d.name, frozenset(), frozenset({root[d.name]}))
        for d in fabric.network_devices
        if _counts(d, counted) and d.name in root
    ]
    return [*found, *(HostClass(("",), (end,), repeated=False) for end in outside)]


def _counts(device: Device, counted: Iterable[DeviceKind]) -> bool:
    return device.kind in counted and device.role != "aggregation"


class _Places:
    """Where a device is, by its name, without making those of equal hosts."""

    def __init__(self, fabric: Fabric) -> None:
        devices = fabric.devices
        self.groups: tuple[Group[Device], ...] = fabric.equal_hosts
        self.group_of = devices.group_of if isinstance(devices, Repeated) else {}
        self.local = {id(g): {d.name: d for d in g.items} for g in self.groups}
        self.single = {d.name: d for d in fabric.single_devices}
        every = [*(d for g in self.groups for d in g.items), *self.single.values()]
        self.kinds = {d.kind for d in every if d.role != "aggregation"}
        self.passing_outside = [d.name for d in fabric.network_devices if d.kind not in END_POINTS]

    def of(self, name: str) -> tuple[str | None, str, DeviceKind]:
        """Host, name within a repeated host (else the whole name), kind. An end point that stands
        outside the hosts is a host by itself.
        """
        single = self.single.get(name)
        if single is not None:
            alone = single.host is None and single.kind in END_POINTS
            return (name if alone else single.host), name, single.kind
        host, _, local = name.partition("/")
        return host, local, self.local[id(self.group_of[host])][local].kind


def _sorted(fabric: Fabric, names: _Places, ignore_health: bool) -> _Links:
    found = _Links()
    for k in fabric.single_links:
        if not (ignore_health or k.health > 0) or k.src == k.dst:
            continue
        (a, x, _), (b, y, _) = names.of(k.src), names.of(k.dst)
        if a is None and b is None:
            found.network.append((k.src, k.dst))
        elif a == b and a is not None:
            found.inside[a].append((x, y))
        else:
            found.out.append((k.src, k.dst))
    return found


def _insides(
    fabric: Fabric,
    names: _Places,
    links: _Links,
    counted: tuple[DeviceKind, ...],
    ignore_health: bool,
) -> dict[str, _Inside]:
    """Host → its inside; equal ones are one object."""
    repeated = fabric.links.group_of if isinstance(fabric.links, Repeated) else {}
    of_single: defaultdict[str, dict[str, Device]] = defaultdict(dict)
    for d in names.single.values():
        host = names.of(d.name)[0]
        if host is not None:
            of_single[host][d.name] = d
    shared: dict[tuple[int, int], _Inside] = {}
    found: dict[str, _Inside] = {}
    for host in (*names.group_of, *(h for h in of_single if h not in names.group_of)):
        group, template = names.group_of.get(host), repeated.get(host)
        alike = group is not None and host not in of_single and host not in links.inside
        key = (id(group), id(template))
        if alike and key in shared:
            found[host] = shared[key]
            continue
        devices = {**(names.local[id(group)] if group else {}), **of_single.get(host, {})}
        pairs = [*_pairs(template, ignore_health), *links.inside.get(host, ())]
        found[host] = _inside(devices, pairs, counted)
        if alike:
            shared[key] = found[host]
    return found


def _pairs(template: Group[Link] | None, ignore_health: bool) -> list[tuple[str, str]]:
    items = template.items if template else ()
    return [(k.src, k.dst) for k in items if ignore_health or k.health > 0]


def _inside(
    devices: Mapping[str, Device],
    pairs: list[tuple[str, str]],
    counted: tuple[DeviceKind, ...],
) -> _Inside:
    passing = [name for name, d in devices.items() if d.kind not in END_POINTS]
    piece = _union(passing, pairs)
    into: defaultdict[str, set[Hashable]] = defaultdict(set)
    for a, b in pairs:
        for end, other in ((a, b), (b, a)):
            if end not in piece and end != other:
                into[end].add(piece.get(other, frozenset((a, b))))
    for name, top in piece.items():
        into[name].add(top)
    ends = tuple(name for name, d in devices.items() if _counts(d, counted))
    return _Inside(ends, piece, {name: frozenset(parts) for name, parts in into.items()})


def _union(names: Iterable[str], pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Name → a name that stands for all it is joined to. Pairs with another name are left out."""
    parent = {name: name for name in names}

    def top(name: str) -> str:
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    for a, b in pairs:
        if a in parent and b in parent:
            parent[top(a)] = top(b)
    return {name: top(name) for name in parent}


def _join(
    names: _Places,
    insides: Mapping[str, _Inside],
    root: Mapping[str, str],
    ways: defaultdict[str, defaultdict[str, set[Part]]],
    pair: tuple[str, str],
) -> None:
    """Note what a link out of a host joins it to: a part of the network, or whoever is at its far end."""
    for name, far in (pair, pair[::-1]):
        host, local, _ = names.of(name)
        if host is None:
            continue
        part = root.get(far, frozenset(pair))
        ways[host][insides[host].piece.get(local, local)].add(part)


def _ends(inside: _Inside, out: Mapping[str, frozenset[Part]]) -> tuple[End, ...]:
    """The end points of a host with what they reach: through their pieces, and by links of their own."""
    nothing: frozenset[Part] = frozenset()
    found = []
    for name in inside.ends:
        into = inside.into.get(name, frozenset())
        ways = [out.get(piece, nothing) for piece in (name, *into) if isinstance(piece, str)]
        found.append(End(name, into, nothing.union(*ways)))
    return tuple(found)
