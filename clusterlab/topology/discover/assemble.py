"""What one machine's /sys and NVML say as a fabric. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from clusterlab.core.findings import Finding, Severity
from clusterlab.topology.discover.accelerator_links import accelerator_links
from clusterlab.topology.discover.facts import MachineFacts, NicFact
from clusterlab.topology.discover.pcie_tree import End, pcie_tree
from clusterlab.topology.discover.places import Place, distance, places_of
from clusterlab.topology.discover.rates import between_cpus
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.host import HostFacts, host_fabric
from clusterlab.topology.importing.imported import Imported
from clusterlab.topology.parts import Device, Link

KIND = "discover"
_TAKEN = re.compile(r"(gpu|nvswitch|pcie_switch|host_bridge|cpu)[0-9]+")
_NOWHERE = Place((), None)


def fabric_from_machine(facts: MachineFacts) -> Imported:
    """One machine's GPUs, switches, bridges, CPUs and NICs, links both ways, and what is odd."""
    devices, links, findings = machine_parts(facts, {})
    fabric = Fabric(
        name=facts.host,
        devices=tuple(devices),
        links=tuple(links),
        description=_description(facts),
        origin=f"discovered on {facts.host}",
    )
    return Imported(KIND, fabric, tuple(findings), machine_facts(facts))


def machine_parts(
    facts: MachineFacts, shared: Mapping[str, str]
) -> tuple[list[Device], list[Link], list[Finding]]:
    """The devices, links and findings of one machine.

    ``shared``: NVLink domain → name of the device, made elsewhere, that stands for its switches on
    several hosts.
    """
    base = host_fabric(
        HostFacts(facts.host, facts.cpu.model_name or "unknown CPU", facts.kernel, facts.domains)
    )
    cpu = facts.cpu
    across = between_cpus(cpu.arch, cpu.vendor, cpu.family, cpu.model)
    cpus = {d.numa: d.name for d in base.devices if d.numa is not None}
    places = places_of(facts)
    ends = _ends(facts, places)
    tree = pcie_tree(facts.host, ends, {p.bus_id: p for p in facts.pci}, cpus)
    near_cpu = {
        e.bus_id: cpus[e.place.numa]
        for e in ends
        if e.place.numa in cpus and e.place.numa is not None
    }
    names = {e.bus_id: e.device.name for e in ends if e.gpu is not None}
    fast = accelerator_links(facts, names, near_cpu, shared)
    findings = [
        *tree.findings,
        *fast.findings,
        *_not_shown(facts, names),
        *_disagreements(facts, places, names),
        *_nics_down(facts),
    ]
    devices = [*(e.device for e in ends), *fast.devices, *tree.devices, *base.devices]
    inside = [
        replace(link, GBps=across.GBps, GBps_source=across.GBps_source)
        if link.link_class == "upi"
        else link
        for link in base.links
    ]
    return devices, [*fast.links, *tree.links, *inside], findings


def machine_facts(facts: MachineFacts) -> dict[str, Any]:
    """What is neither device nor link, as JSON takes it."""
    return {
        "host": facts.host,
        "driver": facts.driver,
        "kernel": facts.kernel,
        "nics": [
            {
                "name": nic.name,
                "rdma": nic.rdma,
                "up": nic.up,
                "ports": [
                    {
                        "port": port.number,
                        "rate_Gbps": port.rate_Gbps,
                        "layer": port.layer,
                        "interfaces": list(port.interfaces),
                        "subnets": list(port.subnets),
                    }
                    for port in nic.ports
                ],
            }
            for nic in facts.nics
        ],
        "notes": list(facts.notes),
    }


def nic_device(facts: MachineFacts, nic: NicFact) -> str:
    """The device's name of a NIC: its interface's, unless another kind of device could have that."""
    local = f"nic-{nic.name}" if _TAKEN.fullmatch(nic.name) else nic.name
    return f"{facts.host}/{local}"


def _ends(facts: MachineFacts, places: Mapping[str, Place]) -> list[End]:
    ends = []
    for i, gpu in enumerate(facts.gpus):
        place = places.get(gpu.bus_id, _NOWHERE)
        device = Device(
            f"{facts.host}/gpu{i}",
            "gpu",
            host=facts.host,
            model=gpu.name,
            numa=place.numa,
            pci=gpu.bus_id,
            guid=gpu.uuid,
        )
        ends.append(End(device, gpu.bus_id, place, gpu))
    for nic in facts.nics:
        place = places.get(nic.bus_id or "", _NOWHERE)
        device = Device(
            nic_device(facts, nic),
            "nic",
            host=facts.host,
            model=nic.model,
            numa=place.numa,
            pci=nic.bus_id,
            guid=nic.guid,
            interface=nic.name,
        )
        ends.append(End(device, nic.bus_id or "", place))
    return ends


def _description(facts: MachineFacts) -> str:
    """``8 NVIDIA H100 80GB HBM3, 12 NICs, Xeon``."""
    models = Counter(gpu.name or f"{gpu.vendor} GPU" for gpu in facts.gpus)
    counted = [f"{count} {model}" for model, count in models.items()]
    nics = len(facts.nics)
    if nics:
        counted.append("1 NIC" if nics == 1 else f"{nics} NICs")
    return ", ".join([*counted, facts.cpu.model_name or "unknown CPU"])


def _not_shown(facts: MachineFacts, names: Mapping[str, str]) -> list[Finding]:
    shown = {gpu.vendor for gpu in facts.gpus if gpu.shown}
    return [
        Finding(
            "gpu_not_shown",
            Severity.WARNING,
            (
                f"{names[gpu.bus_id]} ({gpu.bus_id}) is on the PCI bus, but its driver does not show it",
            ),
            "look from a process that may see all GPUs; if it is missing there too, see the kernel's"
            " log (Xid 79: fallen off the bus)",
        )
        for gpu in facts.gpus
        if not gpu.shown and gpu.vendor in shown
    ]


def _disagreements(
    facts: MachineFacts, places: Mapping[str, Place], names: Mapping[str, str]
) -> list[Finding]:
    """GPU pairs whose PCI distance by /sys is not what NVML says."""
    wrong = []
    for a, b, word in facts.levels:
        ours = distance(places.get(a, _NOWHERE), places.get(b, _NOWHERE))
        if ours is not None and ours != word:
            wrong.append(f"{names[a]} and {names[b]}: {ours} by /sys, {word} by NVML")
    if not wrong:
        return []
    return [
        Finding(
            "pci_distance_disagrees",
            Severity.WARNING,
            tuple(wrong),
            "the virtual machine or the firmware shows another PCI tree than the driver knows; NCCL"
            " goes by /sys",
        )
    ]


def _nics_down(facts: MachineFacts) -> list[Finding]:
    down = [nic_device(facts, nic) for nic in facts.nics if nic.rdma and not nic.up]
    if not down:
        return []
    return [
        Finding(
            "nic_down",
            Severity.INFO,
            (f"no port is active: {', '.join(down)}",),
            "plug it in, or see ibstat; nothing to do for a port that is not used",
        )
    ]
