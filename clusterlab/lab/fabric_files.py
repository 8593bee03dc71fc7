"""The files by which a lab keeps its fabric: whole, as it is now, and as a data network."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from clusterlab.lab import render
from clusterlab.lab.files import make_directory, write
from clusterlab.lab.layout import Layout
from clusterlab.lab.wires import DataNetwork

if TYPE_CHECKING:
    from clusterlab.lab.fabric_of_lab import LabFabric


def write_fabric(layout: Layout, fabric: LabFabric, broken: tuple[str, ...] = ()) -> None:
    """What --fabric takes, and the design that it refers to."""
    if fabric.design:
        write(layout.design, fabric.design)
    write(layout.fabric, fabric.text(broken))


def write_network(layout: Layout, network: DataNetwork) -> None:
    """What the lab's processes read, and the NICs of tasks that start from now on."""
    for node, names in network.gpu_nics.items():
        make_directory(layout.task_nics(node))
        nics = {nic.name: nic for nic in network.nics_of(node)}
        for gpu, name in enumerate(names):
            write(layout.task_nics(node) / str(gpu), render.task_nic(nics[name]))
    write(layout.network, json.dumps(network.to_json()) + "\n")
