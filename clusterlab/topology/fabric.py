"""The fabric: devices and directed links, each figure with its source. Pure data and look-ups.

GB/s are 1e9 B/s, per direction; µs or None where no source says. Both come from a design
(``design.py``), from this machine (``host.py``), or later from imported files.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

from clusterlab.core.errors import UsageError
from clusterlab.core.suggest import did_you_mean, unknown

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
LinkClass = Literal[
    "nvlink", "xgmi", "c2c", "pcie", "upi", "ib", "ethernet", "network", "memory"
]
"""``network``: a link between hosts and switches of which no source says whether ib or ethernet."""

DEVICE_KINDS: tuple[str, ...] = get_args(DeviceKind)
LINK_CLASSES: tuple[str, ...] = get_args(LinkClass)

SWITCH_KINDS: tuple[DeviceKind, ...] = ("leaf", "spine", "core")
"""The network's switches, tier 1 to 3."""

Role = Literal["compute", "storage", "management", "aggregation"]
"""What a NIC or switch serves. ``aggregation``: the SHARP node inside a switch."""

ROLES: tuple[str, ...] = get_args(Role)

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

    ``origin`` says where it comes from (a file, ``this host``, an import), ``digest`` is the SHA-256
    of the text it was read from, if any.
    """

    name: str
    devices: tuple[Device, ...]
    links: tuple[Link, ...]
    description: str = ""
    origin: str = ""
    digest: str = ""

    def __post_init__(self) -> None:
        where = self.origin or f"fabric {self.name}"
        _reject_duplicates(self.devices, where)
        known = {d.name for d in self.devices}
        for link in self.links:
            check_link(link, known, where=where)

    @cached_property
    def memo(self) -> dict[object, Any]:
        """Facts derived from this fabric, kept by whoever derived them (routes)."""
        return {}

    @cached_property
    def _by_name(self) -> dict[str, Device]:
        return {d.name: d for d in self.devices}

    @cached_property
    def _from(self) -> dict[str, tuple[Link, ...]]:
        return _grouped(self.links, lambda link: link.src)

    @cached_property
    def _to(self) -> dict[str, tuple[Link, ...]]:
        return _grouped(self.links, lambda link: link.dst)

    def device(self, name: str) -> Device:
        """The device called ``name``. Raises UsageError with the nearest name."""
        found = self._by_name.get(name)
        if found is None:
            raise UsageError(
                f"no device {name!r}",
                where=f"fabric {self.name}",
                expected=f"one of its {len(self.devices)} devices",
                fix=did_you_mean(name, self._by_name),
            )
        return found

    def of_kind(self, kind: DeviceKind) -> tuple[Device, ...]:
        """The devices of one kind, in the design's order."""
        return tuple(d for d in self.devices if d.kind == kind)

    def links_from(self, device: str) -> tuple[Link, ...]:
        """Links that leave ``device``."""
        return self._from.get(device, ())

    def links_to(self, device: str) -> tuple[Link, ...]:
        """Links that arrive at ``device``."""
        return self._to.get(device, ())

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """Host names in order of first appearance."""
        return tuple(dict.fromkeys(d.host for d in self.devices if d.host is not None))

    def on_host(self, host: str, kind: DeviceKind | None = None) -> tuple[Device, ...]:
        """The devices of ``host``, all or of one kind."""
        if host not in self.hosts:
            raise unknown("host", host, self.hosts, where=f"fabric {self.name}")
        return tuple(d for d in self.devices if d.host == host and (kind is None or d.kind == kind))


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


def check_link(link: Link, devices: Iterable[str], *, where: str) -> None:
    """Raise UsageError for a link with a loose end or a figure that cannot be."""
    place = f"{where}: link {link.name}"
    known = devices if isinstance(devices, set | dict) else set(devices)
    for end in (link.src, link.dst):
        if end not in known:
            raise UsageError(
                f"dangling link: no device {end!r}",
                where=place,
                expected="both ends to be devices of the fabric",
                fix=did_you_mean(end, known),
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


def _reject_duplicates(devices: tuple[Device, ...], where: str) -> None:
    seen: set[str] = set()
    for d in devices:
        if d.name in seen:
            raise UsageError(
                f"two devices are called {d.name!r}", where=where, expected="each name once"
            )
        if d.kind not in DEVICE_KINDS:
            raise unknown("device kind", str(d.kind), DEVICE_KINDS, where=f"{where}: {d.name}")
        seen.add(d.name)


def _grouped(links: tuple[Link, ...], key: Callable[[Link], str]) -> dict[str, tuple[Link, ...]]:
    groups: defaultdict[str, list[Link]] = defaultdict(list)
    for link in links:
        groups[key(link)].append(link)
    return {name: tuple(found) for name, found in groups.items()}
