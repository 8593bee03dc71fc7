"""InfraGraph files as a fabric: templates expanded, ports and slots joined through, tiers by height.

Hosts are called as their instance: ``n0``, ``n1`` for an instance ``n`` of two, ``n0`` for one of that name.
Its schema has no direction for a bandwidth; it is taken per direction. A rate per lane (gigatransfers) stays
unknown, as lanes are not given.
"""

from __future__ import annotations

import hashlib
import heapq
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import PurePath

from clusterlab.core.errors import UsageError
from clusterlab.formats.infragraph import parse_infragraph
from clusterlab.formats.infragraph_model import Instance, LinkType
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.importing.imported import Imported
from clusterlab.topology.importing.infragraph_blueprint import Blueprint, Cable, Expanded, Part
from clusterlab.topology.importing.infragraph_expand import Expansion
from clusterlab.topology.importing.infragraph_findings import findings_of, untrusted_links
from clusterlab.topology.importing.infragraph_join import Joined, contract
from clusterlab.topology.importing.infragraph_rails import rail_of_both, with_rails
from clusterlab.topology.importing.infragraph_roles import (
    component_kind,
    is_management,
    is_memory,
    link_class,
    named_class,
    outside_kind,
)
from clusterlab.topology.parts import Device, DeviceKind, Link

KIND = "infragraph"

_PARALLEL = re.compile(r"^(\d{1,6}) parallel links?")
_TIERS: tuple[DeviceKind, ...] = ("leaf", "spine", "core")


def read_infragraph(text: str, *, file: str) -> Imported:
    """Devices and links of all instances; templates alone give one of each.

    Raises UsageError naming file, line and field.
    """
    source = parse_infragraph(text, file=file)
    expanded = Expansion(source, file).run()
    untrusted = untrusted_links(source)
    devices, cables = _Assembly(expanded, file).assemble()
    links = [link for cable in cables for link in _both_ways(cable, devices, untrusted)]
    fabric = Fabric(
        name=source.name or PurePath(file).stem,
        devices=tuple(devices.values()),
        links=tuple(links),
        description=" ".join(source.description.split()),
        origin=file,
        digest=hashlib.sha256(text.encode()).hexdigest(),
    )
    facts = {
        "templates": {t.name: len(t.components) for t in source.templates},
        "instances": {i.name: i.count for i, _ in expanded.instances},
    }
    used = {cable.link for cable in cables}
    return Imported(KIND, fabric, findings_of(source, expanded.notes, used, file), facts)


class _Assembly:
    """Names parts as devices and joins what only passes links on."""

    def __init__(self, expanded: Expanded, file: str) -> None:
        self.expanded = expanded
        self.file = file
        self.devices: dict[str, Device] = {}
        self.untiered: set[str] = set()
        self.device_of: dict[str, str | None] = {}
        """Of each part: its device, None for memory; a part that is not in here passes links on."""

    def assemble(self) -> tuple[dict[str, Device], list[Joined]]:
        """Devices by name and the cables between them."""
        cables = list(self.expanded.cables)
        for instance, blueprint in self.expanded.instances:
            classes = _classes_by_part(blueprint)
            for i in range(instance.count or 0):
                self._stamp(instance, i, blueprint, classes)
                prefix = f"{instance.name}.{i}."
                cables += [Cable(prefix + c.a, prefix + c.b, c.link) for c in blueprint.cables]
        joined = contract(cables, self.device_of)
        self._home_nics(joined)
        renamed = self._into_hosts()
        joined = [replace(j, a=renamed.get(j.a, j.a), b=renamed.get(j.b, j.b)) for j in joined]
        self._tiers(joined)
        return with_rails(self.devices, joined), joined

    def _stamp(
        self, instance: Instance, i: int, blueprint: Blueprint, classes: Mapping[str, set[str]]
    ) -> None:
        name = instance.name if instance.count == 1 else f"{instance.name}{i}"
        if blueprint.role in ("switch", "nic"):
            said = outside_kind(part.component for part in blueprint.parts.values())
            kind: DeviceKind = said or ("leaf" if blueprint.role == "switch" else "nic")
            if said is None and kind == "leaf":
                self.untiered.add(name)
            ports = sum(
                "port" in p.component.choice + p.component.name for p in blueprint.parts.values()
            )
            self._add(Device(name, kind, model=instance.device, ports=ports or None))
        for path, part in blueprint.parts.items():
            device = name if blueprint.role in ("switch", "nic") else None
            if blueprint.role == "host":
                device = self._part(name, part, blueprint, classes.get(path, set()))
                if device == "":
                    continue
            elif blueprint.role == "cable":
                continue
            self.device_of[f"{instance.name}.{i}.{path}"] = device

    def _part(self, host: str, part: Part, blueprint: Blueprint, classes: set[str]) -> str | None:
        """The device of a part of a host: its name, None for memory, empty for what passes links on."""
        if part.owner == "cable":
            return ""
        if part.owner in ("nic", "switch"):
            kind: DeviceKind | None = "nic" if part.owner == "nic" else "nvswitch"
            local = _local(part.owner_path, blueprint)
        elif is_memory(part.component):
            return None
        else:
            kind = component_kind(part.component, classes)  # type: ignore[arg-type]
            local = _local(part.path, blueprint)
        if kind is None:
            return ""
        name = host if kind == "host" else f"{host}/{local}"
        if name not in self.devices:
            management = kind == "nic" and is_management(part.component)
            self._add(
                Device(
                    name,
                    kind,
                    host=host,
                    model=" ".join(part.component.description.split())[:60] or None,
                    role="management" if management else None,
                )
            )
        return name

    def _add(self, device: Device) -> None:
        if device.name in self.devices:
            raise UsageError(
                f"two devices are called {device.name!r}",
                where=self.file,
                expected="names of instances that stay apart with their numbers",
            )
        self.devices[device.name] = device

    def _home_nics(self, joined: Iterable[Joined]) -> None:
        """A NIC that is an instance of its own belongs to the host whose part it hangs on."""
        for cable in joined:
            for one, other in ((cable.a, cable.b), (cable.b, cable.a)):
                nic, host = self.devices[one], self.devices[other].host
                if nic.kind == "nic" and nic.host is None and host is not None:
                    self.devices[one] = replace(nic, host=host)

    def _into_hosts(self) -> dict[str, str]:
        """Names of such NICs as ``host/nic``; a NIC of no host is a host of its own."""
        renamed = {
            d.name: f"{d.host}/{d.name}"
            for d in self.devices.values()
            if d.kind == "nic" and "/" not in d.name and d.host is not None
        }
        self.devices = {
            renamed.get(name, name): replace(d, name=renamed.get(name, name))
            for name, d in self.devices.items()
        }
        return renamed

    def _tiers(self, joined: Iterable[Joined]) -> None:
        """Leaf, spine or core by the distance of a switch from the nearest host."""
        switches = {name for name, d in self.devices.items() if d.kind in _TIERS}
        near: defaultdict[str, list[str]] = defaultdict(list)
        for cable in joined:
            near[cable.a].append(cable.b)
            near[cable.b].append(cable.a)
        height: dict[str, int] = {}
        queue = [
            (1, name) for name in switches if any(other not in switches for other in near[name])
        ]
        heapq.heapify(queue)
        while queue:
            tier, name = heapq.heappop(queue)
            if name in height:
                continue
            height[name] = tier
            for other in near[name]:
                if other in switches and other not in height:
                    heapq.heappush(queue, (tier + 1, other))
        for name in self.untiered:
            tier = min(height.get(name, 1), len(_TIERS))
            self.devices[name] = replace(self.devices[name], kind=_TIERS[tier - 1])


def _local(path: str, blueprint: Blueprint) -> str:
    """``xpu.3`` as ``xpu3``, the only ``cpu.0`` as ``cpu``; nested parts joined by a dash."""
    words = path.split(".")
    pairs = list(zip(words[::2], words[1::2], strict=True))
    only = blueprint.counts.get(pairs[0][0]) == 1
    first = pairs[0][0] if only else "".join(pairs[0])
    return "-".join([first, *("".join(pair) for pair in pairs[1:])])


def _classes_by_part(blueprint: Blueprint) -> dict[str, set[str]]:
    classes: defaultdict[str, set[str]] = defaultdict(set)
    for cable in blueprint.cables:
        named = named_class(cable.link)
        if named is not None:
            classes[cable.a].add(named)
            classes[cable.b].add(named)
    return classes


def _each(GBps: float | None, parallel: int) -> float | None:
    return None if GBps is None else round(GBps / parallel, 9)


def _both_ways(
    cable: Joined, devices: Mapping[str, Device], untrusted: frozenset[LinkType]
) -> list[Link]:
    a, b = devices[cable.a], devices[cable.b]
    parallel = _PARALLEL.match(cable.link.description)
    each = int(parallel[1]) if parallel and int(parallel[1]) else 1
    GBps = None if cable.link in untrusted else _each(cable.link.GBps, each)
    latency_us = cable.link.latency_us
    inside = a.host is not None and a.host == b.host
    return [
        Link(
            src,
            dst,
            link_class(cable.link, (a.kind, b.kind), inside=inside),
            GBps,
            latency_us,
            multiplicity=cable.count * each,
            rail=rail_of_both(cable.link.description),
            GBps_source=""
            if GBps is None
            else f"infragraph: {cable.link.unit} of {cable.link.name}",
            latency_source="" if latency_us is None else f"infragraph: {cable.link.name}",
        )
        for src, dst in ((a.name, b.name), (b.name, a.name))
    ]
