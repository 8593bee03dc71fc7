"""Hosts that are equal inside, found whatever way the fabric keeps them. Pure.

Equal means the same devices and the same links between them, health included; names of hosts, bus ids
and GUIDs do not count. What is worked out of one host then holds for all of its shape.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace

from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import Device, Link
from clusterlab.topology.repeated import Repeated


@dataclass(frozen=True)
class HostShape:
    """``hosts`` that are equal inside; devices and links carry local names (``gpu0``)."""

    hosts: tuple[str, ...]
    devices: tuple[Device, ...]
    links: tuple[Link, ...]


def host_shapes(fabric: Fabric) -> tuple[HostShape, ...]:
    """The shapes in order of first appearance; kept in the fabric's memo."""
    known: tuple[HostShape, ...] | None = fabric.memo.get("host_shapes")
    if known is None:
        known = fabric.memo["host_shapes"] = _shapes(fabric)
    return known


def _shapes(fabric: Fabric) -> tuple[HostShape, ...]:
    single_devices = _single_devices(fabric)
    single_links = _single_links(fabric)
    repeated_devices = fabric.devices.group_of if isinstance(fabric.devices, Repeated) else {}
    repeated_links = fabric.links.group_of if isinstance(fabric.links, Repeated) else {}
    hosts_of: defaultdict[Hashable, list[str]] = defaultdict(list)
    content: dict[Hashable, tuple[tuple[Device, ...], tuple[Link, ...]]] = {}
    made: dict[tuple[int, int], Hashable] = {}
    for host in fabric.hosts:
        devices = repeated_devices.get(host)
        links = repeated_links.get(host)
        own = single_devices.get(host, []), single_links.get(host, [])
        ids = (id(devices), id(links))
        key = None if any(own) else made.get(ids)
        if key is None:
            inside = (
                (*map(_plain, devices.items if devices else ()), *own[0]),
                (*(links.items if links else ()), *own[1]),
            )
            key = (inside[0], frozenset(inside[1]))
            content.setdefault(key, inside)
            if not any(own):
                made[ids] = key
        hosts_of[key].append(host)
    return tuple(HostShape(tuple(hosts), *content[key]) for key, hosts in hosts_of.items())


def _plain(device: Device) -> Device:
    return replace(device, host="", pci=None, guid=None)


def _single_devices(fabric: Fabric) -> dict[str, list[Device]]:
    found: defaultdict[str, list[Device]] = defaultdict(list)
    for d in fabric.single_devices:
        if d.host is not None:
            found[d.host].append(_plain(replace(d, name=local_name(d.host, d.name))))
    return found


def _single_links(fabric: Fabric) -> dict[str, list[Link]]:
    found: defaultdict[str, list[Link]] = defaultdict(list)
    for link in fabric.single_links:
        host = fabric.host_of(link.src)
        if host is not None and host == fabric.host_of(link.dst):
            ends = [local_name(host, end) for end in (link.src, link.dst)]
            found[host].append(replace(link, src=ends[0], dst=ends[1]))
    return found


def local_name(host: str, name: str) -> str:
    """``n0/gpu0`` on n0 is ``gpu0``."""
    return name.removeprefix(f"{host}/")


def device_of(shape: HostShape, name: str) -> Device:
    """The shape's device with this local name."""
    return next(d for d in shape.devices if d.name == name)


def of_kind(devices: Iterable[Device], *kinds: str) -> list[Device]:
    """Those of ``devices`` that are of one of ``kinds``."""
    return [d for d in devices if d.kind in kinds]


def counted_links(fabric: Fabric) -> list[tuple[Link, int, str]]:
    """Links with how often they are there and, for those of equal hosts (local names), one such host."""
    links = fabric.links
    if not isinstance(links, Repeated):
        return [(k, 1, "") for k in links]
    repeated = [(k, len(g.hosts), g.hosts[0]) for g in links.groups for k in g.items]
    return [*repeated, *((k, 1, "") for k in links.single)]
