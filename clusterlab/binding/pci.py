"""NUMA domains, NICs and PCI distances as /sys tells them. ``sys`` is /sys, or a test's copy of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from clusterlab.binding.look import Nic
from clusterlab.topology.host import parse_cpu_list

DISTANCES = ("PIX", "PXB", "PHB", "NODE", "SYS")
"""nvidia-smi's words, nearest first: one PCIe switch, several, one root complex, one NUMA domain, none."""

_ONE_SWITCH = 4  # hops: device, its switch port, the other's port, the other device


def numa_cores(sys: Path) -> dict[int, tuple[int, ...]]:
    """NUMA domain → its cores; empty where /sys does not say."""
    found = {}
    for node in (sys / "devices/system/node").glob("node[0-9]*"):
        try:
            found[int(node.name[4:])] = parse_cpu_list((node / "cpulist").read_text())
        except (OSError, ValueError):
            continue
    return dict(sorted(found.items()))


def numa_of(device: Path) -> int | None:
    """The NUMA domain of a PCI device's folder; None where the firmware does not tell (-1)."""
    try:
        number = int((device / "numa_node").read_text())
    except (OSError, ValueError):
        return None
    return number if number >= 0 else None


def pci_device(sys: Path, bus_id: str) -> Path:
    """The folder of the PCI device ``bus_id``."""
    return sys / "bus/pci/devices" / bus_id


def read_nics(sys: Path, gpu_bus_id: str | None) -> tuple[Nic, ...]:
    """The RDMA devices of this host by name, with their distance to a GPU where one is given."""
    gpu = pci_device(sys, gpu_bus_id) if gpu_bus_id else None
    gpu_path = _path(gpu) if gpu else ()
    gpu_numa = numa_of(gpu) if gpu else None
    nics, orders = [], []
    for folder in sorted((sys / "class/infiniband").glob("*"), key=lambda p: _natural(p.name)):
        device = folder / "device"
        nic = Nic(folder.name, numa_of(device), _is_up(folder))
        path = _path(device)
        order = None
        if gpu_path and path:
            same_numa = gpu_numa is not None and gpu_numa == nic.numa
            distance, hops = pci_distance(gpu_path, path, same_numa=same_numa)
            order = (DISTANCES.index(distance), hops)
            nic = replace(nic, distance=distance)
        nics.append(nic)
        orders.append(order if nic.up else None)
    nearest = min((o for o in orders if o is not None), default=None)
    return tuple(
        replace(nic, near=nearest is not None and order == nearest)
        for nic, order in zip(nics, orders, strict=True)
    )


def pci_distance(a: Sequence[str], b: Sequence[str], *, same_numa: bool) -> tuple[str, int]:
    """The distance in nvidia-smi's words, and the steps up and down, of two PCI paths in /sys.

    A path is ``pci0000:10``, root port, switch ports, …, device.
    """
    common = 0
    while common < min(len(a), len(b)) and a[common] == b[common]:
        common += 1
    hops = len(a) + len(b) - 2 * common
    if common == 0:
        return ("NODE" if same_numa else "SYS"), hops
    if common == 1:  # only the root complex
        return "PHB", hops
    return ("PIX" if hops <= _ONE_SWITCH else "PXB"), hops


def _path(device: Path) -> tuple[str, ...]:
    """``pci0000:10``, ``0000:10:01.0``, …: the last PCI parts of where /sys really keeps the device."""
    try:
        parts = device.resolve(strict=True).parts
    except OSError:
        return ()
    roots = [i for i, part in enumerate(parts) if part.startswith("pci") and ":" in part]
    return parts[roots[-1] :] if roots else ()


def _is_up(nic: Path) -> bool:
    """Whether a port of the NIC is active (``4: ACTIVE``), or none says anything."""
    states = []
    for port in (nic / "ports").glob("*/state"):
        try:
            states.append(port.read_text())
        except OSError:
            continue
    return not states or any("ACTIVE" in state for state in states)


def _natural(name: str) -> tuple[str, int]:
    head = name.rstrip("0123456789")
    return head, int(name[len(head) :] or 0)
