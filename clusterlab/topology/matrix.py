"""A host's GPUs and NICs as ``nvidia-smi topo -m`` shows them: pair by pair, and as it prints."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass

from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import Device

_HOPS = ("pcie_switch", "host_bridge", "cpu")
_PCI_CLASSES = frozenset({"pcie", "upi"})

_LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""

Crossed = tuple[int, int, int]  # cpus, host bridges, switches on a way: fewer of the first wins


@dataclass(frozen=True)
class TopoCells:
    """The matrix of one host: ``labels`` (GPU0, NIC0) and device names in the same order, cells by row."""

    labels: tuple[str, ...]
    devices: tuple[Device, ...]
    cells: tuple[tuple[str, ...], ...]
    numa: tuple[int | None, ...]

    def cell(self, row: str, column: str) -> str:
        """The cell of two labels."""
        return self.cells[self.labels.index(row)][self.labels.index(column)]


def topo_matrix(fabric: Fabric, host: str) -> TopoCells:
    """The cells for the GPUs and NICs of ``host``, in the fabric's order.

    NV# counts NVLinks with capacity left, directly or over a switch both GPUs reach (the smaller side
    counts); XGMI stands for AMD's links. Else the PCI way with the fewest cpus, host bridges, switches:
    PIX one switch or none, PXB several, PHB one host bridge, NODE several at one cpu, SYS beyond, and
    where no way is known. Two ends that meet at a cpu without a host bridge in the fabric are PHB, as
    NCCL counts them. Raises UsageError for an unknown host.
    """
    ends = (*fabric.on_host(host, "gpu"), *fabric.on_host(host, "nic"))
    counts = {"gpu": 0, "nic": 0}
    labels = []
    for end in ends:
        labels.append(f"{end.kind.upper()}{counts[end.kind]}")
        counts[end.kind] += 1
    crossed = [_crossed(fabric, end) for end in ends]
    rows = tuple(
        tuple("X" if a is b else _cell(fabric, a, b, crossed[i].get(b.name)) for b in ends)
        for i, a in enumerate(ends)
    )
    numa = tuple(_numa(fabric, end, ways) for end, ways in zip(ends, crossed, strict=True))
    return TopoCells(tuple(labels), ends, rows, numa)


def topo_word(fabric: Fabric, a: str, b: str) -> str | None:
    """The cell of two GPUs or NICs of one host; None for other devices, or one with itself."""
    one, other = fabric.device(a), fabric.device(b)
    together = one.host is not None and one.host == other.host and a != b
    if not together or not {one.kind, other.kind} <= {"gpu", "nic"}:
        return None
    return _cell(fabric, one, other, _crossed(fabric, one).get(b))


def render(cells: TopoCells, *, cpu_affinity: Mapping[str, str] | None = None) -> str:
    """The matrix as nvidia-smi prints it, tabs included; ``cpu_affinity`` by device name or label.

    A NIC row has no affinities, an unknown one is empty, an unknown NUMA node N/A.
    """
    known = cpu_affinity or {}
    head = "\t".join(("", *cells.labels, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"))
    lines = [head]
    for label, device, row, numa in zip(
        cells.labels, cells.devices, cells.cells, cells.numa, strict=True
    ):
        tail = ["", "", "", ""]
        if device.kind == "gpu":
            cpus = known.get(device.name, known.get(label, ""))
            tail = [cpus, "N/A" if numa is None else str(numa), "", "N/A"]
        lines.append("\t".join((label, *(c.center(3) for c in row), *tail)))
    text = "\n".join(lines) + "\n" + _LEGEND
    nics = [
        f"  {label}: {d.interface}\n"
        for label, d in zip(cells.labels, cells.devices, strict=True)
        if d.kind == "nic" and d.interface is not None
    ]
    return text + ("\nNIC Legend:\n\n" + "".join(nics) if nics else "")


def _cell(fabric: Fabric, a: Device, b: Device, crossed: Crossed | None) -> str:
    if a.kind == b.kind == "gpu":
        nvlinks = _shared_links(fabric, a.name, b.name, "nvlink")
        if nvlinks:
            return f"NV{nvlinks}"
        if _shared_links(fabric, a.name, b.name, "xgmi"):
            return "XGMI"
    return _level(crossed)


def _level(crossed: Crossed | None) -> str:
    if crossed is None:
        return "SYS"
    cpus, host_bridges, switches = crossed
    if cpus:
        return "NODE" if host_bridges else "PHB"
    if host_bridges:
        return "PHB"
    return "PXB" if switches > 1 else "PIX"


def _shared_links(fabric: Fabric, a: str, b: str, link_class: str) -> int:
    """Working links between two GPUs: their own, and over each switch the smaller of the two sides."""
    there, back = _working(fabric, a, link_class), _working(fabric, b, link_class)
    switches = [s for s in there.keys() & back.keys() if fabric.device(s).kind == "nvswitch"]
    return there.get(b, 0) + sum(min(there[s], back[s]) for s in switches)


def _working(fabric: Fabric, name: str, link_class: str) -> dict[str, int]:
    """Far end to the number of links with any capacity left: lost capacity counts as whole links lost."""
    found: dict[str, int] = {}
    for link in fabric.links_from(name):
        if link.link_class == link_class:
            found[link.dst] = found.get(link.dst, 0) + int(link.multiplicity * link.health + 1e-9)
    return found


def _crossed(fabric: Fabric, end: Device) -> dict[str, Crossed]:
    """What the best PCI way from ``end`` crosses before each device it reaches over at most one cpu."""
    best: dict[str, Crossed] = {}
    pending: list[tuple[Crossed, str]] = [((0, 0, 0), end.name)]
    while pending:
        crossed, name = heapq.heappop(pending)
        if name in best:
            continue
        best[name] = crossed
        device = fabric.device(name)
        if device.kind == "cpu" and crossed[0]:
            continue  # beyond a second cpu all is SYS
        if device.kind in _HOPS:
            crossed = _entering(crossed, device)
        elif name != end.name:
            continue
        for link in fabric.links_from(name):
            if link.link_class in _PCI_CLASSES and link.health > 0 and link.dst not in best:
                heapq.heappush(pending, (crossed, link.dst))
    return best


def _entering(crossed: Crossed, device: Device) -> Crossed:
    cpus, host_bridges, switches = crossed
    return (
        cpus + (device.kind == "cpu"),
        host_bridges + (device.kind == "host_bridge"),
        switches + (device.kind == "pcie_switch"),
    )


def _numa(fabric: Fabric, end: Device, ways: Mapping[str, Crossed]) -> int | None:
    """The device's NUMA node, else that of the only cpu its ways reach first."""
    if end.numa is not None:
        return end.numa
    cpus = [
        d for n, crossed in ways.items() if not crossed[0] and (d := fabric.device(n)).kind == "cpu"
    ]
    return cpus[0].numa if len(cpus) == 1 else None
