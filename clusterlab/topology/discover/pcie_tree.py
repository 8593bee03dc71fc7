"""PCI paths as a tree of host bridges and switches, with what each link carries. Pure.

A switch is known by its upstream port, as in NCCL's XML. A root port that holds several functions
(the two ports of one card) is a switch too: without it they would seem to meet in the root complex.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from clusterlab.core.findings import Finding, Severity
from clusterlab.topology.discover.distance import switch_positions
from clusterlab.topology.discover.facts import GpuFact, PciFact
from clusterlab.topology.discover.places import Place
from clusterlab.topology.discover.rates import Rate, pcie_GTps, pcie_rate
from clusterlab.topology.parts import Device, Link

N = TypeVar("N", int, float)

ROOT_PORT = "root port with several functions"


@dataclass(frozen=True, slots=True)
class End:
    """A GPU or NIC to be hung into the tree: its device, place, and NVML's word where it is a GPU."""

    device: Device
    bus_id: str
    place: Place
    gpu: GpuFact | None = None


@dataclass(slots=True)
class Tree:
    """Bridges and switches, and links both ways: from the ends up to the CPUs."""

    devices: list[Device] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def pcie_tree(
    host: str, ends: Sequence[End], pci: Mapping[str, PciFact], cpus: Mapping[int, str]
) -> Tree:
    """The tree of ``host`` above ``ends``; ``cpus`` are its CPU devices by NUMA domain.

    A root complex whose NUMA domain is not known on a machine with several gets a CPU of its own.
    """
    tree = Tree()
    ends = [end for end in ends if end.place.path]
    branching = _branching_root_ports(ends)
    names: dict[str, str] = {}
    for root in dict.fromkeys(end.place.path[0] for end in ends):
        names[root] = f"{host}/host_bridge{len(names)}"
        below = [end for end in ends if end.place.path[0] == root]
        _host_bridge(tree, names[root], root, below, cpus)
    switches = 0
    for end in ends:
        above = names[end.place.path[0]]
        for i in _switch_positions(end.place.path, branching):
            key = end.place.path[i]
            if key not in names:
                names[key] = f"{host}/pcie_switch{switches}"
                switches += 1
                tree.devices.append(_switch(names[key], end, i))
                if i == 1:  # the slot's link is the card's own, which speaks for itself
                    rate = _link_rate(Tree(), names[key], end.place.path[:3], pci, None)
                else:
                    rate = _link_rate(tree, names[key], end.place.path[: i + 1], pci, None)
                tree.links += both_ways(names[key], above, rate)
            above = names[key]
        rate = _link_rate(tree, end.device.name, end.place.path, pci, end.gpu)
        tree.links += both_ways(end.device.name, above, rate)
    return tree


def both_ways(a: str, b: str, rate: Rate) -> tuple[Link, Link]:
    """A PCIe link as two directions."""
    links = [
        Link(
            src=src,
            dst=dst,
            link_class="pcie",
            GBps=rate.GBps,
            wire_GBps=rate.wire_GBps,
            GBps_source=rate.GBps_source,
            wire_source=rate.wire_source,
        )
        for src, dst in ((a, b), (b, a))
    ]
    return links[0], links[1]


def _branching_root_ports(ends: Sequence[End]) -> set[str]:
    """Root ports (second on a path) under which paths part at once."""
    below: defaultdict[str, set[str]] = defaultdict(set)
    for end in ends:
        if len(end.place.path) > 2:
            below[end.place.path[1]].add(end.place.path[2])
    return {port for port, children in below.items() if len(children) > 1}


def _switch_positions(path: Sequence[str], branching: set[str]) -> list[int]:
    """Where on a path switches are, a root port that holds several functions among them."""
    first = [1] if len(path) > 2 and path[1] in branching else []
    return [*first, *switch_positions(path)]


def _host_bridge(
    tree: Tree, name: str, root: str, below: Sequence[End], cpus: Mapping[int, str]
) -> None:
    host = below[0].device.host
    numa = next((end.place.numa for end in below if end.place.numa is not None), None)
    tree.devices.append(Device(name, "host_bridge", host=host, numa=numa, pci=root))
    cpu = None if numa is None else cpus.get(numa)
    if cpu is None:
        cpu = f"{host}/cpu_of_{name.rpartition('/')[2]}"
        tree.devices.append(Device(cpu, "cpu", host=host, numa=numa))
        for other in cpus.values():
            tree.links += [Link(cpu, other, "upi", None), Link(other, cpu, "upi", None)]
        tree.findings.append(_numa_unknown(name, [end.device.name for end in below]))
    tree.links += both_ways(name, cpu, Rate())


def _numa_unknown(name: str, below: Sequence[str]) -> Finding:
    return Finding(
        "numa_unknown",
        Severity.WARNING,
        (f"neither /sys nor NVML says which NUMA domain {name} ({', '.join(below)}) belongs to",),
        "see what the firmware or the VM says (numa_node in /sys); until then it counts as far from"
        " every other device",
    )


def _switch(name: str, end: End, position: int) -> Device:
    return Device(
        name,
        "pcie_switch",
        host=end.device.host,
        model=ROOT_PORT if position == 1 else None,
        numa=end.place.numa,
        pci=end.place.path[position],
    )


def _link_rate(
    tree: Tree,
    name: str,
    path: Sequence[str],
    pci: Mapping[str, PciFact],
    gpu: GpuFact | None,
) -> Rate:
    """The link above the last part of ``path``: what both of its ends can, at the width they run.

    A GPU lowers its lane speed when idle, so for a GPU the speed is the most that both ends can (as in
    NCCL); others run at the speed they show.
    """
    here = pci.get(path[-1], PciFact(path[-1], ()))
    port = pci.get(path[-2], PciFact(path[-2], ())) if len(path) > 2 else PciFact("", ())
    can_speed = _least(here.max_speed_GTps, port.max_speed_GTps)
    can_lanes = _least(here.max_width, port.max_width)
    lanes = here.width or port.width
    if gpu is not None:
        can_speed = can_speed or pcie_GTps(gpu.pcie_generation)
        can_lanes = can_lanes or gpu.pcie_width
        lanes = lanes or gpu.pcie_width_now
    speed = here.speed_GTps or port.speed_GTps
    most = max((w for w in (here.max_width, port.max_width) if w), default=can_lanes)
    if lanes and most and lanes < most:
        tree.findings.append(_narrow(name, lanes, here, port))
    if speed and can_speed and speed < can_speed:
        tree.findings.append(_slow(name, speed, can_speed, is_gpu=gpu is not None))
    used = can_speed if gpu is not None else speed
    return pcie_rate(used or can_speed or speed, lanes or can_lanes)


def _least(a: N | None, b: N | None) -> N | None:
    known = [value for value in (a, b) if value is not None]
    return min(known, default=None)


def _narrow(name: str, lanes: int, here: PciFact, port: PciFact) -> Finding:
    slot = f", its slot {port.max_width}" if port.max_width else ""
    return Finding(
        "pcie_narrow",
        Severity.WARNING,
        (f"{name} ({here.bus_id}) runs on {lanes} lanes; it can do {here.max_width or '?'}{slot}",),
        "reseat the card or its riser, look for PCIe errors in the kernel's log; a narrow slot stays"
        " narrow",
    )


def _slow(name: str, speed: float, can: float, *, is_gpu: bool) -> Finding:
    return Finding(
        "pcie_slow",
        Severity.INFO if is_gpu else Severity.WARNING,
        (f"{name} runs at {speed:g} GT/s a lane; both ends can do {can:g}",),
        "look again while it works: a GPU slows its link down when idle"
        if is_gpu
        else "look for PCIe errors in the kernel's log, and for a speed set by hand in the firmware",
    )
