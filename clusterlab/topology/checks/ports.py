"""Port budgets: more cables than ports, and connectors (OSFP cages) that hold more than they can. Pure.

A twin-port cage is one failure domain: its transceiver, or the cable in it, takes all its NICs down. On the
reference hosts (DGX H100 user guide, table 6) those are two NICs of two rails.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from clusterlab.core.findings import Finding, Severity
from clusterlab.topology.checks.evidence import bounded, hosts_text
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import Device, Link
from clusterlab.topology.shapes import HostShape, host_shapes

MOST_IN_CAGE = 2
"""Network ports in one connector: an OSFP cage takes a twin-port transceiver."""

_CABLE_CLASSES = frozenset({"nvlink", "xgmi", "ib", "ethernet", "network"})
"""What a port of a NIC or switch takes; its PCIe side is not a port."""


def ports(fabric: Fabric) -> list[Finding]:
    """The findings of both budgets; none where no device says how many ports it has."""
    return [*port_overflow(fabric), *crowded_cages(fabric)]


def port_overflow(fabric: Fabric) -> list[Finding]:
    """Devices with more cables than ``ports``. Cables that are down count: they occupy a port."""
    lines = [*_network_overflows(fabric), *_host_overflows(fabric)]
    if not lines:
        return []
    return [
        Finding(
            code="port_overflow",
            severity=Severity.ERROR,
            evidence=bounded(lines, "devices"),
            fix="count the cables again: split a port only where the switch can, or spread them over "
            "more switches",
        )
    ]


def _cables(links: Iterable[Link]) -> Counter[str]:
    """Cables by device: the larger of its two directions, as a cable carries both."""
    leaving: Counter[str] = Counter()
    arriving: Counter[str] = Counter()
    for link in links:
        if link.link_class in _CABLE_CLASSES:
            leaving[link.src] += link.multiplicity
            arriving[link.dst] += link.multiplicity
    return leaving | arriving


def _network_overflows(fabric: Fabric) -> Iterator[str]:
    cables = _cables(fabric.network_links)
    for device in fabric.network_devices:
        if device.ports is not None and cables[device.name] > device.ports:
            yield f"{device.name}: {cables[device.name]} cables, {device.ports} ports"


def _host_overflows(fabric: Fabric) -> Iterator[str]:
    """Devices of hosts: cables inside their host and beyond it; equal cases are one line."""
    outside = _cables(fabric.network_links)
    for shape in host_shapes(fabric):
        inside = _cables(shape.links)
        for device in shape.devices:
            if device.ports is None:
                continue
            too_many: defaultdict[int, list[str]] = defaultdict(list)
            for host in shape.hosts:
                count = inside[device.name] + outside[f"{host}/{device.name}"]
                if count > device.ports:
                    too_many[count].append(host)
            for count, hosts in too_many.items():
                yield f"{device.name} of {hosts_text(hosts)}: {count} cables, {device.ports} ports"


def cages(fabric: Fabric) -> dict[str, tuple[Device, ...]]:
    """The NICs of every connector that has a name, as ``osfp4@n2``: what fails together."""
    found: defaultdict[str, list[Device]] = defaultdict(list)
    for nic in fabric.of_kind("nic"):
        if nic.cage is not None:
            found[f"{nic.cage}@{nic.host}"].append(nic)
    return {name: tuple(nics) for name, nics in found.items()}


def crowded_cages(fabric: Fabric) -> list[Finding]:
    """Connectors with more network ports than fit, and those whose failure takes one rail twice."""
    over: list[str] = []
    same_rail: list[str] = []
    for shape in host_shapes(fabric):
        for cage, nics in _cages_of(shape).items():
            where = f"{cage} of {hosts_text(shape.hosts)}"
            named = ", ".join(nic.name for nic in nics)
            if sum(nic.ports or 1 for nic in nics) > MOST_IN_CAGE:
                over.append(f"{where}: {named}")
            twice = [r for r, n in Counter(nic.rail for nic in nics).items() if n > 1]
            same_rail += [f"{where}: {named} on rail {r}" for r in twice if r is not None]
    findings = []
    if over:
        findings.append(
            Finding(
                code="cage_overflow",
                severity=Severity.ERROR,
                evidence=bounded(over, "cages"),
                fix=f"a connector takes {MOST_IN_CAGE} network ports: correct the cage of each NIC",
            )
        )
    if same_rail:
        findings.append(
            Finding(
                code="cage_on_one_rail",
                severity=Severity.WARNING,
                evidence=bounded(same_rail, "cages"),
                fix="correct the rails or the cages; if it is really so, one transceiver takes this "
                "rail down twice",
            )
        )
    return findings


def _cages_of(shape: HostShape) -> dict[str, list[Device]]:
    found: defaultdict[str, list[Device]] = defaultdict(list)
    for device in shape.devices:
        if device.kind == "nic" and device.cage is not None:
            found[device.cage].append(device)
    return found
