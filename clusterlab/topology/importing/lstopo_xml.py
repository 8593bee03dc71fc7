"""hwloc's XML (``lstopo --of xml``) to a fabric: NUMA domains, PCI, GPUs, RDMA NICs, NVLink and xGMI.

A GPU is what NVML, ROCm SMI or CUDA showed to hwloc; a NIC is an OpenFabrics device. Cards that only
have a driver for display or OpenCL, and network interfaces without RDMA, are named in findings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from clusterlab.core.findings import Finding
from clusterlab.formats.lstopo_xml import Lstopo, LstopoObject, parse_lstopo_xml
from clusterlab.formats.smi_text import check_count
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.importing.imported import Imported
from clusterlab.topology.importing.lstopo_accelerators import accelerator_links
from clusterlab.topology.importing.lstopo_findings import Card, about_host, about_speeds
from clusterlab.topology.importing.lstopo_pci import NumaCpu, build_pci
from clusterlab.topology.importing.pci_tree import both_ways
from clusterlab.topology.parts import Device

UNNAMED_HOST = "n0"

_BACKENDS = ("nvml", "rsmi", "cuda")  # the first one that shows a card counts its GPUs
_NUMBERED = re.compile(r"(nvml|rsmi|cuda)(\d{1,4})")
_HOST_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
_GROUPS = frozenset({"Machine", "Package", "Die", "Group", "NUMANode"})
_MOST_CORES = 20_000
_MOST_NODES = 1023  # Linux's MAX_NUMNODES; a larger number is a broken file
_UUIDS = ("NVIDIAUUID", "AMDUUID")


@dataclass(frozen=True)
class _End:
    """A GPU or NIC: its device, the object that is on PCI (or itself), its own gp_index."""

    device: Device
    on_pci: LstopoObject
    gp_index: int | None


def read_lstopo_xml(text: str, *, file: str) -> Imported:
    """The host in an hwloc XML file. Raises UsageError, naming the line."""
    parsed = parse_lstopo_xml(text, file=file)
    host = _host_name(parsed)
    cards = _cards(parsed.machine)
    cpus = _cpus(host, parsed.machine, file)
    ends = [*_gpus(host, cards), *_nics(host, cards)]
    holders: dict[int, list[str]] = {}
    for end in ends:
        holders.setdefault(id(end.on_pci), []).append(end.device.name)
    pci = build_pci(host, parsed.machine, cpus, holders)
    placed = [replace(e.device, numa=pci.numa.get(e.device.name)) for e in ends]
    switches = _nvswitches(host, cards)
    domains = [cpu.device for cpu in cpus]
    by_gp = _by_gp_index(parsed.machine, ends, placed, switches, cpus)
    accelerators = accelerator_links(parsed, by_gp)
    upi = [
        k
        for i, a in enumerate(domains)
        for b in domains[i + 1 :]
        for k in both_ways(a.name, b.name, "upi")
    ]
    fabric = Fabric(
        name=host,
        devices=(*placed, *(d for _, d in switches), *pci.devices, *domains),
        links=(*accelerators.links, *pci.links, *upi),
        description=_description(placed),
        origin=file,
    )
    findings: tuple[Finding, ...] = (
        *about_host(parsed, cards, pci.shared, ends_found=bool(ends)),
        *about_speeds(fabric),
        *accelerators.findings,
    )
    return Imported("lstopo_xml", fabric, findings, _facts(parsed, cards, domains))


def _host_name(parsed: Lstopo) -> str:
    """HostName as hwloc 3 has it at the top, hwloc 1 and 2 in the Machine."""
    stated = parsed.infos.get("HostName") or parsed.machine.infos.get("HostName") or ""
    return stated if _HOST_NAME.fullmatch(stated) else UNNAMED_HOST


def _cards(machine: LstopoObject) -> list[Card]:
    """PCI devices, and OS devices that are on none, with the OS devices they show."""
    cards: list[Card] = []
    pending = [machine]
    while pending:
        found = pending.pop()
        if found.kind == "PCIDev":
            cards.append(Card(found, tuple(o for o in found.walk() if o.kind == "OSDev")))
            continue
        if found.kind == "OSDev":
            cards.append(Card(found, (found,)))
        pending.extend(reversed(found.children))
    return cards


def _cpus(host: str, machine: LstopoObject, file: str) -> list[NumaCpu]:
    """One cpu for each NUMA node with cores; one for the whole machine where the file has no such node."""
    cores = [o for o in machine.walk() if o.kind == "Core"]
    model = next((m for o in machine.walk() if (m := o.infos.get("CPUModel", "").strip())), None)
    nodes = [o for o in machine.walk() if o.kind == "NUMANode" and o.cpuset != 0]
    check_count(len(nodes), where=f"{file}: NUMA nodes")
    numbered = None not in {o.os_index for o in nodes} and len({o.os_index for o in nodes}) == len(
        nodes
    )
    if not nodes or not numbered or max(o.os_index or 0 for o in nodes) > _MOST_NODES:
        whole = Device(f"{host}/cpu0", "cpu", host, model=model, cores=len(cores) or None)
        return [NumaCpu(replace(whole, memory_bytes=machine.memory_bytes), 1)]
    return [
        NumaCpu(
            Device(
                f"{host}/cpu{node.os_index}",
                "cpu",
                host,
                model=model,
                numa=node.os_index,
                cores=_cores_of(node, cores),
                memory_bytes=node.memory_bytes,
            ),
            1 << (node.os_index or 0),
        )
        for node in nodes
    ]


def _cores_of(node: LstopoObject, cores: Sequence[LstopoObject]) -> int | None:
    if node.cpuset is None or len(cores) > _MOST_CORES:
        return None
    return sum(1 for core in cores if core.cpuset is not None and core.cpuset & node.cpuset) or None


def _gpus(host: str, cards: Sequence[Card]) -> list[_End]:
    """GPUs in the order of their number; numbers of one backend are kept, else they count up."""
    shown: list[tuple[str, int, Card, LstopoObject]] = []
    for card in cards:
        numbered = [
            (m[1], int(m[2]), o)
            for o in card.os_devices
            if (m := _NUMBERED.fullmatch(o.name or ""))
        ]
        backend = next((b for b in _BACKENDS if any(n[0] == b for n in numbered)), None)
        shown += [(b, number, card, o) for b, number, o in numbered if b == backend]
    shown.sort(key=lambda s: (_BACKENDS.index(s[0]), s[1]))
    kept = len({s[0] for s in shown}) == 1 and len({s[1] for s in shown}) == len(shown)
    return [
        _End(
            Device(
                f"{host}/gpu{number if kept else position}",
                "gpu",
                host,
                model=os_device.infos.get("GPUModel") or card.holder.infos.get("PCIDevice"),
                pci=card.holder.pci,
                guid=next((os_device.infos[u] for u in _UUIDS if u in os_device.infos), None),
                interface=os_device.name,
            ),
            card.holder,
            os_device.gp_index,
        )
        for position, (_, number, card, os_device) in enumerate(shown)
    ]


def _nics(host: str, cards: Sequence[Card]) -> list[_End]:
    rdma = [(card, o) for card in cards for o in card.os_devices if "openfabrics" in o.osdev]
    return [
        _End(
            Device(
                f"{host}/nic{i}",
                "nic",
                host,
                model=card.holder.infos.get("PCIDevice"),
                pci=card.holder.pci,
                guid=o.infos.get("NodeGUID"),
                interface=o.name,
            ),
            card.holder,
            o.gp_index,
        )
        for i, (card, o) in enumerate(rdma)
    ]


def _nvswitches(host: str, cards: Sequence[Card]) -> list[tuple[LstopoObject, Device]]:
    found = [card.holder for card in cards if card.holder.subtype == "NVSwitch"]
    return [
        (o, Device(f"{host}/nvswitch{i}", "nvswitch", host, pci=o.pci)) for i, o in enumerate(found)
    ]


def _by_gp_index(
    machine: LstopoObject,
    ends: Sequence[_End],
    placed: Sequence[Device],
    switches: Sequence[tuple[LstopoObject, Device]],
    cpus: Sequence[NumaCpu],
) -> dict[int, Device]:
    """What hwloc's matrices can name: GPUs, NVSwitches, and packages or nodes that are one cpu."""
    found: dict[int | None, Device] = {}
    for o in machine.walk():
        if o.kind not in _GROUPS:
            continue
        within = [c.device for c in cpus if o.nodeset is not None and c.nodes & o.nodeset]
        if o.cpuset and len(within) == 1:
            found[o.gp_index] = within[0]
    found.update({o.gp_index: device for o, device in switches})
    found.update({e.gp_index: d for e, d in zip(ends, placed, strict=True)})
    return {index: device for index, device in found.items() if index is not None}


def _description(ends: Sequence[Device]) -> str:
    gpus = sum(d.kind == "gpu" for d in ends)
    return f"{gpus} GPUs and {len(ends) - gpus} RDMA NICs of one host"


def _facts(parsed: Lstopo, cards: Sequence[Card], cpus: Sequence[Device]) -> dict[str, Any]:
    infos: Mapping[str, str] = {**parsed.machine.infos, **parsed.infos}
    return {
        "xml_version": parsed.version,
        "hwloc_version": infos.get("hwlocVersion"),
        "product": infos.get("DMIProductName"),
        "numa_nodes": [d.numa for d in cpus if d.numa is not None],
        "network_without_rdma": sorted(_network_only(cards)),
    }


def _network_only(cards: Sequence[Card]) -> Iterator[str]:
    for card in cards:
        yield from card.network_only
