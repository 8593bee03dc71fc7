"""Which device a ``<pci>`` of an NCCL topology file is, which number it has, and its model's name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from clusterlab.formats.nccl_tables import gcn_name
from clusterlab.formats.nccl_xml import NcclCpu, NcclGpu, NcclPci
from clusterlab.formats.pci_names import model_of
from clusterlab.topology.parts import Device

Slot = Literal["gpu", "nic", "switch", "nvswitch", "other"]


def slot_of(pci: NcclPci) -> Slot:
    """What a ``<pci>`` is, by what it holds, else by its class as NCCL reads it (kvDictPciClass)."""
    pci_class = pci.pci_class
    if pci.gpus:
        return "gpu"
    if pci.has_nic:
        return "nic"
    if pci_class is None:
        return "switch" if pci.children else "other"
    for prefix, slot in _SLOTS:
        if pci_class.startswith(prefix):
            return slot
    return "switch" if pci.children else "other"


_SLOTS: tuple[tuple[str, Slot], ...] = (
    ("0x0604", "switch"),
    ("0x080100", "switch"),  # ConnectX-8's data direct function
    ("0x0680", "nvswitch"),
    ("0x03", "gpu"),
    ("0x1200", "gpu"),  # AMD Instinct MI300
    ("0x02", "nic"),
)


def gpu_model(pci: NcclPci, gpu: NcclGpu) -> str | None:
    known = model_of(pci.vendor, pci.device)
    if known is not None:
        return known
    if gpu.gcn is not None:
        return gcn_name(gpu.gcn)
    return f"sm_{gpu.sm}" if gpu.sm is not None else None


def pci_model(pci: NcclPci) -> str | None:
    """A known model's name, else ``pci 1000:c010 1000:a096``: vendor:device and subsystem, as lspci -nn."""
    known = model_of(pci.vendor, pci.device)
    if known is not None or pci.vendor is None or pci.device is None:
        return known
    ids = [_hex4(pci.vendor), _hex4(pci.device)]
    below = [_hex4(pci.subsystem_vendor), _hex4(pci.subsystem_device)]
    if None in ids:
        return None
    return f"pci {ids[0]}:{ids[1]}" + (f" {below[0]}:{below[1]}" if None not in below else "")


def _hex4(text: str | None) -> str | None:
    try:
        value = int(text or "", 16)
    except ValueError:
        return None
    return f"{value:04x}" if 0 <= value < 1 << 16 else None


def cpu_model(cpu: NcclCpu) -> str | None:
    """``x86_64 AuthenticAMD 175/1``: architecture, vendor, family and model as NCCL numbers them."""
    if cpu.arch is None:
        return None
    if cpu.vendor is None or cpu.family is None or cpu.model is None:
        return cpu.arch
    return f"{cpu.arch} {cpu.vendor} {cpu.family}/{cpu.model}"


def below(children: Iterable[NcclPci]) -> Iterator[NcclPci]:
    for pci in children:
        yield pci
        yield from below(pci.children)


def gpu_slots(cpus: Iterable[NcclCpu]) -> Iterator[tuple[object, int | None, str]]:
    for cpu in cpus:
        for pci in _reached(cpu.children):
            if slot_of(pci) == "gpu":
                yield from ((gpu, gpu.dev, pci.bus_id) for gpu in pci.gpus)
                if not pci.gpus:
                    yield pci, None, pci.bus_id


def nic_slots(cpus: Iterable[NcclCpu]) -> Iterator[tuple[object, int | None, str]]:
    for cpu in cpus:
        for pci in _reached(cpu.children):
            if slot_of(pci) == "nic":
                yield from ((net, net.dev, pci.bus_id) for net in pci.nets)
                if not pci.nets:
                    yield pci, None, pci.bus_id
        yield from ((net, net.dev, "~") for net in cpu.nets)


def _reached(children: Iterable[NcclPci]) -> Iterator[NcclPci]:
    """What NCCL looks at: below switches only."""
    for pci in children:
        yield pci
        if slot_of(pci) == "switch":
            yield from _reached(pci.children)


def number_key(device: Device, numbered: dict[str, int]) -> tuple[int, ...]:
    if device.kind not in numbered:
        return ()
    digits = device.name.rpartition("/")[2].lstrip("abcdefghijklmnopqrstuvwxyz")
    return (int(digits),)


def ranges(numbers: tuple[int, ...]) -> str:
    """``0-15,128-143``."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(f"{a}-{b}" if b > a else f"{a}" for a, b in parts)
