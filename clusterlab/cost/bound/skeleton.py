"""A fabric as the bound sees it: hosts as wholes, what joins them, and each class of equal hosts once.

Made in one pass over the links that are not repeated, and kept by the fabric. An unknown rate is
infinite here, so a cut that it crosses limits nothing. Links that are down are not there.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from clusterlab.cost.bound.joined import Joined
from clusterlab.topology.fabric import Fabric, link_at_host
from clusterlab.topology.parts import Device, Link
from clusterlab.topology.repeated import Repeated

ONLY_SOFTWARE_SAYS = frozenset({"upi"})
"""Classes whose GBps, where no wire rate is beside it, is what NCCL reckons with (its constants for
sockets, src/graph/topo.h): hardware may carry more, so it limits nothing. Elsewhere a design's GBps is
the wire's unless it says otherwise (topologies/README.md)."""

INSIDE = ("island", "pcie", "socket")
"""Levels inside a host: GPUs and NVSwitches joined by accelerator links; what PCIe switches join; what
is joined without the links between CPUs."""

OUTSIDE = ("host", "domain", "leaves", "spines", "all")
"""Levels outside: each host; hosts joined by NVSwitches; by leaves as well; by spines; by everything."""

_TIER = {
    "leaf": 2,
    "spine": 3,
    "core": 4,
}  # index into OUTSIDE from which a switch joins its neighbours
_ACCELERATORS = frozenset({"gpu", "nvswitch"})
_ROOTS = frozenset({"cpu", "host_bridge"})


class Capacity:
    """GB/s out of and into something, summed up; infinite where one is unknown."""

    __slots__ = ("into", "out")

    def __init__(self, out: float = 0.0, into: float = 0.0) -> None:
        self.out, self.into = out, into

    def add(self, other: Capacity) -> None:
        """Add another's."""
        self.out += other.out
        self.into += other.into


def wire_GBps(link: Link) -> float:
    """What nothing can exceed on ``link``; infinite when unknown, 0 when it is down."""
    if link.health <= 0:
        return 0.0
    if link.wire_GBps is None and link.link_class in ONLY_SOFTWARE_SAYS:
        return math.inf
    capacity = link.wire_capacity_GBps
    return math.inf if capacity is None else capacity


@dataclass(frozen=True)
class HostClass:
    """Hosts that are alike inside. Names are local where many hosts share the class, else whole."""

    devices: tuple[Device, ...]
    links: tuple[Link, ...]
    shared: bool

    def name_at(self, host: str, name: str) -> str:
        """The whole name of this class's device ``name`` at ``host``."""
        return f"{host}/{name}" if self.shared else name

    def local(self, host: str, device: str) -> str:
        """This class's name of ``device`` of ``host``."""
        return device[len(host) + 1 :] if self.shared else device

    @cached_property
    def labels(self) -> dict[str, dict[str, str]]:
        """Level → device → the set it is in."""
        kind = {d.name: d.kind for d in self.devices}
        joined = {level: Joined(kind) for level in INSIDE}
        for link in self.links:
            ends = {kind[link.src], kind[link.dst]}
            if ends <= _ACCELERATORS:
                joined["island"].join(link.src, link.dst)
            if not ends & _ROOTS:
                joined["pcie"].join(link.src, link.dst)
            if ends != {"cpu"}:
                joined["socket"].join(link.src, link.dst)
        return {
            level: {name: sets.label(name) for name in kind} for level, sets in joined.items()
        } | {"device": {name: name for name in kind}}

    @cached_property
    def capacity(self) -> dict[str, dict[str, Capacity]]:
        """Level → set → the capacity of the host's own links across its border."""
        return {level: _across(self.links, labels) for level, labels in self.labels.items()}

    @cached_property
    def memory_links(self) -> dict[str, list[Link]]:
        """Device → the links over which ranks on it reach each other."""
        found: defaultdict[str, list[Link]] = defaultdict(list)
        for link in self.links:
            if link.src == link.dst:
                found[link.src].append(link)
        return found

    @cached_property
    def in_network(self) -> tuple[str, ...]:
        """Switches of the host that reduce and multicast and are connected."""
        connected = {end for link in self.links for end in (link.src, link.dst)}
        return tuple(d.name for d in self.devices if d.in_network and d.name in connected)


def _across(links: Iterable[Link], labels: Mapping[str, str]) -> dict[str, Capacity]:
    found: defaultdict[str, Capacity] = defaultdict(Capacity)
    for link in links:
        a, b = labels[link.src], labels[link.dst]
        if a != b:
            rate = wire_GBps(link)
            found[a].out += rate
            found[b].into += rate
    return found


@dataclass
class Skeleton:
    """``edges``: capacity between nodes, a node being a host or a device without one. ``ports``: of the
    hosts' devices, what crosses the host's border there. ``inner``: links inside a host that only it has.
    """

    fabric: Fabric
    edges: dict[tuple[str, str], float] = field(default_factory=dict)
    ports: dict[str, dict[str, Capacity]] = field(default_factory=dict)
    inner: dict[str, list[Link]] = field(default_factory=dict)
    latency_known: bool = False
    _classes: dict[object, HostClass] = field(default_factory=dict)

    def class_of(self, host: str) -> HostClass:
        """What ``host`` is like inside."""
        devices, links = self.fabric.devices, self.fabric.links
        own = devices.group_of.get(host) if isinstance(devices, Repeated) else None
        own_links = links.group_of.get(host) if isinstance(links, Repeated) else None
        shared = own is not None and host not in self.inner and host not in self._has_single
        key = (id(own), id(own_links)) if shared else host
        if key not in self._classes:
            parts = tuple(own.items) if shared and own else self.fabric.on_host(host)
            inside = own_links.items if own_links else ()
            wires = inside if shared else [link_at_host(link, host) for link in inside]
            live = (link for link in (*wires, *self.inner.get(host, ())) if link.health > 0)
            self._classes[key] = HostClass(parts, tuple(live), shared)
        return self._classes[key]

    @cached_property
    def _has_single(self) -> frozenset[str]:
        return frozenset(d.host for d in self.fabric.single_devices if d.host is not None)

    @cached_property
    def labels(self) -> dict[str, dict[str, str]]:
        """Level outside hosts → node → the set it is in; levels that change nothing share their labels."""
        tier = {d.name: _TIER.get(d.kind, 1) for d in self.fabric.network_devices}
        nodes = dict.fromkeys((*self.fabric.hosts, *tier))
        joined = Joined(nodes)
        labels = {"host": {node: node for node in nodes}}
        by_tier: defaultdict[int, list[tuple[str, str]]] = defaultdict(list)
        for a, b in self.edges:
            by_tier[max(tier.get(a, 1), tier.get(b, 1))].append((a, b))
        before = labels["host"]
        for at, level in enumerate(OUTSIDE[1:], start=1):
            for a, b in by_tier[at]:
                joined.join(a, b)
            labels[level] = before = (
                {node: joined.label(node) for node in nodes} if by_tier[at] else before
            )
        return labels

    @cached_property
    def capacity(self) -> dict[str, dict[str, Capacity]]:
        """Level outside hosts → set → the capacity of the links across its border."""
        done: dict[int, dict[str, Capacity]] = {}
        for labels in self.labels.values():
            if id(labels) not in done:
                found: defaultdict[str, Capacity] = defaultdict(Capacity)
                for (a, b), rate in self.edges.items():
                    at, to = labels[a], labels[b]
                    if at != to:
                        found[at].out += rate
                        found[to].into += rate
                done[id(labels)] = found
        return {level: done[id(labels)] for level, labels in self.labels.items()}

    @cached_property
    def in_network(self) -> tuple[Device, ...]:
        """Devices outside hosts that reduce and multicast and are connected."""
        marked = [d for d in self.fabric.network_devices if d.in_network]
        connected = {node for edge in self.edges for node in edge} if marked else set()
        return tuple(d for d in marked if d.name in connected)


def skeleton(fabric: Fabric) -> Skeleton:
    """The fabric's skeleton, made once."""
    found = fabric.memo.get("bound skeleton")
    if not isinstance(found, Skeleton):
        found = fabric.memo["bound skeleton"] = _skeleton(fabric)
    return found


def _skeleton(fabric: Fabric) -> Skeleton:
    made = Skeleton(fabric)
    host_at: dict[str, str | None] = {}
    for link in fabric.single_links:
        src, dst = link.src, link.dst
        if link.health <= 0:
            continue
        for end in (src, dst):
            if end not in host_at:
                host_at[end] = fabric.host_of(end)
        a, b = host_at[src], host_at[dst]
        if link.latency_us:
            made.latency_known = True
        if a is not None and a == b:
            made.inner.setdefault(a, []).append(link)
        elif src != dst:
            _add_edge(made, link, a, b)
    made.latency_known |= any(link.latency_us for link in _repeated(fabric.links))
    return made


def _add_edge(made: Skeleton, link: Link, a: str | None, b: str | None) -> None:
    rate = wire_GBps(link)
    edge = (a or link.src, b or link.dst)
    made.edges[edge] = made.edges.get(edge, 0.0) + rate
    if a is not None:
        _port(made, a, link.src).out += rate
    if b is not None:
        _port(made, b, link.dst).into += rate


def _port(made: Skeleton, host: str, device: str) -> Capacity:
    ports = made.ports.get(host)
    if ports is None:
        ports = made.ports[host] = {}
    found = ports.get(device)
    if found is None:
        found = ports[device] = Capacity()
    return found


def _repeated(links: Sequence[Link]) -> Iterable[Link]:
    return (
        (link for group in links.groups for link in group.items)
        if isinstance(links, Repeated)
        else ()
    )
