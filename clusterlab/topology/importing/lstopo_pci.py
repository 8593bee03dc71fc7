"""hwloc's PCI bridges to the switches, host bridges and cpus between a host's GPUs and NICs.

hwloc shows every port as a bridge: below a host bridge a root port, below it the upstream port of a
switch, below that its downstream ports, and so on by turns. One switch is one upstream port with its
downstream ports. Bridges that lead to no GPU or NIC are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from clusterlab.formats.lstopo_xml import LstopoObject
from clusterlab.topology.importing.pci_tree import both_ways
from clusterlab.topology.parts import Device, DeviceKind, Link

WIRE_SOURCE = "hwloc pci_link_speed: GB/s per direction at the time of the export"


@dataclass(frozen=True, slots=True)
class NumaCpu:
    """A cpu device and the NUMA nodes (bits of os_index) it stands for."""

    device: Device
    nodes: int


@dataclass
class PciParts:
    """What was built: devices between cpu and ends, links, the NUMA node of each end, loose ends."""

    devices: list[Device] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    numa: dict[str, int | None] = field(default_factory=dict)
    shared: list[str] = field(default_factory=list)


def build_pci(
    host: str,
    machine: LstopoObject,
    cpus: Sequence[NumaCpu],
    ends: Mapping[int, Sequence[str]],
) -> PciParts:
    """Devices and links between the ``cpus`` and the ends.

    ``ends``: names of GPUs and NICs by the ``id()`` of the PCI device (or OS device without one) that
    holds them. Objects whose locality is several NUMA nodes hang on a cpu of their own that stands for
    the group; ``shared`` names the ends below such.
    """
    builder = _PciBuilder(host, machine, cpus, ends)
    builder.below(machine, (1 << max((c.nodes.bit_length() for c in cpus), default=0)) - 1)
    return builder.parts


class _PciBuilder:
    def __init__(
        self,
        host: str,
        machine: LstopoObject,
        cpus: Sequence[NumaCpu],
        ends: Mapping[int, Sequence[str]],
    ) -> None:
        self.host = host
        self.parts = PciParts()
        self._cpus = list(cpus)
        self._domains = list(cpus)
        self._ends = ends
        self._leading = _leading_to(machine, ends)
        self._switches: set[str] = set()
        self._count: dict[str, int] = {}

    def below(self, found: LstopoObject, nodes: int) -> None:
        """Everything below ``found``, an object of the CPU side with locality ``nodes``."""
        here = found.nodeset if found.nodeset else nodes
        for child in found.children:
            if id(child) in self._ends or child.kind in {"Bridge", "PCIDev"}:
                if id(child) in self._leading:
                    self._on_cpu(child, here)
            else:
                self.below(child, here)

    def _on_cpu(self, found: LstopoObject, nodes: int) -> None:
        cpu = self._cpu_of(nodes)
        names = [n for o in found.walk() for n in self._ends.get(id(o), ())]
        self.parts.numa.update(dict.fromkeys(names, cpu.numa))
        if cpu.name not in {c.device.name for c in self._domains}:
            self.parts.shared += names
        if found.kind == "OSDev":
            return  # not on PCI: its way to the cpu is unknown
        if found.host_bridge:
            bridge = self._add("host_bridge", cpu.name, cpu.numa, None, None)
            for child in self._kept(found):
                self._port(child, bridge, cpu.numa)
        else:
            self._port(found, cpu.name, cpu.numa)

    def _port(self, found: LstopoObject, above: str, numa: int | None) -> None:
        """A device, or a root port or downstream port, below ``above``."""
        if found.kind != "Bridge":
            self._attach([found], above, numa)
            return
        inner = self._kept(found)
        bridges = [c for c in inner if c.kind == "Bridge"]
        devices = [c for c in inner if c.kind != "Bridge"]
        if devices:
            self._attach(devices, above, numa)
        for bridge in bridges:
            self._switch(bridge, above, numa)

    def _switch(self, upstream: LstopoObject, above: str, numa: int | None) -> None:
        switch = self._add("pcie_switch", above, numa, upstream, upstream.link_GBps)
        self._switches.add(switch)
        for child in self._kept(upstream):
            self._port(child, switch, numa)

    def _attach(self, devices: Sequence[LstopoObject], above: str, numa: int | None) -> None:
        """Ends of the functions of one card. Several below one root port share it: one bridge (PIX)."""
        named = [(d, name) for d in devices for name in self._ends.get(id(d), ())]
        if len(named) > 1 and above not in self._switches:
            above = self._add("pcie_switch", above, numa, None, devices[0].link_GBps)
        for device, name in named:
            self.parts.links += _pcie(name, above, device.link_GBps)

    def _kept(self, found: LstopoObject) -> list[LstopoObject]:
        return [child for child in found.children if id(child) in self._leading]

    def _add(
        self,
        kind: DeviceKind,
        above: str,
        numa: int | None,
        port: LstopoObject | None,
        GBps: float | None,
    ) -> str:
        name = f"{self.host}/{kind}{self._next(kind)}"
        pci = port.pci if port is not None else None
        model = f"{port.vendor}:{port.device}" if port is not None and port.vendor else None
        self.parts.devices.append(Device(name, kind, self.host, model=model, numa=numa, pci=pci))
        self.parts.links += _pcie(name, above, GBps)
        return name

    def _next(self, kind: str) -> int:
        index = self._count.get(kind, 0)
        self._count[kind] = index + 1
        return index

    def _cpu_of(self, nodes: int) -> Device:
        """The cpu of exactly these NUMA nodes (nodes without cores do not count), made where needed."""
        with_cores = nodes & _all_nodes(self._domains)
        for cpu in self._cpus:
            if cpu.nodes == with_cores:
                return cpu.device
        within = [c for c in self._domains if c.nodes & with_cores] or self._domains
        if len(within) == 1:
            return within[0].device
        name = f"{self.host}/cpus{self._next('cpus')}"
        group = NumaCpu(
            Device(name, "cpu", self.host, model="NUMA nodes " + _bits(with_cores)), with_cores
        )
        self._cpus.append(group)
        self.parts.devices.append(group.device)
        for cpu in within:
            self.parts.links += both_ways(name, cpu.device.name, "upi")
        return group.device


def _leading_to(machine: LstopoObject, ends: Mapping[int, Sequence[str]]) -> set[int]:
    """``id()`` of the objects that hold an end or have one below."""
    above = {id(child): o for o in machine.walk() for child in o.children}
    leading: set[int] = set()
    for o in machine.walk():
        found: LstopoObject | None = o if id(o) in ends else None
        while found is not None and id(found) not in leading:
            leading.add(id(found))
            found = above.get(id(found))
    return leading


def _all_nodes(cpus: Sequence[NumaCpu]) -> int:
    nodes = 0
    for cpu in cpus:
        nodes |= cpu.nodes
    return nodes


def _bits(mask: int) -> str:
    return ", ".join(str(i) for i in range(mask.bit_length()) if mask >> i & 1)


def _pcie(a: str, b: str, GBps: float | None) -> Iterator[Link]:
    source = "" if GBps is None else WIRE_SOURCE
    yield from both_ways(a, b, "pcie", wire_GBps=GBps, wire_source=source)
