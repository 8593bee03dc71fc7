"""The nvidia-smi matrix of a fabric's host: levels by the PCI way, NVLinks as counted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.importing.pci_tree import both_ways
from clusterlab.topology.matrix import render, topo_matrix
from clusterlab.topology.parts import Device

PCI = {
    "cpu0": "",
    "cpu1": "",
    "bridge0": "cpu0",
    "bridge1": "cpu0",
    "switch0": "bridge0",
    "switch1": "switch0",
    "gpu0": "switch0",
    "nic0": "switch0",
    "gpu1": "switch1",
    "gpu2": "bridge0",
    "gpu3": "bridge1",
    "gpu4": "cpu1",
    "gpu5": "cpu1",
    "nic1": "gpu5",
}


def host() -> Fabric:
    kinds = {"bridge": "host_bridge", "switch": "pcie_switch"}
    devices = [
        Device(
            f"n0/{name}",
            kinds.get(name[:-1], name[:-1]),  # type: ignore[arg-type]
            host="n0",
            numa=int(name[-1]) if name.startswith("cpu") else None,
        )
        for name in PCI
    ]
    links = [k for n, up in PCI.items() if up for k in both_ways(f"n0/{n}", f"n0/{up}", "pcie")]
    links += both_ways("n0/cpu0", "n0/cpu1", "upi")
    return Fabric("n0", tuple(devices), tuple(links))


@pytest.mark.parametrize(
    ("a", "b", "level"),
    [
        ("GPU0", "GPU0", "X"),
        ("GPU0", "NIC0", "PIX"),
        ("GPU5", "NIC1", "PIX"),
        ("GPU0", "GPU1", "PXB"),
        ("GPU1", "GPU2", "PHB"),
        ("GPU2", "GPU3", "NODE"),
        ("GPU4", "GPU5", "PHB"),
        ("GPU3", "GPU4", "SYS"),
        ("GPU0", "NIC1", "SYS"),
    ],
)
def test_a_level_is_what_the_best_way_crosses(a: str, b: str, level: str) -> None:
    cells = topo_matrix(host(), "n0")
    assert cells.cell(a, b) == cells.cell(b, a) == level


def test_devices_without_a_way_are_sys_and_end_points_forward_nothing() -> None:
    fabric = host()
    lone = replace(fabric, devices=(*fabric.devices, Device("n0/gpu6", "gpu", host="n0")))
    assert topo_matrix(lone, "n0").cell("GPU6", "GPU0") == "SYS"
    assert topo_matrix(lone, "n0").cell("GPU4", "NIC1") == "SYS"  # GPU5 passes nothing on


def nvlinked(**bundles: int) -> Fabric:
    fabric = host()
    switches = ("n0/nvswitch0", "n0/nvswitch1")
    links = [
        k
        for gpu, n in bundles.items()
        for s in switches
        for k in both_ways(f"n0/{gpu}", s, "nvlink", multiplicity=n)
    ]
    made = tuple(Device(s, "nvswitch", host="n0") for s in switches)
    return replace(fabric, devices=(*fabric.devices, *made), links=(*fabric.links, *links))


def test_nvlinks_over_switches_count_the_smaller_side_of_each() -> None:
    cells = topo_matrix(nvlinked(gpu0=9, gpu1=9, gpu2=8), "n0")
    assert (cells.cell("GPU0", "GPU1"), cells.cell("GPU0", "GPU2")) == ("NV18", "NV16")
    assert cells.cell("GPU0", "GPU3") == "NODE"


def test_direct_bundles_and_lost_links_count() -> None:
    fabric = host()
    links = both_ways("n0/gpu0", "n0/gpu4", "nvlink", multiplicity=4)
    whole = replace(fabric, links=(*fabric.links, *links))
    assert topo_matrix(whole, "n0").cell("GPU0", "GPU4") == "NV4"
    worn = replace(fabric, links=(*fabric.links, *(replace(k, health=0.5) for k in links)))
    assert topo_matrix(worn, "n0").cell("GPU0", "GPU4") == "NV2"
    dead = replace(fabric, links=(*fabric.links, *(replace(k, health=0.0) for k in links)))
    assert topo_matrix(dead, "n0").cell("GPU0", "GPU4") == "SYS"


def test_amd_links_are_called_by_their_name() -> None:
    fabric = host()
    xgmi = replace(fabric, links=(*fabric.links, *both_ways("n0/gpu0", "n0/gpu4", "xgmi")))
    assert topo_matrix(xgmi, "n0").cell("GPU0", "GPU4") == "XGMI"


def test_an_unknown_host_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown host 'n9'"):
        topo_matrix(host(), "n9")


def test_the_text_has_nvidia_smis_columns() -> None:
    fabric = host()
    named = replace(
        fabric,
        devices=tuple(
            replace(d, interface="mlx5_7") if d.name == "n0/nic0" else d for d in fabric.devices
        ),
    )
    lines = render(topo_matrix(named, "n0"), cpu_affinity={"n0/gpu0": "0-3"}).splitlines()
    assert lines[0].split("\t")[-3:] == ["CPU Affinity", "NUMA Affinity", "GPU NUMA ID"]
    assert lines[1].split("\t") == [
        *["GPU0", " X ", "PXB", "PHB", "NODE", "SYS", "SYS", "PIX", "SYS"],
        *["0-3", "0", "", "N/A"],
    ]
    assert lines[7].split("\t")[-4:] == [""] * 4
    assert lines[-1] == "  NIC0: mlx5_7"
