"""What of a fabric is down or degraded, told as people would: a switch, not its 64 cables. Pure.

A device is down when all its links are. A device with a single connection is not told from its cable:
the connection is named.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from clusterlab.core.order import natural
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import SWITCH_KINDS, Device, Link
from clusterlab.topology.repeated import Repeated


@dataclass(frozen=True, slots=True)
class Connection:
    """Two devices joined by links of one class; ``cables`` of them, both directions counted once.

    ``down`` carry nothing, ``degraded`` a part. ``lost_GBps`` is per direction; None when no source
    says what a cable carries. ``names`` are the links concerned.
    """

    a: str
    b: str
    link_class: str
    cables: int
    down: int
    degraded: int
    lost_GBps: float | None
    rail: int | None
    plane: int | None

    @property
    def name(self) -> str:
        """``leaf3/spine2``; within one host ``n3/gpu2/pcie2``. The form ``topo break`` takes."""
        return connection_name(self.a, self.b)

    @property
    def whole(self) -> bool:
        """Whether nothing of it is left."""
        return self.down == self.cables


@dataclass(frozen=True, slots=True)
class Faults:
    """``hosts`` and ``devices`` that are down, connections that are down or degraded besides.

    ``connections`` are those whose fault is no listed device's; ``hurt`` are all of them.
    """

    hosts: tuple[str, ...]
    devices: tuple[Device, ...]
    connections: tuple[Connection, ...]
    hurt: tuple[Connection, ...]

    def __bool__(self) -> bool:
        return bool(self.hurt)


def connection_name(a: str, b: str) -> str:
    """``leaf3/spine2``; within one host ``n3/gpu2/pcie2``."""
    host, _, local = b.partition("/")
    return f"{a}/{local if local and a.startswith(f'{host}/') else b}"


def find_faults(fabric: Fabric) -> Faults:
    """Everything with a health below 1; kept in the fabric's memo."""
    known: Faults | None = fabric.memo.get("faults")
    if known is None:
        known = fabric.memo["faults"] = _find(fabric)
    return known


def hurt_links(fabric: Fabric) -> list[Link]:
    """Links with a health below 1, without writing out the hosts that have none."""
    links = fabric.links
    if not isinstance(links, Repeated):
        return [k for k in links if k.health < 1]
    repeated = [
        links.at_host(k, host)
        for group in links.groups
        if any(k.health < 1 for k in group.items)
        for host in group.hosts
        for k in group.items
        if k.health < 1
    ]
    return [*repeated, *(k for k in links.single if k.health < 1)]


def as_wired(fabric: Fabric) -> Fabric:
    """The same fabric with nothing down or degraded."""
    pairs = {(k.src, k.dst) for k in hurt_links(fabric)}
    if not pairs:
        return fabric
    return fabric.with_links(
        {
            (src, dst): [replace(k, health=1.0) for k in fabric.links_from(src) if k.dst == dst]
            for src, dst in pairs
        }
    )


def _find(fabric: Fabric) -> Faults:
    pairs = dict.fromkeys(
        pair for k in hurt_links(fabric) if (pair := _ordered(fabric, k.src, k.dst))[0] != pair[1]
    )
    hurt = tuple(
        c for a, b in pairs for c in connections_between(fabric, a, b) if c.down + c.degraded
    )
    down = _down_devices(fabric, [c for c in hurt if c.whole])
    names = {d.name for d in down}
    hosts = _down_hosts(fabric, down)
    return Faults(
        hosts=hosts,
        devices=tuple(d for d in down if d.host not in hosts),
        connections=tuple(c for c in hurt if not (c.whole and names & {c.a, c.b})),
        hurt=hurt,
    )


def _ordered(fabric: Fabric, a: str, b: str) -> tuple[str, str]:
    """The end further down first: host before switch, leaf before spine; else by name as it stands."""
    tiers = [_tier(fabric.device(name)) for name in (a, b)]
    swap = tiers[0] > tiers[1] or (tiers[0] == tiers[1] and natural(a) > natural(b))
    return (b, a) if swap else (a, b)


def _tier(device: Device) -> int:
    if device.kind in SWITCH_KINDS:
        return 1 + SWITCH_KINDS.index(device.kind)
    return 0


def connections_between(fabric: Fabric, a: str, b: str) -> list[Connection]:
    """What joins ``a`` and ``b``, one for each class of link. Of two directions the worse counts."""
    by_class: defaultdict[str, list[list[Link]]] = defaultdict(lambda: [[], []])
    for i, (src, dst) in enumerate(((a, b), (b, a))):
        for link in fabric.links_from(src):
            if link.dst == dst:
                by_class[link.link_class][i].append(link)
    return [
        max((_connection(a, b, way) for way in ways if way), key=_badness)
        for ways in by_class.values()
    ]


def _connection(a: str, b: str, links: Sequence[Link]) -> Connection:
    lost = [
        None if k.GBps is None else k.GBps * k.multiplicity * (1 - k.health)
        for k in links
        if k.health < 1
    ]
    return Connection(
        a=a,
        b=b,
        link_class=links[0].link_class,
        cables=sum(k.multiplicity for k in links),
        down=sum(k.multiplicity for k in links if k.health == 0),
        degraded=sum(k.multiplicity for k in links if 0 < k.health < 1),
        lost_GBps=total(lost),
        rail=links[0].rail,
        plane=links[0].plane,
    )


def total(figures: Iterable[float | None]) -> float | None:
    """The sum; None when a figure is unknown."""
    known = list(figures)
    return None if None in known else sum(f for f in known if f is not None)


def _badness(connection: Connection) -> tuple[float, int, int]:
    return (connection.lost_GBps or 0.0, connection.down, connection.degraded)


def _down_devices(fabric: Fabric, whole: Sequence[Connection]) -> list[Device]:
    """Devices all of whose connections are down, where there is more than one to tell."""
    ends = Counter(end for c in whole for end in (c.a, c.b))
    gone = [name for name, count in ends.items() if count > 1 and _all_down(fabric, name)]
    return [fabric.device(name) for name in sorted(gone, key=natural)]


def _all_down(fabric: Fabric, name: str) -> bool:
    links = (*fabric.links_from(name), *fabric.links_to(name))
    return all(k.health == 0 for k in links if k.src != k.dst)


def _down_hosts(fabric: Fabric, down: Sequence[Device]) -> tuple[str, ...]:
    """Hosts of which every link is down."""
    hosts = dict.fromkeys(d.host for d in down if d.host is not None)
    return tuple(
        host for host in hosts if all(_all_down(fabric, d.name) for d in fabric.on_host(host))
    )
