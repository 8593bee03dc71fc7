"""The PCI tree of one host of a fabric: what hangs below which CPU, in the fabric's order."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import Device, Link

IN_TREE = {"gpu", "nic", "pcie_switch", "nvswitch", "external"}
"""Kinds of device that NCCL lists below a CPU, where they are on the host's PCIe."""

_ROOTED = {"gpu", "nic", "pcie_switch"}


@dataclass
class PciTree:
    """``cpus`` in order; None stands for the unknown CPU of devices that are on none.

    ``gone`` are GPUs and NICs all of whose PCIe links are down, ``without_pci`` NICs that are no PCI
    device.
    """

    cpus: list[Device | None]
    children: dict[str | None, list[Device]] = field(default_factory=lambda: defaultdict(list))
    ups: dict[str, Link] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    without_pci: set[str] = field(default_factory=set)

    def devices(self) -> Iterable[Device]:
        """All devices of the tree."""
        return (d for below in self.children.values() for d in below)

    def below(self, name: str | None) -> list[list[Device]]:
        """The PCI devices directly below, those of one bus id and kind (ports, GPU parts) together."""
        groups: dict[object, list[Device]] = {}
        for d in self.children.get(name, []):
            if d.name not in self.without_pci:
                shared = d.pci is not None and d.kind in {"gpu", "nic"}
                groups.setdefault((d.kind, d.pci) if shared else d.name, []).append(d)
        return list(groups.values())

    def ports_of(self, name: str | None) -> list[Device]:
        """The NICs of a CPU that are no PCI device."""
        return [d for d in self.children.get(name, []) if d.name in self.without_pci]

    def link_up(self, name: str) -> Link | None:
        """The PCIe link to what stands above."""
        return self.ups.get(name)


def working(links: Iterable[Link]) -> list[Link]:
    """Those that are not down."""
    return [link for link in links if link.health > 0]


def speed_GBps(links: Sequence[Link]) -> float | None:
    """A port's rate over its links: the signalling rate where it is known; None: not known of all."""
    rates = [link.wire_capacity_GBps for link in links]
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known and len(known) == len(rates) else None


def pci_tree(fabric: Fabric, host: str) -> PciTree:
    """Breadth first from the CPUs over PCIe links; host bridges are passed through, as NCCL has none."""
    cpus: list[Device | None] = list(fabric.on_host(host, "cpu"))
    tree = PciTree(cpus)
    seen = {cpu.name for cpu in cpus if cpu is not None}
    for cpu in cpus:
        if cpu is not None:
            _grow(fabric, tree, seen, [(cpu.name, cpu.name)])
    for d in fabric.on_host(host):
        if d.kind in _ROOTED and d.name not in seen:
            pcie = [link for link in fabric.links_from(d.name) if link.link_class == "pcie"]
            if pcie and not working(pcie):
                tree.gone.append(d.name)
                continue
            _add_rootless(fabric, tree, seen, d)
    _mark_without_pci(tree)
    return tree


def _add_rootless(fabric: Fabric, tree: PciTree, seen: set[str], device: Device) -> None:
    """A device on no CPU's PCIe: under the CPU of its NUMA domain, else under an unknown one."""
    of_numa = (c for c in tree.cpus if c is not None and device.numa is not None)
    cpu = next((c for c in of_numa if c.numa == device.numa), None)
    if cpu is None and None not in tree.cpus:
        tree.cpus.append(None)
    seen.add(device.name)
    tree.children[cpu.name if cpu else None].append(device)
    if device.kind == "pcie_switch":
        _grow(fabric, tree, seen, [(device.name, device.name)])


def _grow(
    fabric: Fabric, tree: PciTree, seen: set[str], roots: list[tuple[str, str | None]]
) -> None:
    """Add what is below ``roots``: pairs of where to look and what it stands below in the tree."""
    pending = deque(roots)
    while pending:
        here, parent = pending.popleft()
        host = fabric.host_of(here)
        for down in working(fabric.links_from(here)):
            far = fabric.device(down.dst)
            if down.link_class != "pcie" or far.name in seen or far.host != host:
                continue
            if far.kind == "host_bridge":
                seen.add(far.name)
                pending.append((far.name, parent))
            elif far.kind in IN_TREE:
                seen.add(far.name)
                tree.children[parent].append(far)
                tree.ups[far.name] = _link_up(fabric, far.name, here) or down
                if far.kind == "pcie_switch":
                    pending.append((far.name, far.name))


def _link_up(fabric: Fabric, name: str, above: str) -> Link | None:
    found = (link for link in fabric.links_from(name) if link.dst == above)
    return next((link for link in found if link.link_class == "pcie"), None)


def _mark_without_pci(tree: PciTree) -> None:
    """NICs on a CPU with neither bus id nor PCIe rate: virtual ones, which NCCL lists outside PCI."""
    cpu_names = {cpu.name if cpu else None for cpu in tree.cpus}
    for name in cpu_names:
        for d in tree.children.get(name, []):
            up = tree.ups.get(d.name)
            if d.kind == "nic" and d.pci is None and (up is None or up.GBps is None):
                tree.without_pci.add(d.name)
