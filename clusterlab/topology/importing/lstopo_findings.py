"""What an hwloc file does not show or shows oddly, said with its devices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from clusterlab.core.findings import Finding, Severity
from clusterlab.formats.lstopo_xml import Lstopo, LstopoObject
from clusterlab.formats.smi_text import shortened
from clusterlab.topology.fabric import Fabric

_GPU_VENDORS = frozenset({"10de", "1002"})  # NVIDIA, AMD: a server's BMC has a display of others
_GPU_CLASSES = frozenset({"0300", "0302", "0380", "1200"})
_BMC_DISPLAYS = frozenset(
    {"1002:515e", "1002:5969", "1002:4752"}
)  # ES1000, Rage XL on server boards
_SHOWS_GPU = ("nvml", "rsmi", "cuda")


@dataclass(frozen=True)
class Card:
    """A PCI device (or an OS device that is on none) and the OS devices it shows."""

    holder: LstopoObject
    os_devices: tuple[LstopoObject, ...]

    @property
    def network_only(self) -> list[str]:
        """Its network interfaces where it has no OpenFabrics device."""
        if any("openfabrics" in o.osdev for o in self.os_devices):
            return []
        return [o.name for o in self.os_devices if "network" in o.osdev and o.name]

    @property
    def uncounted_gpu(self) -> bool:
        """A graphics processor of NVIDIA or AMD that no GPU backend showed."""
        shown = any((o.name or "").startswith(_SHOWS_GPU) for o in self.os_devices)
        holder = self.holder
        if shown or f"{holder.vendor}:{holder.device}" in _BMC_DISPLAYS:
            return False
        return holder.vendor in _GPU_VENDORS and holder.pci_class in _GPU_CLASSES


def about_host(
    parsed: Lstopo, cards: Sequence[Card], shared: Sequence[str], *, ends_found: bool
) -> Iterator[Finding]:
    """Cards that were not counted, places that are not told, matrices that cannot be read."""
    uncounted = [_called(card.holder) for card in cards if card.uncounted_gpu]
    if uncounted:
        yield Finding(
            "gpu_not_counted",
            Severity.WARNING,
            (shortened(uncounted, 8),),
            "no NVML, ROCm SMI or CUDA device: export with an hwloc that has these plugins, on a host with "
            "the driver loaded",
        )
    network = sorted(name for card in cards for name in card.network_only)
    if network:
        yield Finding(
            "network_without_rdma",
            Severity.INFO,
            (shortened(network),),
            "interfaces without an OpenFabrics device are no NICs of the fabric (front-end ports, or "
            "Slingshot, which has none)",
        )
    if not ends_found and not any(card.holder.kind == "PCIDev" for card in cards):
        yield Finding(
            "no_io_devices",
            Severity.WARNING,
            ("no PCI device in the file",),
            "export with I/O (lstopo --of xml, not --no-io, outside a container)",
        )
    if shared:
        yield Finding(
            "numa_unknown",
            Severity.INFO,
            (f"{shortened(list(shared))}: hwloc places them on several NUMA nodes",),
            "a BIOS or VM that does not tell a device's node: their own cpu in the fabric is the group",
        )
    if parsed.unreadable:
        lines = ", ".join(map(str, parsed.unreadable[:8]))
        yield Finding(
            "matrix_unreadable",
            Severity.WARNING,
            (f"lines {lines}: not one value for each pair",),
            "left out; export the file again",
        )


def about_speeds(fabric: Fabric) -> Iterator[Finding]:
    """GPUs or NICs of one model with a slower PCI link than their siblings'."""
    rates: dict[tuple[str, str], dict[str, float]] = {}
    for device in fabric.devices:
        if device.kind in {"gpu", "nic"} and device.model is not None:
            for link in fabric.links_from(device.name):
                if link.link_class == "pcie" and link.wire_GBps is not None:
                    rates.setdefault((device.kind, device.model), {})[device.name] = link.wire_GBps
    for (kind, model), found in rates.items():
        most = max(found.values())
        slow = [
            f"{name}: {rate:.1f} of {most:.1f} GB/s"
            for name, rate in found.items()
            if rate < 0.9 * most
        ]
        if slow:
            yield Finding(
                "pcie_link_slower",
                Severity.WARNING,
                (f"{kind} {model}", shortened(slow, 8)),
                "a link trained to fewer lanes or a lower generation, or an idle card at export: run load "
                "and compare nvidia-smi -q -d PCIE or lspci -vv; reseat the card",
            )


def _called(card: LstopoObject) -> str:
    model = card.infos.get("PCIDevice") or f"{card.vendor}:{card.device}"
    return f"{card.pci} {model}"
