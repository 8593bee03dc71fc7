"""Devices and links: what a fabric is made of, and what no figure of theirs can be. Pure data.

GB/s are 1e9 B/s, per direction; µs or None where no source says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import Literal, get_args

from clusterlab.core.errors import UsageError
from clusterlab.core.suggest import did_you_mean, unknown

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

Transport = Literal["ib", "roce", "gib", "efa", "tcpx", "tcpxo", "slingshot", "tcp"]
"""What a NIC's network plugin speaks; where a NIC says nothing, its cables' link class decides."""

TRANSPORTS: tuple[str, ...] = get_args(Transport)

MAX_MULTIPLICITY = 100_000
"""Parallel links between two devices: more is a slip of the pen."""

PRETENDED = "fake"
"""The model of GPUs that a lab pretends: the ranks on them are processes on the hosts' cores."""

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
    others (``osfp4``: what fails together), ``listed_as`` what the network's listing calls it where that
    is another name (``HCA-5``), ``transport`` what a NIC speaks (``efa``). None: unknown.
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
    listed_as: str | None = None
    transport: Transport | None = None


_FIGURES = attrgetter(
    "link_class", "GBps", "wire_GBps", "latency_us", "multiplicity", "ports", "health"
)
"""What ``check_link`` looks at beside the ends."""


@dataclass(frozen=True, slots=True)
class Link:
    """One direction of a connection: ``multiplicity`` equal cables or lanes from src to dst.

    ``GBps`` is what one of them carries for software, ``wire_GBps`` its signalling rate (never less;
    None: not known apart from GBps). None in GBps or latency_us means that no source says. ``health``
    is the share of the capacity left: 1 whole, 0 down. A link of class ``memory`` from a device to
    itself is how ranks on that device reach each other: GBps per core, multiplicity the cores. ``ports``
    are the ports of src its cables are in, in the order of dst's on the way back; empty where no source
    says.
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
    ports: tuple[int, ...] = ()

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


_AFTER_ENDS = attrgetter(*(f.name for f in fields(Link)[2:]))


def between(link: Link, src: str, dst: str) -> Link:
    """The same link from ``src`` to ``dst``: five times as quick as ``replace``, for the many of a design."""
    return Link(src, dst, *_AFTER_ENDS(link))


def check_links(links: Iterable[Link], devices: Collection[str], *, where: str) -> None:
    """``check_link`` of many: each end and each set of figures is looked at once."""
    ends: set[str] = set()
    figures: set[object] = set()
    for link in links:
        mine = _FIGURES(link)
        if mine not in figures or link.src == link.dst:
            check_link(link, devices, where=where)
            figures.add(mine)
        for end in (link.src, link.dst):
            if end not in ends:
                if end not in devices:
                    check_link(link, devices, where=where)
                ends.add(end)


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
    if not 1 <= link.multiplicity <= MAX_MULTIPLICITY:
        raise UsageError(
            f"multiplicity {link.multiplicity}",
            where=place,
            expected=f"1 to {MAX_MULTIPLICITY} parallel links",
        )
    if link.ports and len(link.ports) != link.multiplicity:
        raise UsageError(
            f"{len(link.ports)} ports for {link.multiplicity} cables",
            where=place,
            expected="a port for each cable, or none",
        )
    if not 0 <= link.health <= 1:
        raise UsageError(f"health {link.health:g}", where=place, expected="0 (down) to 1 (whole)")


def some_cables(link: Link, first: int, count: int) -> Link:
    """``count`` cables of ``link`` from number ``first`` (from 0) on, with their ports."""
    return replace(link, multiplicity=count, ports=link.ports[first : first + count])


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
