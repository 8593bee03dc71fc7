"""One host of an NCCL log: the views that its ranks printed, joined, as devices and links."""

from __future__ import annotations

from dataclasses import dataclass, field

from clusterlab.formats.nccl_log import NcclLog, bus_id_text
from clusterlab.formats.nccl_log_system import Key, SystemLink, SystemNode, SystemSection
from clusterlab.formats.nccl_tables import LOCAL_GBps
from clusterlab.formats.pci_names import model_of
from clusterlab.topology.parts import Device, DeviceKind, Link, LinkClass

NETWORK = "network"
"""The external device at the far end of every port: the log does not say what is there."""

_DEEPEST = 64  # PCI levels followed up to a CPU
_SOURCE = "nccl log: system section, one decimal"
_NVLINK_SOURCE = (
    "nccl log: system section, all links to that end together (their number is not printed)"
)
_CLASSES: dict[str, LinkClass] = {
    "PCI": "pcie",
    "NVL": "nvlink",
    "XGMI": "xgmi",
    "C2C": "c2c",
    "SYS": "upi",
}
_ARCHITECTURES = {"1": "x86_64", "2": "ppc64", "3": "arm64"}  # graph.h NCCL_TOPO_CPU_ARCH_*
_VENDORS = {"1": "Intel", "2": "AMD", "3": "Zhaoxin"}
_INTEL = {"1": "Broadwell", "2": "Skylake", "3": "Sapphire Rapids", "4": "Emerald Rapids"}


@dataclass
class LogHost:
    """Nodes and links of all views of one host, then its devices under clusterlab's names."""

    name: str
    nodes: dict[Key, SystemNode] = field(default_factory=dict)
    seen: dict[tuple[Key, Key, str], SystemLink] = field(default_factory=dict)
    names: dict[Key, str] = field(default_factory=dict)
    devices: dict[str, Device] = field(default_factory=dict)
    links: list[Link] = field(default_factory=list)
    shares_nvswitch: bool = False
    above: dict[Key, Key] = field(default_factory=dict)
    gpu_of: dict[Key, Key] = field(default_factory=dict)
    ports_of: dict[Key, list[Key]] = field(default_factory=dict)

    def add(self, section: SystemSection, system: int) -> None:
        """Take in the part of a view that is host number ``system`` (NVSwitches are all number 0)."""
        self.shares_nvswitch |= any(n.system != system for n in section.nodes if n.kind == "GPU")
        for node in section.nodes:
            if node.system == system or node.kind == "NVS":
                known = self.nodes.get(node.key)
                self.nodes[node.key] = node if known is None or node.detail else known
        for link in section.links:
            if link.src[1] == system or link.src[0] == "NVS":
                self.seen.setdefault((link.src, link.dst, link.kind), link)

    def assemble(self, log: NcclLog, host: str | None) -> None:
        """Name everything, then make devices and links. ``host`` is its name in the log, if it has one."""
        for src, dst, kind in self.seen:
            if kind in {"PCI", "NET", "LOC"}:
                self.above.setdefault(dst, src)
            if kind == "LOC" and src[0] in {"DEV", "CXB"} and dst[0] == "GPU":
                self.gpu_of.setdefault(src, dst)
            if kind == "NET" and src[0] == "NIC" and dst[0] == "NET":
                self.ports_of.setdefault(src, []).append(dst)
        self._name_gpus(log, host)
        self._name_ports()
        self._name_rest()
        interfaces = {p.dev: p.name for p in log.ports if host is None or p.host == host}
        for key, name in self._in_order():
            self.devices[name] = self._device(self.nodes[key], name, interfaces)
        for link in self.seen.values():
            self._link(link)

    def _name_gpus(self, log: NcclLog, host: str | None) -> None:
        """By NVML's index where an init line gives it, else in order of bus id."""
        index = {
            rank.bus_id: rank.nvml_dev
            for rank in log.ranks
            if rank.nvml_dev is not None and (host is None or rank.host == host)
        }
        gpus = sorted(key for key in self.nodes if key[0] == "GPU")
        numbers = [index.get(_bus_id(key)) for key in gpus]
        if None in numbers or len(set(numbers)) < len(gpus):
            numbers = list(range(len(gpus)))
        for key, number in zip(gpus, numbers, strict=True):
            self.names[key] = f"{self.name}/gpu{number}"

    def _name_ports(self) -> None:
        """``NET/0-3`` is nic3; a NIC without ports gets the next free number."""
        nets = sorted(key for key in self.nodes if key[0] == "NET")
        for key in nets:
            self.names[key] = f"{self.name}/nic{key[2]}"
        number = max((key[2] for key in nets), default=-1) + 1
        for key in sorted(key for key in self.nodes if key[0] == "NIC"):
            if key not in self.ports_of:
                self.names[key] = f"{self.name}/nic{number}"
                number += 1

    def _name_rest(self) -> None:
        switches = [key for key in self.nodes if key[0] in {"PCI", "DEV", "CXB"}]
        # DEV and CXB are how NCCL 2.30 prints a GPU's own board: the GPU stands for them.
        for i, key in enumerate(key for key in switches if key not in self.gpu_of):
            self.names[key] = f"{self.name}/pcie{i}"
        for i, key in enumerate(sorted(key for key in self.nodes if key[0] == "NVS")):
            name = f"nvswitch{i}"
            self.names[key] = name if self.shares_nvswitch else f"{self.name}/{name}"
        cpus = [key for key in self.nodes if key[0] == "CPU"]
        taken = {self.nodes[key].numa for key in cpus}
        free = (i for i in range(1 << 16) if i not in taken)
        for key in cpus:
            numa = self.nodes[key].numa
            self.names[key] = f"{self.name}/cpu{next(free) if numa is None else numa}"

    def _in_order(self) -> list[tuple[Key, str]]:
        order = ("GPU", "NET", "NIC", "CPU", "PCI", "DEV", "CXB", "NVS")
        keys = [key for key in self.names if key[0] in order]
        keys.sort(key=lambda key: (order.index(key[0]), _number(self.names[key])))
        return [(key, self.names[key]) for key in keys]

    def _device(self, node: SystemNode, name: str, interfaces: dict[int, str]) -> Device:
        kinds: dict[str, DeviceKind] = {
            "GPU": "gpu", "NET": "nic", "NIC": "nic", "CPU": "cpu", "NVS": "nvswitch",
        }  # fmt: skip
        kind = kinds.get(node.kind, "pcie_switch")
        cpu = self._cpu_of(node.key)
        numa = node.numa if node.kind == "CPU" else cpu.numa if cpu is not None else None
        nic = self._nic_of(node.key)
        pci = None
        if node.kind in {"GPU", "PCI", "DEV"} or nic:
            pci = _bus_id(nic or node.key) if (nic or node.key)[2] else None
        return Device(
            name,
            kind,
            None if kind == "nvswitch" and self.shares_nvswitch else self.name,
            model=_model(node),
            numa=numa if kind != "nvswitch" else None,
            pci=pci,
            guid=_guid(node),
            interface=interfaces.get(node.id) if node.kind == "NET" else None,
        )

    def _nic_of(self, key: Key) -> Key | None:
        if key[0] == "NIC":
            return key
        above = self.above.get(key) if key[0] == "NET" else None
        return above if above is not None and above[0] == "NIC" else None

    def _cpu_of(self, key: Key) -> SystemNode | None:
        for _ in range(_DEEPEST):
            if key[0] == "CPU" or key not in self.above:
                break
            key = self.above[key]
        return self.nodes.get(key) if key[0] == "CPU" else None

    def _link(self, link: SystemLink) -> None:
        src, dst = self._end(link.src), self._end(link.dst)
        if link.kind == "NET":
            self._network_link(link)
        if link.kind not in _CLASSES or src is None or dst is None:
            return
        for near in src:
            for far in dst:
                if near == far:
                    continue
                rate = None if link.GBps in {0.0, LOCAL_GBps} else link.GBps
                source = _NVLINK_SOURCE if link.kind in {"NVL", "XGMI"} else _SOURCE
                if rate is None:
                    source = ""
                one = Link(near, far, _CLASSES[link.kind], rate, GBps_source=source)
                self.links.append(one)
                if link.kind == "PCI" or self._printed_once(link):
                    self.links.append(
                        Link(far, near, _CLASSES[link.kind], rate, GBps_source=source)
                    )

    def _printed_once(self, link: SystemLink) -> bool:
        """NVSwitches print no links of their own: what a GPU prints stands for both ways."""
        return link.dst[0] == "NVS" and (link.dst, link.src, link.kind) not in self.seen

    def _end(self, key: Key) -> list[str] | None:
        """The devices a node stands for: itself, its ports, its GPU."""
        key = self.gpu_of.get(key, key)
        if key in self.ports_of:
            return [self.names[port] for port in self.ports_of[key] if port in self.names]
        return [self.names[key]] if key in self.names else None

    def _network_link(self, link: SystemLink) -> None:
        port = self.names.get(link.dst)
        if port is None or link.dst[0] != "NET":
            return
        detail = self.nodes[link.dst].detail
        rate = _positive(detail[-1]) if detail else None
        rate = rate if rate is not None else link.GBps or None
        source = "nccl log: system section, speed of the port" if rate else ""
        for src, dst in ((port, NETWORK), (NETWORK, port)):
            self.links.append(Link(src, dst, "network", rate, GBps_source=source))


def _bus_id(key: Key) -> str:
    return bus_id_text(key[2])


def _number(name: str) -> int:
    return int(name.rpartition("/")[2].lstrip("abcdefghijklmnopqrstuvwxyz") or "0")


def _model(node: SystemNode) -> str | None:
    """A PCI device's from its ids (``10b5874710b58747``), a CPU's from NCCL's numbers for it."""
    if node.kind == "CPU" and len(node.detail) == 3:
        arch, vendor, model = node.detail
        if arch not in _ARCHITECTURES:
            return None
        words = [_ARCHITECTURES[arch]]
        if arch == "1" and vendor in _VENDORS:
            words.append(_VENDORS[vendor])
            words += [_INTEL[model]] if vendor == "1" and model in _INTEL else []
        return " ".join(words)
    ids = node.detail[0] if len(node.detail) == 1 else ""
    if node.kind not in {"PCI", "DEV"} or not 12 < len(ids) <= 16:
        return None
    full = ids.rjust(16, "0")
    known = model_of(f"0x{full[:4]}", f"0x{full[4:8]}")
    return known or f"pci {full[:4]}:{full[4:8]} {full[8:12]}:{full[12:]}"


def _guid(node: SystemNode) -> str | None:
    """The port's GUID: (coll/guid/port/GBps) since 2.23, (guid/port/GBps) before."""
    if node.kind != "NET" or len(node.detail) < 3:
        return None
    guid = node.detail[-3]
    return f"0x{guid}" if guid.strip("0") else None


def _positive(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value < 1e6 else None
