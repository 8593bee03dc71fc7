"""The fabric that a lab stands for: opened, checked, and what of it a lab keeps. Pure, but for reading it."""

from __future__ import annotations

from dataclasses import dataclass

from clusterlab.lab.from_fabric import data_network
from clusterlab.lab.layout import Layout
from clusterlab.lab.spec import LabSpec
from clusterlab.lab.wires import DataNetwork
from clusterlab.topology.design.load import fabric_from_yaml, is_file
from clusterlab.topology.design.saving import fabric_to_yaml
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.failures.breaking import break_fabric, broken_yaml
from clusterlab.topology.opening import open_fabric

_CORES_OF_A_CPU = 8


@dataclass(frozen=True, slots=True)
class LabFabric:
    """``fabric`` whole, as it came up. ``base`` is what a file in the lab's folder calls it; ``design`` its
    text, where it does not travel with clusterlab (a file may change, and /tmp is not shared).
    """

    fabric: Fabric
    base: str
    routing: str
    design: str = ""

    def network(self, broken: tuple[str, ...] = ()) -> DataNetwork:
        """The data network with ``broken`` down or degraded. Raises UsageError for what is not there."""
        fabric = break_fabric(self.fabric, broken) if broken else self.fabric
        return data_network(fabric, self.routing, broken)

    def text(self, broken: tuple[str, ...] = ()) -> str:
        """The fabric as it is now, for --fabric: what `topo break` writes, and its routing."""
        return broken_yaml(self.base, self.fabric.digest, broken, routing=self.routing)

    @property
    def several_nics(self) -> bool:
        """Whether a node has more than one NIC."""
        return any(len(self.fabric.on_host(host, "nic")) > 1 for host in self.fabric.hosts)

    @property
    def shape(self) -> dict[str, int]:
        """Nodes, and GPUs, CPUs and sockets of each: fields of LabSpec."""
        hosts = self.fabric.hosts
        cpus = self.fabric.on_host(hosts[0], "cpu")
        return {
            "nodes": len(hosts),
            "gpus": len(self.fabric.on_host(hosts[0], "gpu")),
            "cpus": sum(cpu.cores or _CORES_OF_A_CPU for cpu in cpus) or _CORES_OF_A_CPU,
            "sockets": max(1, len(cpus)),
        }


def open_lab_fabric(name_or_path: str, routing: str) -> LabFabric:
    """The fabric called so. Raises UsageError where there is none, or where it cannot be a lab."""
    fabric, text = open_fabric(name_or_path), ""
    base = name_or_path
    if is_file(name_or_path):
        base, text = Layout.DESIGN, fabric_to_yaml(fabric)
        fabric = fabric_from_yaml(text, file=base, default_name=fabric.name)
    found = LabFabric(fabric, base, routing, text)
    found.network()
    return found


def fabric_of(layout: Layout, spec: LabSpec) -> LabFabric:
    """The fabric of a lab that is up, whole."""
    own = layout.design.exists()
    fabric = open_fabric(str(layout.design) if own else spec.fabric)
    base = Layout.DESIGN if own else spec.fabric
    return LabFabric(fabric, base, spec.routing)
