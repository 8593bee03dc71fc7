"""What equal hosts hold, looked at once: its names are those on the first of these hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from clusterlab.topology.fabric import Fabric, device_at_host, link_at_host
from clusterlab.topology.parts import Device, DeviceKind, Link
from clusterlab.topology.repeated import Group, Repeated

T = TypeVar("T")


def on_first_hosts(fabric: Fabric, kind: DeviceKind) -> Iterator[tuple[str, Device]]:
    """The devices of a kind, those of equal hosts once, with their names."""
    for group in fabric.equal_hosts:
        yield from ((f"{group.hosts[0]}/{d.name}", d) for d in group.items if d.kind == kind)
    yield from ((d.name, d) for d in fabric.single_devices if d.kind == kind)


def first_names(fabric: Fabric) -> Callable[[str], str]:
    """From a device's name to that of the same device on the first of the hosts equal to its own."""
    first = {
        host: (group.hosts[0], {d.name for d in group.items})
        for group in fabric.equal_hosts
        for host in group.hosts
    }

    def named(name: str) -> str:
        host, _, local = name.partition("/")
        known, own = first.get(host, (host, ()))
        return f"{known}/{local}" if local in own else name

    return named


def changed(
    fabric: Fabric,
    device: Callable[[str, Device], Device],
    link: Callable[[str, str, Link], Link],
) -> Fabric:
    """``fabric`` with each device (given with its name) and link (with its ends' names) made anew.

    Those of equal hosts are made once, and the hosts stay equal.
    """
    return replace(
        fabric,
        devices=_each(fabric.devices, lambda at, d: device(at(d.name), d), device_at_host),
        links=_each(fabric.links, lambda at, k: link(at(k.src), at(k.dst), k), link_at_host),
    )


def _each(
    items: Sequence[T],
    change: Callable[[Callable[[str], str], T], T],
    at_host: Callable[[T, str], T],
) -> Sequence[T]:
    def here(name: str) -> str:
        return name

    if not isinstance(items, Repeated):
        return tuple(change(here, item) for item in items)
    groups = [
        Group(g.hosts, tuple(change(f"{g.hosts[0]}/{{}}".format, item) for item in g.items))
        for g in items.groups
    ]
    return Repeated(groups, [change(here, item) for item in items.single], at_host)
