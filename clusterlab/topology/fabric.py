"""The fabric: devices and directed links, each figure with its source. Pure data and look-ups.

GB/s are 1e9 B/s, per direction; µs or None where no source says. They come from a design
(``design/``), from this machine (``host.py``, ``discover/``) or from other tools' files (``importing/``).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from clusterlab.core.errors import UsageError
from clusterlab.core.suggest import did_you_mean, unknown
from clusterlab.topology.parts import (
    DEVICE_KINDS,
    Device,
    DeviceKind,
    Link,
    between,
    check_link,
    check_links,
)
from clusterlab.topology.repeated import Group, Repeated

if TYPE_CHECKING:
    import networkx as nx

T = TypeVar("T")


@dataclass(frozen=True)
class Fabric:
    """Devices and directed links. Raises UsageError when they do not fit together.

    Both are sequences; those of equal hosts are kept once and made when asked for (``repeated``).
    ``origin`` says where it comes from (a file, ``this host``, an import), ``digest`` is the SHA-256
    of the text it was read from, if any. ``oversubscription`` is what the design declares of its leaves
    (down : up) by role of the network. ``routing`` is how its switches choose among equal ways (a name of
    ``routing.policy``), where that is said.
    """

    name: str
    devices: Sequence[Device]
    links: Sequence[Link]
    description: str = ""
    origin: str = ""
    digest: str = ""
    oversubscription: Mapping[str, float] = field(default_factory=dict, hash=False)
    routing: str | None = None

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
        check_links(self.single_links, self._names, where=where)

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
        known = self._found.get(name)
        if known is not None:
            return known
        single = self._single_by_name.get(name)
        if single is not None:
            found: tuple[Device, str | None] = (single, None)
        else:
            host, _, local = name.partition("/")
            template = self._local_names(host).get(local)
            if template is None:
                return None
            found = (template, host)
        self._found[name] = found
        return found

    @cached_property
    def _found(self) -> dict[str, tuple[Device, str | None]]:
        return {}

    def find(self, name: str) -> Device | None:
        """The device called ``name``; None where there is none."""
        return None if self._find(name) is None else self.device(name)

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

    def kind_of(self, name: str) -> DeviceKind | None:
        """The kind of the device called ``name``, without making it; None where there is none."""
        found = self._find(name)
        return None if found is None else found[0].kind

    def models(self, kind: DeviceKind) -> dict[str | None, int]:
        """The models of all devices of one kind with how many there are of each; empty: none of the kind."""
        found: Counter[str | None] = Counter(d.model for d in self.single_devices if d.kind == kind)
        for group in self.equal_hosts:
            for model in (d.model for d in group.items if d.kind == kind):
                found[model] += len(group.hosts)
        return found

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
            own = self._links_at(group, host, index[id(group)].get(local, ())) if group else ()
            made[device] = (*own, *self._single_ends(way, device))
        return made[device]

    def single_links_from(self, device: str) -> tuple[Link, ...]:
        """Links that leave ``device`` and are not repeated: all that lead out of its host are among them."""
        return self._single_ends("from", device)

    def single_links_to(self, device: str) -> tuple[Link, ...]:
        """Links that arrive at ``device`` and are not repeated."""
        return self._single_ends("to", device)

    def _single_ends(self, way: Literal["from", "to"], device: str) -> tuple[Link, ...]:
        places = self._link_index[way][None].get(device)
        if places is None:
            return ()
        every = self.single_links
        return tuple([every[at] for at in places])

    def _links_at(self, group: Group[Link], host: str, places: Sequence[int]) -> Iterator[Link]:
        """Links of ``group`` as those of ``host``: from either end the same object."""
        hosts: dict[str, dict[int, Link]] = self.memo.setdefault("links at host", {})
        made = hosts.setdefault(host, {})
        for at in places:
            if at not in made:
                made[at] = link_at_host(group.items[at], host)
            yield made[at]

    @cached_property
    def _link_group_of(self) -> dict[str, Group[Link]]:
        return self.links.group_of if isinstance(self.links, Repeated) else {}

    @cached_property
    def _link_index(self) -> dict[str, dict[int | None, dict[str, list[int]]]]:
        """Way → group (None: single links) → device → the places of its links."""
        parts: dict[int | None, Sequence[Link]] = {id(g): g.items for g in _groups(self.links)}
        parts[None] = self.single_links
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

    def template_of(self, host: str) -> object:
        """Equal for hosts whose devices are kept once together; a host of its own for the others."""
        group = self._group_of.get(host)
        return host if group is None else id(group)

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

    def with_links(
        self,
        changes: Mapping[tuple[str, str], Sequence[Link]],
        *,
        description: str | None = None,
        digest: str | None = None,
    ) -> Fabric:
        """The same fabric where the links from ``src`` to ``dst`` are ``changes[src, dst]`` (none: removed).

        They stand where the first of the old ones stood; only hosts with a change inside are written out.
        ``description`` and ``digest`` replace the old ones where given.
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
            description=self.description if description is None else description,
            digest=self.digest if digest is None else digest,
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


_AFTER_HOST = attrgetter(*(f.name for f in fields(Device)[3:]))


def device_at_host(template: Device, host: str) -> Device:
    """A template's device as that of ``host``: five times as quick as ``replace``, and asked for often."""
    return Device(f"{host}/{template.name}", template.kind, host, *_AFTER_HOST(template))


def link_at_host(template: Link, host: str) -> Link:
    """A template's link as that of ``host``."""
    return between(template, f"{host}/{template.src}", f"{host}/{template.dst}")


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


def _grouped(links: Sequence[Link], key: Callable[[Link], str]) -> dict[str, list[int]]:
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for at, link in enumerate(links):
        groups[key(link)].append(at)
    return groups
