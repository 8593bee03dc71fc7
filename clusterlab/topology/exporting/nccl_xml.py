"""A host of a fabric as NCCL's topology XML, for NCCL_TOPO_FILE.

What the fabric does not say is left out, and NCCL asks the machine for it: CPU affinity, GPU Direct,
PCIe rates that are unknown. A device without a bus id gets one in the PCI domain ffff, which no machine
uses; a comment in the file lists those, as NCCL finds a GPU or NIC by its bus id only.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from clusterlab.core.errors import UsageError
from clusterlab.formats.nccl_tables import link_speed_text, nearest_pcie
from clusterlab.formats.pci_names import amd_architecture, compute_capability, ids_of
from clusterlab.topology.exporting.nccl_xml_tree import IN_TREE, PciTree, pci_tree, speed_GBps
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import Device, Link

_PCI = re.compile(r"([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F])")
_CPU_MODEL = re.compile(r"(x86_64|arm64|ppc64)(?: (.{1,16}) ([0-9]{1,4})/([0-9]{1,4}))?")
_PCI_MODEL = re.compile(r"pci ([0-9a-f]{4}):([0-9a-f]{4})(?: ([0-9a-f]{4}):([0-9a-f]{4}))?")
_CLASS_MODEL = re.compile(r"pci class (0x[0-9a-fA-F]{4,8})")
_NUMBERED = re.compile(r".*?([0-9]{1,9})")
_VALUE = re.compile(r'[^"\'<>&\x00-\x1f\x7f]{0,250}')

_SWITCH_CLASS, _NVSWITCH_CLASS, _CPU_CLASS = "0x060400", "0x068000", "0x068001"
_ETHERNET_CLASS, _IB_CLASS = "0x020000", "0x020700"
_NVIDIA_CLASS, _AMD_CLASS = "0x030200", "0x038000"
_SYNTHETIC = 8192  # buses x devices of one PCI domain


def to_nccl_xml(fabric: Fabric, host: str | None = None) -> str:
    """The topology file of ``host``; None: of the first, where all hosts are alike.

    Raises UsageError when the host is unknown, or must be named because hosts differ, and when nothing
    that NCCL lists is on it.
    """
    chosen = _choose(fabric, host)
    if not any(d.kind in IN_TREE for d in fabric.on_host(chosen)):
        raise UsageError(
            f"host {chosen} has no PCI devices",
            where=f"fabric {fabric.name}",
            expected="a host with GPUs or NICs",
        )
    return _Writer(fabric, chosen).document()


def _choose(fabric: Fabric, host: str | None) -> str:
    if host is not None:
        fabric.on_host(host)
        return host
    if not fabric.hosts:
        raise UsageError("no host", where=f"fabric {fabric.name}", expected="a fabric with hosts")
    first, *others = fabric.hosts
    shape = _shape(fabric, first)
    different = next((other for other in others if _shape(fabric, other) != shape), None)
    if different is not None:
        raise UsageError(
            f"hosts {first} and {different} differ",
            where=f"fabric {fabric.name}",
            expected="one host: NCCL's topology file describes a single node",
            fix=f"name one of its {len(fabric.hosts)} hosts",
        )
    return first


def _shape(fabric: Fabric, host: str) -> Counter[tuple[str, str | None, int | None]]:
    return Counter((d.kind, d.model, d.numa) for d in fabric.on_host(host))


@dataclass
class _Writer:
    fabric: Fabric
    host: str
    lines: list[str] = field(default_factory=list)
    bus_ids: dict[str, str] = field(default_factory=dict)
    invented: list[str] = field(default_factory=list)
    degraded: list[str] = field(default_factory=list)
    unrated: list[str] = field(default_factory=list)
    devs: dict[str, int] = field(default_factory=dict)
    ranks: dict[str, int] = field(default_factory=dict)

    def document(self) -> str:
        """The whole file."""
        tree = pci_tree(self.fabric, self.host)
        self._give_bus_ids(tree)
        gpus = self.fabric.on_host(self.host, "gpu")
        self.devs = _numbers(gpus) | _numbers(self.fabric.on_host(self.host, "nic"))
        self.ranks = {gpu.name: rank for rank, gpu in enumerate(gpus)}
        amd = any(amd_architecture(gpu.model or "") for gpu in gpus)
        for cpu in tree.cpus:
            self._cpu(cpu, tree)
        head = [*self._comment(tree), f'<system version="{2 if amd else 1}">']
        return "\n".join([*head, *self.lines, "</system>"]) + "\n"

    def _comment(self, tree: PciTree) -> Iterator[str]:
        yield f"<!-- NCCL topology of host {_plain(self.host)}, fabric {_plain(self.fabric.name)}; clusterlab"
        if self.invented:
            yield "Bus ids in domain ffff are made up: replace those of GPUs and NICs by the machine's:"
            yield " ".join(_plain(name) for name in self.invented)
        if tree.gone:
            yield f"Left out, all their links are down: {' '.join(_plain(n) for n in tree.gone)}"
        if self.degraded:
            yield f"Rounded down to whole links: {' '.join(_plain(n) for n in self.degraded)}"
        if self.unrated:
            # NCCL's reader fails on a c2c element without bw; without the element it asks NVML.
            yield "C2C left out, as what software gets of it is not known (NCCL asks the machine):"
            yield " ".join(_plain(n) for n in self.unrated)
        yield "-->"

    def _give_bus_ids(self, tree: PciTree) -> None:
        """Each device's own bus id as NCCL writes it, else one of the domain ffff that is still free."""
        switches = {d.name: d for d in self._nvswitches()}
        devices = [*tree.devices(), *switches.values()]
        own = {d.name: _bus_id(d) for d in devices}
        taken = {bus_id for bus_id in own.values() if bus_id is not None}
        made_up = (f"ffff:{i >> 5:02x}:{i & 31:02x}.0" for i in range(_SYNTHETIC))
        free = (bus_id for bus_id in made_up if bus_id not in taken)
        for d in devices:
            if d.name in self.bus_ids or d.name in tree.without_pci:
                continue
            bus_id = own[d.name] or next(free, None)
            if bus_id is None:
                raise UsageError(
                    f"more than {_SYNTHETIC} devices without a bus id",
                    where=f"host {self.host}",
                    expected="what one PCI domain holds",
                )
            self.bus_ids[d.name] = bus_id
            if own[d.name] is None:
                self.invented.append(f"{d.name.rpartition('/')[2]}={bus_id}")

    def _nvswitches(self) -> list[Device]:
        found = {}
        for gpu in self.fabric.on_host(self.host, "gpu"):
            for link in self.fabric.links_from(gpu.name):
                far = self.fabric.device(link.dst)
                if far.kind == "nvswitch":
                    found[far.name] = far
        return list(found.values())

    def _cpu(self, cpu: Device | None, tree: PciTree) -> None:
        attributes: dict[str, object] = {
            "numaid": -1 if cpu is None or cpu.numa is None else cpu.numa
        }
        model = _CPU_MODEL.fullmatch((cpu.model if cpu else None) or "")
        if model is not None:
            keys = ("arch", "vendor", "familyid", "modelid")
            attributes |= {k: v for k, v in zip(keys, model.groups(), strict=True) if v is not None}
        name = cpu.name if cpu else None
        self._open(1, "cpu", attributes)
        for child in tree.below(name):
            self._pci(child, tree, 2)
        ports = tree.ports_of(name)
        if ports:
            self._nic(ports, 2)
        self._close(1, "cpu")

    def _pci(self, group: list[Device], tree: PciTree, depth: int) -> None:
        """One ``<pci>``: a device, or the GPUs or ports that share a bus id."""
        first = group[0]
        attributes = self._pci_attributes(first, tree.link_up(first.name))
        children = tree.below(first.name) if first.kind == "pcie_switch" else []
        gpus = [d for d in group if d.kind == "gpu" and self._has_gpu_element(d)]
        ports = [d for d in group if d.kind == "nic" and self._is_port(d)]
        if not (children or gpus or ports):
            self._single(depth, "pci", attributes)
            return
        self._open(depth, "pci", attributes)
        for child in children:
            self._pci(child, tree, depth + 1)
        for gpu in gpus:
            self._gpu(gpu, depth + 1)
        if ports:
            self._nic(ports, depth + 1)
        self._close(depth, "pci")

    def _pci_attributes(self, device: Device, up: Link | None) -> dict[str, object]:
        attributes: dict[str, object] = {"busid": self.bus_ids[device.name]}
        pci_class = self._pci_class(device)
        if pci_class is not None:
            attributes["class"] = pci_class
        attributes |= _pci_ids(device.model or "")
        rate = None
        if up is not None and up.GBps is not None:
            wire = up.wire_GBps * up.health if up.wire_GBps is not None else None
            rate = nearest_pcie(GBps=up.GBps * up.health, wire_GBps=wire)
        if rate is not None:
            attributes |= {"link_speed": link_speed_text(rate.GTps), "link_width": rate.width}
        return attributes

    def _pci_class(self, device: Device) -> str | None:
        if device.kind == "gpu":
            return _AMD_CLASS if amd_architecture(device.model or "") else _NVIDIA_CLASS
        if device.kind == "nic":
            over_ib = any(link.link_class == "ib" for link in self._network_links(device))
            return _IB_CLASS if over_ib else _ETHERNET_CLASS
        if device.kind == "nvswitch":
            return _NVSWITCH_CLASS
        if device.kind == "pcie_switch":
            return _SWITCH_CLASS
        known = _CLASS_MODEL.fullmatch(device.model or "")
        return known.group(1) if known else None

    def _has_gpu_element(self, gpu: Device) -> bool:
        model = gpu.model or ""
        known = compute_capability(model) or amd_architecture(model)
        return bool(known or list(self._gpu_links(gpu)))

    def _gpu(self, gpu: Device, depth: int) -> None:
        dev = self.devs[gpu.name]
        attributes: dict[str, object] = {"dev": dev}
        sm = compute_capability(gpu.model or "")
        gcn = amd_architecture(gpu.model or "")
        if sm is not None:
            attributes["sm"] = sm
        elif gcn is not None:
            attributes["gcn"] = gcn
        attributes["rank"] = self.ranks[gpu.name]
        links = list(self._gpu_links(gpu))
        if not links:
            self._single(depth, "gpu", attributes)
            return
        self._open(depth, "gpu", attributes)
        for tag, link_attributes in links:
            self._single(depth + 1, tag, link_attributes)
        self._close(depth, "gpu")

    def _gpu_links(self, gpu: Device) -> Iterator[tuple[str, dict[str, object]]]:
        for link in self.fabric.links_from(gpu.name):
            if link.link_class not in {"nvlink", "xgmi", "c2c"}:
                continue
            far = self.fabric.device(link.dst)
            count = int(link.multiplicity * link.health + 1e-9)
            if count < link.multiplicity * link.health - 1e-9 and link.name not in self.degraded:
                self.degraded.append(link.name)
            if not count or (far.kind == "gpu" and far.name not in self.bus_ids):
                continue
            if link.link_class == "c2c" and far.kind == "cpu":
                if link.GBps is not None:
                    yield "c2c", {"bw": round(link.GBps * 1000), "count": count}
                elif gpu.name not in self.unrated:
                    self.unrated.append(gpu.name)
                continue
            tag = "xgmi" if link.link_class == "xgmi" else "nvlink"
            tclass = {"nvswitch": _NVSWITCH_CLASS, "cpu": _CPU_CLASS}.get(far.kind)
            if far.kind == "gpu":
                tclass = self._pci_class(far)
            if tclass is None:
                continue
            target = {"target": self.bus_ids[far.name]} if far.name in self.bus_ids else {}
            yield tag, {**target, "count": count, "tclass": tclass}

    def _is_port(self, nic: Device) -> bool:
        """Whether NCCL is to use it: a NIC of the storage or management network is a PCI device only."""
        return bool(self._network_links(nic)) and nic.role in {None, "compute"}

    def _network_links(self, nic: Device) -> list[Link]:
        return [
            link
            for link in self.fabric.links_from(nic.name)
            if link.link_class in {"ib", "ethernet", "network"} and link.health > 0
        ]

    def _nic(self, ports: list[Device], depth: int) -> None:
        self._open(depth, "nic", {})
        for nic in ports:
            self._single(depth + 1, "net", self._net_attributes(nic))
        self._close(depth, "nic")

    def _net_attributes(self, nic: Device) -> dict[str, object]:
        attributes: dict[str, object] = {}
        if nic.interface is not None:
            attributes["name"] = nic.interface
        attributes["dev"] = self.devs[nic.name]
        links = self._network_links(nic)
        rate = speed_GBps(links)
        if rate is not None:
            attributes["speed"] = round(rate * 8000)
        latency = next((link.latency_us for link in links if link.latency_us is not None), None)
        if latency is not None:
            attributes["latency"] = f"{latency:f}"
        known = {"guid": nic.guid, "rail": nic.rail, "plane": nic.plane}
        return attributes | {key: value for key, value in known.items() if value is not None}

    def _open(self, depth: int, tag: str, attributes: dict[str, object]) -> None:
        self.lines.append(f"{'  ' * depth}<{tag}{_written(attributes)}>")

    def _close(self, depth: int, tag: str) -> None:
        self.lines.append(f"{'  ' * depth}</{tag}>")

    def _single(self, depth: int, tag: str, attributes: dict[str, object]) -> None:
        self.lines.append(f"{'  ' * depth}<{tag}{_written(attributes)}/>")


def _written(attributes: dict[str, object]) -> str:
    """Attributes as NCCL's reader takes them: one blank before each, no entities, bounded length."""
    for key, value in attributes.items():
        if not _VALUE.fullmatch(str(value)):
            raise UsageError(
                f"{key} {str(value)[:40]!r} cannot stand in NCCL's XML",
                expected="up to 250 characters without quotes, <, > and &",
            )
    return "".join(f' {key}="{value}"' for key, value in attributes.items())


def _plain(text: str) -> str:
    """What may stand in a comment that NCCL's reader skips."""
    return re.sub(r"--+|[<>]", "_", text)


def _bus_id(device: Device) -> str | None:
    """``0000:1b:00.0`` for NVML's ``00000000:1B:00.0``; an NVSwitch's id is kept as it is."""
    if device.pci is None:
        return None
    text = device.pci.lower()
    match = _PCI.fullmatch(text)
    if match is None:
        return text if device.kind == "nvswitch" and _VALUE.fullmatch(text) else None
    domain, rest = match.groups()
    if device.kind == "nvswitch":
        return text
    return f"{int(domain, 16):04x}:{rest}"


def _pci_ids(model: str) -> dict[str, object]:
    keys = ("vendor", "device", "subsystem_vendor", "subsystem_device")
    known = ids_of(model)
    if known is not None:
        return dict(zip(keys, known, strict=False))
    written = _PCI_MODEL.fullmatch(model)
    if written is None:
        return {}
    return {k: f"0x{v}" for k, v in zip(keys, written.groups(), strict=True) if v is not None}


def _numbers(devices: tuple[Device, ...]) -> dict[str, int]:
    """The number in each device's name where all differ, else their order."""
    found = [_NUMBERED.fullmatch(d.name.rpartition("/")[2]) for d in devices]
    numbers = [int(match.group(1)) for match in found if match is not None]
    if len(set(numbers)) < len(devices):
        numbers = list(range(len(devices)))
    return {d.name: number for d, number in zip(devices, numbers, strict=True)}
