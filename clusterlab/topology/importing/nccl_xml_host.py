"""One host of an NCCL topology file, assembled from its ``<cpu>`` elements."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from clusterlab.core.errors import UsageError
from clusterlab.formats.nccl_tables import (
    gcn_name,
    inter_cpu_GBps,
    nvlink_GBps,
    nvlink_wire_GBps,
    xgmi_GBps,
)
from clusterlab.formats.nccl_xml import NcclCpu, NcclGpu, NcclGpuLink, NcclNet, NcclPci, stated_rate
from clusterlab.topology.importing.nccl_xml_findings import (
    Evidence,
    likely_Mbps,
    look_at_gpu_slot,
    look_at_ports,
    look_at_uplink,
)
from clusterlab.topology.importing.nccl_xml_slots import (
    below,
    cpu_model,
    gpu_model,
    gpu_slots,
    nic_slots,
    number_key,
    pci_model,
    ranges,
    slot_of,
)
from clusterlab.topology.parts import Device, Link, LinkClass

NETWORK = "network"
"""The external device at the far end of every port: the file does not say what is there."""

_MAX_CPUS = 256
_CLASSES: dict[str, LinkClass] = {"nvlink": "nvlink", "xgmi": "xgmi", "c2c": "c2c"}


@dataclass
class HostParts:
    """One host being assembled: names are given first, then devices and links in the file's order."""

    name: str
    cpus: list[NcclCpu]
    shared_nvlink: bool
    evidence: Evidence
    devices: dict[str, Device] = field(default_factory=dict)
    nvswitches: dict[str, Device] = field(default_factory=dict)
    links: list[Link] = field(default_factory=list)
    facts: dict[str, dict[str, Any]] = field(default_factory=lambda: defaultdict(dict))
    names: dict[int, str] = field(default_factory=dict)
    gpus_at: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    nvlinks: list[tuple[str, str, NcclGpu, NcclGpuLink]] = field(default_factory=list)
    ports: list[tuple[str, NcclNet, NcclPci | None]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def build(self, file: str) -> None:
        """All devices and links of the host."""
        if len(self.cpus) > _MAX_CPUS:
            raise UsageError(
                f"{len(self.cpus)} NUMA domains", where=file, expected=f"at most {_MAX_CPUS}"
            )
        self._name_numbered("gpu", gpu_slots(self.cpus))
        self._name_numbered("nic", nic_slots(self.cpus))
        self._report_duplicates()
        cpu_names = self._add_cpus()
        for cpu, cpu_name in zip(self.cpus, cpu_names, strict=True):
            numa = cpu.numa if cpu.numa >= 0 else None
            for pci in cpu.children:
                self._add_pci(pci, cpu_name, cpu_name, numa)
            for net in cpu.nets:
                self._add_net(net, None, cpu_name, numa)
        self._join_cpus(cpu_names)
        self._add_nvlinks()
        look_at_ports(self.ports, self.evidence)

    def all_devices(self) -> list[Device]:
        """GPUs and NICs by number, then the rest in the file's order."""
        order = {"gpu": 0, "nic": 1}
        return sorted(
            self.devices.values(), key=lambda d: (order.get(d.kind, 2), *number_key(d, order))
        )

    def _local(self, kind: str) -> str:
        name = f"{self.name}/{kind}{self.counts[kind]}"
        self.counts[kind] += 1
        return name

    def _name_numbered(self, kind: str, slots: Iterable[tuple[object, int | None, str]]) -> None:
        """NCCL's device number where it is there and unique, else the next free one by bus id."""
        rows = list(slots)
        devs = Counter(dev for _, dev, _ in rows)
        unnamed: list[tuple[str, int, object]] = []
        for item, dev, bus_id in rows:
            if dev is not None and dev >= 0 and devs[dev] == 1:
                self.names[id(item)] = f"{self.name}/{kind}{dev}"
            else:
                unnamed.append((bus_id, len(unnamed), item))
        taken = set(self.names.values())
        free = (n for i in range(10**9) if (n := f"{self.name}/{kind}{i}") not in taken)
        for (_, _, item), name in zip(sorted(unnamed, key=lambda u: u[:2]), free, strict=False):
            self.names[id(item)] = name

    def _report_duplicates(self) -> None:
        found: defaultdict[str, list[int]] = defaultdict(list)
        for cpu in self.cpus:
            for pci in below(cpu.children):
                found[pci.bus_id].append(pci.line)
        for bus_id, lines in found.items():
            if len(lines) > 1:
                shown = ", ".join(str(line) for line in lines[:8])
                self.evidence.add("duplicate_bus_id", f"{bus_id} on lines {shown}")

    def _add_cpus(self) -> list[str]:
        numbers: list[int] = []
        for cpu in self.cpus:
            taken = {*numbers, *(c.numa for c in self.cpus if c is not cpu)}
            known = cpu.numa >= 0 and cpu.numa not in numbers
            numbers.append(cpu.numa if known else next(i for i in range(10**6) if i not in taken))
            if not known:
                self.evidence.add(
                    "numa_unknown", f"line {cpu.line}: numaid {cpu.numa} names no domain of its own"
                )
        names = [f"{self.name}/cpu{number}" for number in numbers]
        for cpu, name in zip(self.cpus, names, strict=True):
            numa = cpu.numa if cpu.numa >= 0 else None
            self.devices[name] = Device(name, "cpu", self.name, model=cpu_model(cpu), numa=numa)
            if cpu.logical_cpus is not None:
                self.facts["logical_cpus"][name] = ranges(cpu.logical_cpus)
        return names

    def _join_cpus(self, names: list[str]) -> None:
        for cpu, src in zip(self.cpus, names, strict=True):
            rate = inter_cpu_GBps(cpu.arch, cpu.vendor, cpu.family, cpu.model)
            source = "nccl_xml: what NCCL counts between CPUs of this kind" if rate else ""
            self.links += [
                Link(src, dst, "upi", rate, GBps_source=source) for dst in names if dst != src
            ]

    def _add_pci(self, pci: NcclPci, parent: str, cpu: str, numa: int | None) -> None:
        slot = slot_of(pci)
        if slot == "gpu":
            self._add_gpus(pci, parent, cpu, numa)
        elif slot == "nic" and pci.nets:
            for net in pci.nets:
                self._add_net(net, pci, parent, numa)
            if len(pci.nets) > 1:
                names = ", ".join(self.names[id(net)] for net in pci.nets)
                self.evidence.add("ports_share_pcie", f"{names} are ports of {pci.bus_id}")
        elif slot == "nic":
            self._add_leaf(self.names[id(pci)], "nic", pci, parent, numa)
            self.facts["filled_in_by_nccl"][self.names[id(pci)]] = (
                f"class {pci.pci_class}, no <net>"
            )
        elif slot == "switch":
            name = self._local("pcie")
            self._add_leaf(name, "pcie_switch", pci, parent, numa)
            look_at_uplink(name, pci, self.evidence)
            for child in pci.children:
                self._add_pci(child, name, cpu, numa)
            return
        elif slot == "nvswitch":
            switch = self._nvswitch(pci.bus_id)
            self._join_pcie(switch, parent, pci)
        else:
            self._add_other(pci, parent, numa)
        if pci.children:
            self.evidence.add(
                "pci_below_an_end_device",
                f"line {pci.line}: {len(pci.children)} PCI devices below {pci.bus_id}, which is no switch",
            )

    def _add_gpus(self, pci: NcclPci, parent: str, cpu: str, numa: int | None) -> None:
        for gpu in pci.gpus:
            name = self.names[id(gpu)]
            self._add_leaf(name, "gpu", pci, parent, numa, model=gpu_model(pci, gpu))
            look_at_gpu_slot(name, pci, self.evidence)
            self.gpus_at[pci.bus_id].append(name)
            self.nvlinks += [(name, cpu, gpu, link) for link in gpu.links]
            said = {"sm": gpu.sm, "rank": gpu.rank, "gdr": gpu.gdr}
            self.facts["gpus"][name] = {k: v for k, v in said.items() if v is not None}
        if not pci.gpus:
            name = self.names[id(pci)]
            self._add_leaf(name, "gpu", pci, parent, numa)
            look_at_gpu_slot(name, pci, self.evidence)
            self.gpus_at[pci.bus_id].append(name)
            self.facts["filled_in_by_nccl"][name] = f"class {pci.pci_class}, no <gpu>"

    def _add_other(self, pci: NcclPci, parent: str, numa: int | None) -> None:
        name = self._local("pci")
        model = f"pci class {pci.pci_class}" if pci.pci_class is not None else None
        self._add_leaf(name, "external", pci, parent, numa, model=model)
        if pci.pci_class is None:
            self.facts["filled_in_by_nccl"][name] = "no class"

    def _add_leaf(
        self,
        name: str,
        kind: Literal["gpu", "nic", "pcie_switch", "external"],
        pci: NcclPci,
        parent: str,
        numa: int | None,
        *,
        model: str | None = None,
    ) -> None:
        self.devices[name] = Device(
            name, kind, self.name, model=model or pci_model(pci), numa=numa, pci=pci.bus_id
        )
        self._join_pcie(name, parent, pci)

    def _join_pcie(self, name: str, parent: str, pci: NcclPci) -> None:
        self.evidence.look_at_pcie(name, pci)
        rate = stated_rate(pci)
        if rate is None:
            self._both_ways(name, parent, "pcie", GBps=None)
            return
        self._both_ways(
            name,
            parent,
            "pcie",
            GBps=rate.GBps,
            wire_GBps=rate.wire_GBps,
            GBps_source="nccl_xml: link_speed and link_width by NCCL's table",
            wire_source="nccl_xml: link_speed x link_width, line code taken off",
        )

    def _add_net(self, net: NcclNet, pci: NcclPci | None, parent: str, numa: int | None) -> None:
        name = self.names[id(net)]
        guid = net.guid if net.guid and net.guid.strip("0xX") else None
        self.devices[name] = Device(
            name,
            "nic",
            self.name,
            model=pci_model(pci) if pci else None,
            numa=numa,
            rail=net.rail if net.rail is not None and net.rail >= 0 else None,
            plane=net.plane if net.plane is not None and net.plane >= 0 else None,
            pci=pci.bus_id if pci else None,
            guid=guid,
            interface=net.name,
        )
        if pci is None:
            self._both_ways(name, parent, "pcie", GBps=None)
        else:
            self._join_pcie(name, parent, pci)
        self.ports.append((name, net, pci))
        self._join_network(name, net, pci)
        said = {k: getattr(net, k) for k in ("port", "gdr", "coll", "maxconn")}
        self.facts["ports"][name] = {k: v for k, v in said.items() if v is not None}

    def _join_network(self, name: str, net: NcclNet, pci: NcclPci | None) -> None:
        pci_class = (pci.pci_class if pci else None) or ""
        link_class: LinkClass = "network"
        if pci_class.startswith("0x0207"):
            link_class = "ib"
        elif pci_class.startswith("0x0200"):
            link_class = "ethernet"
        Mbps = likely_Mbps(name, net, self.evidence)
        latency = net.latency_us or None  # NCCL writes 0 where the network plugin does not say
        self._both_ways(
            name,
            NETWORK,
            link_class,
            GBps=Mbps / 8000 if Mbps else None,
            latency_us=latency,
            GBps_source=f"nccl_xml: speed {Mbps} Mb/s / 8000" if Mbps else "",
            latency_source="nccl_xml: latency of the network plugin" if latency else "",
        )

    def _nvswitch(self, target: str) -> str:
        if target not in self.nvswitches:
            if self.shared_nvlink:
                name, host = f"nvswitch-{target}", None
            else:
                name, host = f"{self.name}/nvswitch{len(self.nvswitches)}", self.name
            self.nvswitches[target] = Device(name, "nvswitch", host, pci=target)
        return self.nvswitches[target].name

    def _add_nvlinks(self) -> None:
        """Links of every GPU, after all GPUs are known: a target is a bus id of this host."""
        to_switches = {
            link.target for *_, link in self.nvlinks if link.target and _end(link) == "switch"
        }
        for target in sorted(to_switches):
            self._nvswitch(target)
        counts: dict[tuple[str, str, str], int] = {}
        rates: dict[tuple[str, str, str], _Rate] = {}
        for name, cpu, gpu, link in self.nvlinks:
            far = self._far_end(name, cpu, link)
            if far is None or not link.count:
                continue
            key = (name, far, link.tag)
            counts[key] = counts.get(key, 0) + link.count
            rates[key] = _gpu_link_rate(gpu, link)
        for (src, dst, tag), count in counts.items():
            rate = rates[src, dst, tag]
            both = not dst.startswith(f"{self.name}/gpu")
            for a, b in ((src, dst), (dst, src))[: 2 if both else 1]:
                self.links.append(
                    Link(
                        a,
                        b,
                        _CLASSES[tag],
                        rate.GBps,
                        multiplicity=count,
                        wire_GBps=rate.wire_GBps,
                        GBps_source=rate.source,
                        wire_source=rate.wire_source,
                    )
                )
            if not both and counts.get((dst, src, tag)) != count:
                self.evidence.add(
                    "nvlink_one_sided",
                    f"{src} lists {count} links to {dst}, which lists {counts.get((dst, src, tag), 0)}",
                )

    def _far_end(self, name: str, cpu: str, link: NcclGpuLink) -> str | None:
        end = _end(link)
        if link.tag == "c2c" or end == "cpu":
            return cpu
        if end == "switch" and link.target:
            return self._nvswitch(link.target)
        found = self.gpus_at.get(link.target or "", [])
        if len(found) == 1 and found[0] != name:
            return found[0]
        self.evidence.add(
            "nvlink_target_unknown",
            f"line {link.line}: {link.count} links of {name} to {link.target}, class {link.tclass}, "
            + ("which several GPUs claim" if len(found) > 1 else "which is no GPU of this file"),
        )
        return None

    def _both_ways(
        self,
        a: str,
        b: str,
        link_class: LinkClass,
        *,
        GBps: float | None,
        wire_GBps: float | None = None,
        latency_us: float | None = None,
        GBps_source: str = "",
        wire_source: str = "",
        latency_source: str = "",
    ) -> None:
        for src, dst in ((a, b), (b, a)):
            self.links.append(
                Link(
                    src,
                    dst,
                    link_class,
                    GBps,
                    latency_us,
                    wire_GBps=wire_GBps,
                    GBps_source=GBps_source,
                    wire_source=wire_source,
                    latency_source=latency_source,
                )
            )


def _end(link: NcclGpuLink) -> Literal["gpu", "cpu", "switch", "unknown"]:
    tclass = link.tclass
    if tclass is None or tclass.startswith("0x02"):
        return "unknown"
    if tclass.startswith(("0x03", "0x1200")):
        return "gpu"
    return "cpu" if tclass.startswith("0x068001") else "switch"


@dataclass(frozen=True, slots=True)
class _Rate:
    """What one link of a GPU carries, and what it signals; None: not known."""

    GBps: float | None = None
    source: str = ""
    wire_GBps: float | None = None
    wire_source: str = ""


def _gpu_link_rate(gpu: NcclGpu, link: NcclGpuLink) -> _Rate:
    if link.tag == "c2c":
        return _Rate((link.MBps or 0) / 1000 or None, "nccl_xml: c2c bw / 1000")
    if link.tag == "xgmi":
        if gpu.gcn is None:
            return _Rate()
        return _Rate(xgmi_GBps(gcn_name(gpu.gcn)), "nccl_xml: RCCL's figure for one xGMI link")
    if gpu.sm is None:
        return _Rate()
    wire = nvlink_wire_GBps(gpu.sm)
    return _Rate(
        nvlink_GBps(gpu.sm),
        f"nccl_xml: NCCL's figure for an NVLink of sm_{gpu.sm}",
        wire,
        f"nccl_xml: an NVLink of sm_{gpu.sm}, NVIDIA's data sheet" if wire else "",
    )
