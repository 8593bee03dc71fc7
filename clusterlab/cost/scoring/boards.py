"""The board of a described host: its GPUs, what joins them, its CPUs. Pure.

A shipped design's, or made of the vocabulary's figures: cards with or without bridges, meshes without a
switch.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

from clusterlab.cost.scoring.machine import Machine
from clusterlab.cost.scoring.vocabulary import Joint
from clusterlab.topology.design.load import load_fabric
from clusterlab.topology.parts import Device, Link, LinkClass

SOURCE = "vocabulary of published tables"
CARDS_A_SWITCH = 4
_ACCELERATOR: frozenset[LinkClass] = frozenset({"nvlink", "xgmi"})
_CPU_OF_PORTS = "AMD EPYC"
"""Of the CPUs in such hosts it has ports for eight cards of 16 lanes; NCCL gives two GPUs on it peer
access.
"""


@dataclass(frozen=True, slots=True)
class Host:
    """Parts of one host under local names; ``up`` are links to switches that several hosts share."""

    devices: tuple[Device, ...]
    links: tuple[Link, ...]
    shared: tuple[Device, ...] = ()
    up: tuple[Link, ...] = ()


def board_of(machine: Machine) -> Host:
    """The GPUs a host uses, what joins them, and its CPUs."""
    if machine.build.cards:
        return _cards(machine)
    if machine.build.joint is not None:
        return _mesh(machine, machine.build.joint)
    design = load_fabric(machine.build.host)
    host = design.hosts[0]
    gpus = {d.name for d in design.on_host(host, "gpu")[: machine.gpus]}
    kept = [
        replace(_local(d, host), model=machine.build.model if d.kind == "gpu" else d.model)
        for d in design.on_host(host)
        if d.name in gpus or d.kind in ("nvswitch", "cpu")
    ]
    names = {f"{host}/{d.name}" for d in kept}
    outside = {d.name for d in design.network_devices if d.kind == "nvswitch"}
    links, up = [], []
    for name in sorted(names):
        for link in (*design.links_from(name), *design.links_to(name)):
            ends = {link.src, link.dst}
            if link.src == name and ends <= names and link.link_class != "pcie":
                links.append(_local_link(_own_rate(link, machine), host))
            elif ends & outside:
                up.append(_local_link(_own_rate(link, machine), host))
    switches = tuple(d for d in design.network_devices if d.name in outside)
    return Host(tuple(kept), tuple(links), switches, tuple(up))


def _own_rate(link: Link, machine: Machine) -> Link:
    """The design's link at the chip's own rate, where that differs."""
    own = machine.build.accelerator_GBps
    if own is None or link.link_class not in _ACCELERATOR:
        return link
    usable, wire = own
    return replace(link, GBps=usable, wire_GBps=wire, GBps_source=SOURCE, wire_source=SOURCE)


def _local(device: Device, host: str) -> Device:
    return replace(device, name=device.name.removeprefix(f"{host}/"), host="")


def _local_link(link: Link, host: str) -> Link:
    return replace(
        link, src=link.src.removeprefix(f"{host}/"), dst=link.dst.removeprefix(f"{host}/")
    )


def _cards(machine: Machine) -> Host:
    """PCIe cards: two sockets above four of them, bridged in pairs where the table says so."""
    sockets = 2 if machine.build.host == "pcie" and machine.gpus > CARDS_A_SWITCH else 1
    gpus = [
        Device(
            f"gpu{i}", "gpu", host="", model=machine.build.model, numa=i * sockets // machine.gpus
        )
        for i in range(machine.gpus)
    ]
    model = _CPU_OF_PORTS if machine.build.host == "ports" else None
    cpus = [Device(f"cpu{i}", "cpu", host="", model=model, numa=i) for i in range(sockets)]
    links: list[Link] = []
    if sockets == 2:
        links += both(Link("cpu0", "cpu1", "upi", None))
    bridge = machine.build.bridge
    if machine.pairs and bridge is not None:
        for i in range(0, machine.gpus - 1, 2):
            links += _joined(bridge, i, i + 1)
    return Host((*gpus, *cpus), tuple(links))


def _mesh(machine: Machine, joint: Joint) -> Host:
    """GPUs of which every two have links of their own."""
    gpus = [
        Device(f"gpu{i}", "gpu", host="", model=machine.build.model, numa=0)
        for i in range(machine.gpus)
    ]
    pairs = itertools.combinations(range(machine.gpus), 2)
    links = [link for a, b in pairs for link in _joined(joint, a, b)]
    return Host((*gpus, Device("cpu0", "cpu", host="", numa=0)), tuple(links))


def _joined(joint: Joint, a: int, b: int) -> tuple[Link, Link]:
    return both(
        Link(
            f"gpu{a}",
            f"gpu{b}",
            joint.link_class,
            joint.GBps,
            multiplicity=joint.links,
            wire_GBps=joint.wire_GBps,
            GBps_source=SOURCE,
            wire_source=SOURCE,
        )
    )


def both(link: Link) -> tuple[Link, Link]:
    """A link and its way back."""
    return link, replace(link, src=link.dst, dst=link.src)
