"""The fabric: devices and directed links, each figure with its source. Pure data and look-ups.

GB/s are 1e9 B/s, per direction; µs or None where no source says. They come from a design
(``design.py``), from this machine (``host.py``, ``discover``) or from other tools' files (``importing``).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from clusterlab.core.errors import UsageError
from clusterlab.core.suggest import did_you_mean, unknown
from clusterlab.topology.repeated import Group, Repeated

if TYPE_CHECKING:
    import networkx as nx

DeviceKind = Literal[
    "gpu",
    "nvswitch",
    "pcie_switch",
    "host_bridge",
    "cpu",
    "nic",
    "host",
    "leaf",
    "spine",
    "core",
    "external",
]
LinkClass = Literal["nvlink", "xgmi", "c2c", "pcie", "upi", "ib", "ethernet", "network", "memory"]
"""``network``: a link between hosts and switches of which no source says whether ib or ethernet."""

DEVICE_KINDS: tuple[str, ...] = get_args(DeviceKind)
LINK_CLASSES: tuple[str, ...] = get_args(LinkClass)

SWITCH_KINDS: tuple[DeviceKind, ...] = ("leaf", "spine", "core")
"""The network's switches, tier 1 to 3."""

Role = Literal["compute", "storage", "management", "aggregation"]
"""What a NIC or switch serves. ``aggregation``: the SHARP node inside a switch."""

ROLES: tuple[str, ...] = get_args(Role)

T = TypeVar("T")

END_POINTS: frozenset[str] = frozenset({"gpu", "host", "external"})
"""Kinds that begin or end a path but forward nothing for others."""


@dataclass(frozen=True, slots=True)
class Device:
    """One device. ``host`` is None for a switch of the network.

    A ``host`` is one of which nothing but the name is known (a Slurm file). ``cores`` and
    ``memory_bytes`` belong to a ``cpu`` (one per NUMA domain). ``in_network`` says that a switch can
    reduce and multicast on the way (NVLS, SHARP). ``ports`` is how many cables it can take. ``pci`` is
    the bus id as written (``0000:1b:00.0``), ``guid`` a NIC's or switch's node GUID or a GPU's UUID,
    ``interface`` the name its host knows it by (``mlx5_0``), ``cage`` the connector it shares with
    others (``osfp4``: what fails together). None: unknown.
    """

    name: str
    kind: DeviceKind
    host: str | None = None
    model: str | None = None
    numa: int | None = None
    rail: int | None = None
    plane: int | None = None
    cores: int | None = None
    memory_bytes: int | None = None
    in_network: bool = False
    role: Role | None = None
    ports: int | None = None
    pci: str | None = None
    guid: str | None = None
    interface: str | None = None
    cage: str | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """One direction of a connection: ``multiplicity`` equal cables or lanes from src to dst.

    ``GBps`` is what one of them carries for software, ``wire_GBps`` its signalling rate (never less;
    None: not known apart from GBps). None in GBps or latency_us means that no source says. ``health``
    is the share of the capacity left: 1 whole, 0 down. A link of class ``memory`` from a device to
    itself is how ranks on that device reach each other: GBps per core, multiplicity the cores.
    """

    src: str
    dst: str
    link_class: LinkClass
    GBps: float | None
    latency_us: float | None = None
    multiplicity: int = 1
    wire_GBps: float | None = None
    rail: int | None = None
    plane: int | None = None
    health: float = 1.0
    GBps_source: str = ""
    latency_source: str = ""
    wire_source: str = ""

    @property
    def name(self) -> str:
        """``n0/gpu0->n0/nvswitch0``: how findings and bottlenecks call it."""
        return f"{self.src}->{self.dst}"

    @property
    def capacity_GBps(self) -> float | None:
        """What all of it carries now (usable rate × multiplicity × health); None when unknown."""
        return None if self.GBps is None else self.GBps * self.multiplicity * self.health

    @property
    def wire_capacity_GBps(self) -> float | None:
        """What its signalling rate allows: the figure no software can exceed."""
        rate = self.wire_GBps if self.wire_GBps is not None else self.GBps
        return None if rate is None else rate * self.multiplicity * self.health


@dataclass(frozen=True)
class Fabric:
    """Devices and directed links. Raises UsageError when they do not fit together.

    Both are sequences; those of equal hosts are kept once and made when asked for (``repeated``).
    ``origin`` says where it comes from (a file, ``this host``, an import), ``digest`` is the SHA-256
    of the text it was read from, if any. ``oversubscription`` is what the design declares of its leaves
    (down : up) by role of the network.
    """

    name: str
    devices: Sequence[Device]
    links: Sequence[Link]
    description: str = ""
    origin: str = ""
    digest: str = ""
    oversubscription: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        where = self.origin or f"fabric {self.name}"
        _reject_duplicates(self.devices, where)
        for name in self._single_by_name:
            host, _, local = name.partition("/")
            if local in self._local_names(host):
                raise UsageError(
                    f"two devices are called {name!r}", where=where, expected="each name once"
                )
        for group in _groups(self.links):
            # One host stands for all whose devices are equal as well.
            alike = {id(self._group_of.get(host)): host for host in group.hosts}
            for host in alike.values():
                for link in group.items:
                    check_link(link_at_host(link, host), self._names, where=where)
        for link in _single(self.links):
            check_link(link, self._names, where=where)

    @cached_property
    def memo(self) -> dict[object, Any]:
        """Facts derived from this fabric, kept by whoever derived them (routes)."""
        return {}

    @cached_property
    def _names(self) -> _Names:
        return _Names(self)

    @cached_property
    def _single_by_name(self) -> dict[str, Device]:
        return {d.name: d for d in _single(self.devices)}

    @cached_property
    def _group_of(self) -> dict[str, Group[Device]]:
        return self.devices.group_of if isinstance(self.devices, Repeated) else {}

    @cached_property
    def _local_by_name(self) -> dict[int, dict[str, Device]]:
        return {id(group): {d.name: d for d in group.items} for group in _groups(self.devices)}

    def _local_names(self, host: str) -> dict[str, Device]:
        group = self._group_of.get(host)
        return self._local_by_name[id(group)] if group else {}

    def _find(self, name: str) -> tuple[Device, str | None] | None:
        """A device by name: a template's with the host it stands for, or a single one with None."""
        single = self._single_by_name.get(name)
        if single is not None:
            return single, None
        host, _, local = name.partition("/")
        found = self._local_names(host).get(local)
        return None if found is None else (found, host)

    def device(self, name: str) -> Device:
        """The device called ``name``. Raises UsageError with the nearest name."""
        made: dict[str, Device] = self.memo.setdefault("devices", {})
        if name in made:
            return made[name]
        found = self._find(name)
        if found is None:
            raise UsageError(
                f"no device {name!r}",
                where=f"fabric {self.name}",
                expected=f"one of its {len(self.devices)} devices",
                fix=did_you_mean(name, self._names),
            )
        template, host = found
        made[name] = template if host is None else device_at_host(template, host)
        return made[name]

    def of_kind(self, kind: DeviceKind) -> tuple[Device, ...]:
        """The devices of one kind, in the design's order."""
        if not isinstance(self.devices, Repeated):
            return tuple(d for d in self.devices if d.kind == kind)
        repeated = (
            device_at_host(d, host)
            for group in self.devices.groups
            for host in group.hosts
            for d in group.items
            if d.kind == kind
        )
        return (*repeated, *(d for d in self.devices.single if d.kind == kind))

    def links_from(self, device: str) -> tuple[Link, ...]:
        """Links that leave ``device``."""
        return self._ends("from", device)

    def links_to(self, device: str) -> tuple[Link, ...]:
        """Links that arrive at ``device``."""
        return self._ends("to", device)

    def _ends(self, way: Literal["from", "to"], device: str) -> tuple[Link, ...]:
        made: dict[str, tuple[Link, ...]] = self.memo.setdefault(("links", way), {})
        if device not in made:
            index = self._link_index[way]
            host, _, local = device.partition("/")
            group = self._link_group_of.get(host)
            own = index[id(group)].get(local, ()) if group else ()
            made[device] = (
                *(link_at_host(link, host) for link in own),
                *index[None].get(device, ()),
            )
        return made[device]

    @cached_property
    def _link_group_of(self) -> dict[str, Group[Link]]:
        return self.links.group_of if isinstance(self.links, Repeated) else {}

    @cached_property
    def _link_index(self) -> dict[str, dict[int | None, dict[str, tuple[Link, ...]]]]:
        """Way → group (None: single links) → device → its links."""
        parts: dict[int | None, Sequence[Link]] = {id(g): g.items for g in _groups(self.links)}
        parts[None] = _single(self.links)
        return {
            "from": {part: _grouped(links, lambda link: link.src) for part, links in parts.items()},
            "to": {part: _grouped(links, lambda link: link.dst) for part, links in parts.items()},
        }

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """Host names, repeated ones first, each in order of first appearance."""
        repeated = (host for group in _groups(self.devices) for host in group.hosts)
        single = (d.host for d in _single(self.devices) if d.host is not None)
        return tuple(dict.fromkeys((*repeated, *single)))

    @cached_property
    def _single_on_host(self) -> dict[str, list[Device]]:
        found: defaultdict[str, list[Device]] = defaultdict(list)
        for d in _single(self.devices):
            if d.host is not None:
                found[d.host].append(d)
        return found

    @cached_property
    def _host_set(self) -> frozenset[str]:
        return frozenset(self.hosts)

    def on_host(self, host: str, kind: DeviceKind | None = None) -> tuple[Device, ...]:
        """The devices of ``host``, all or of one kind."""
        if host not in self._host_set:
            raise unknown("host", host, self.hosts, where=f"fabric {self.name}")
        group = self._group_of.get(host)
        own = (
            device_at_host(d, host)
            for d in (group.items if group else ())
            if kind is None or d.kind == kind
        )
        single = (d for d in self._single_on_host.get(host, ()) if kind is None or d.kind == kind)
        return (*own, *single)

    @property
    def equal_hosts(self) -> tuple[Group[Device], ...]:
        """Groups of hosts whose devices are kept once; other devices are in ``single_devices``."""
        return _groups(self.devices)

    @property
    def single_devices(self) -> tuple[Device, ...]:
        """Devices that are not repeated: the network's, and hosts that are like no other."""
        return _single(self.devices)

    @property
    def single_links(self) -> tuple[Link, ...]:
        """Links that are not repeated: between hosts and switches, among switches, of single hosts."""
        return _single(self.links)

    @cached_property
    def network_devices(self) -> tuple[Device, ...]:
        """What stands outside the hosts: switches and externals."""
        return tuple(d for d in self.single_devices if d.host is None)

    @cached_property
    def network_links(self) -> tuple[Link, ...]:
        """Links with an end outside the hosts or between two hosts: NIC to leaf and beyond."""
        return tuple(
            link
            for link in self.single_links
            if (host := self.host_of(link.src)) is None or host != self.host_of(link.dst)
        )

    def host_of(self, device: str) -> str | None:
        """The host a device belongs to; None for what stands outside."""
        found = self._find(device)
        if found is None:
            return None
        template, host = found
        return host if host is not None else template.host

    def with_links(self, changes: Mapping[tuple[str, str], Sequence[Link]]) -> Fabric:
        """The same fabric where the links from ``src`` to ``dst`` are ``changes[src, dst]`` (none: removed).

        They stand where the first of the old ones stood; only hosts with a change inside are written out.
        """
        inside = {
            self.host_of(src) for src, dst in changes if self.host_of(src) == self.host_of(dst)
        }
        hosts = inside & set(self._link_group_of)
        links = self.links
        if isinstance(links, Repeated):
            links = links.with_single([h for h in self.hosts if h in hosts])
        left = dict(changes)
        single: list[Link] = []
        for link in _single(links):
            key = (link.src, link.dst)
            single += left.pop(key, ()) if key in changes else (link,)
        return replace(
            self,
            links=Repeated(links.groups, single, link_at_host)
            if isinstance(links, Repeated)
            else tuple(single),
        )


class _Names(Collection[str]):
    """The names of a fabric's devices, tested without making the devices of equal hosts."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._fabric._find(name) is not None

    def __iter__(self) -> Iterator[str]:
        return (d.name for d in self._fabric.devices)

    def __len__(self) -> int:
        return len(self._fabric.devices)


def device_at_host(template: Device, host: str) -> Device:
    """A template's device as that of ``host``."""
    return replace(template, name=f"{host}/{template.name}", host=host)


def link_at_host(template: Link, host: str) -> Link:
    """A template's link as that of ``host``."""
    return replace(template, src=f"{host}/{template.src}", dst=f"{host}/{template.dst}")


def equal_hosts(
    hosts: Sequence[str],
    devices: Sequence[Device],
    links: Sequence[Link],
    *,
    others: Sequence[Device] = (),
    other_links: Sequence[Link] = (),
) -> tuple[Repeated[Device], Repeated[Link]]:
    """Sequences for a Fabric: ``hosts`` that hold ``devices`` and ``links`` (local names), then others."""
    names = tuple(hosts)
    return (
        Repeated([Group(names, tuple(devices))], others, device_at_host),
        Repeated([Group(names, tuple(links))], other_links, link_at_host),
    )


def _groups(items: Sequence[T]) -> tuple[Group[T], ...]:
    return items.groups if isinstance(items, Repeated) else ()


def _single(items: Sequence[T]) -> tuple[T, ...]:
    return items.single if isinstance(items, Repeated) else tuple(items)


def to_networkx(fabric: Fabric) -> nx.MultiDiGraph[str]:
    """The fabric as a networkx multigraph: nodes carry ``kind`` and ``host``, edges ``link`` (the Link),
    ``capacity`` (usable GB/s; absent when unknown, as max-flow treats it as unlimited) and ``latency_us``.
    """
    import networkx as nx

    graph: nx.MultiDiGraph[str] = nx.MultiDiGraph(name=fabric.name)
    for d in fabric.devices:
        graph.add_node(d.name, kind=d.kind, host=d.host)
    for link in fabric.links:
        known = {} if link.capacity_GBps is None else {"capacity": link.capacity_GBps}
        graph.add_edge(link.src, link.dst, link=link, latency_us=link.latency_us, **known)
    return graph


def check_link(link: Link, devices: Collection[str], *, where: str) -> None:
    """Raise UsageError for a link with a loose end or a figure that cannot be."""
    place = f"{where}: link {link.name}"
    for end in (link.src, link.dst):
        if end not in devices:
            raise UsageError(
                f"dangling link: no device {end!r}",
                where=place,
                expected="both ends to be devices of the fabric",
                fix=did_you_mean(end, devices),
            )
    if link.link_class not in LINK_CLASSES:
        raise unknown("link class", str(link.link_class), LINK_CLASSES, where=place)
    if link.src == link.dst and link.link_class != "memory":
        raise UsageError(
            "a link from a device to itself",
            where=place,
            expected="two devices (only class memory may loop)",
        )
    check_figures(
        GBps=link.GBps,
        wire_GBps=link.wire_GBps,
        latency_us=link.latency_us,
        where=lambda field: f"{place}: {field}",
    )
    if link.multiplicity < 1:
        raise UsageError(f"multiplicity {link.multiplicity}", where=place, expected="at least 1")
    if not 0 <= link.health <= 1:
        raise UsageError(f"health {link.health:g}", where=place, expected="0 (down) to 1 (whole)")


def check_figures(
    *,
    GBps: float | None,
    wire_GBps: float | None,
    latency_us: float | None,
    where: Callable[[str], str],
) -> None:
    """Raise UsageError for figures that cannot be; ``where`` gives the place of a field by its name."""
    for name, value in (("GBps", GBps), ("wire_GBps", wire_GBps)):
        if value is not None and not 0 < value < math.inf:
            raise UsageError(
                f"a bandwidth of {value:g}", where=where(name), expected="above 0 GB/s, or unknown"
            )
    if wire_GBps is not None and GBps is not None and wire_GBps < GBps:
        raise UsageError(
            f"usable {GBps:g} GB/s above the wire's {wire_GBps:g} GB/s",
            where=where("GBps"),
            expected="GBps at most wire_GBps (both per direction)",
        )
    if latency_us is not None and not 0 <= latency_us < math.inf:
        raise UsageError(
            f"a latency of {latency_us:g}",
            where=where("latency_us"),
            expected="0 µs or more, or unknown",
        )


def _reject_duplicates(devices: Sequence[Device], where: str) -> None:
    for group in _groups(devices):
        _each_once(group.items, where)
        if len(set(group.hosts)) < len(group.hosts):
            raise UsageError("two hosts share a name", where=where, expected="each name once")
    _each_once(_single(devices), where)


def _each_once(devices: Sequence[Device], where: str) -> None:
    seen: set[str] = set()
    for d in devices:
        if d.name in seen:
            raise UsageError(
                f"two devices are called {d.name!r}", where=where, expected="each name once"
            )
        if d.kind not in DEVICE_KINDS:
            raise unknown("device kind", str(d.kind), DEVICE_KINDS, where=f"{where}: {d.name}")
        seen.add(d.name)


def _grouped(links: Sequence[Link], key: Callable[[Link], str]) -> dict[str, tuple[Link, ...]]:
    groups: defaultdict[str, list[Link]] = defaultdict(list)
    for link in links:
        groups[key(link)].append(link)
    return {name: tuple(found) for name, found in groups.items()}
