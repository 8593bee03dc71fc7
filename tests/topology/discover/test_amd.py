"""AMD GPUs and their xGMI links from a made-up kfd."""

from __future__ import annotations

from pathlib import Path

from clusterlab.topology.discover.assemble import fabric_from_machine
from clusterlab.topology.discover.machine import read_machine
from clusterlab.topology.matrix import topo_matrix
from tests.topology.discover.trees import FakeNvml, Sys

NODES = "class/kfd/kfd/topology/nodes"


def mi300x(root: Path, count: int = 4) -> Sys:
    """A CPU and GPUs that all link to each other, each behind a root port of its own root complex."""
    sys = Sys(root)
    sys.numa(0, "0-31")
    sys.write(f"{NODES}/0/properties", "cpu_cores_count 32\nsimd_count 0")
    for i in range(count):
        bus = 0x10 * (i + 1)
        sys.pci(
            f"pci0000:{bus:02x}/0000:{bus:02x}:01.1/0000:{bus + 1:02x}:00.0",
            pci_class="0x120000", vendor="0x1002",
        )  # fmt: skip
        sys.write(
            f"{NODES}/{i + 1}/properties",
            f"simd_count 1216\nlocation_id {(bus + 1) << 8}\ndomain 0\ngfx_target_version 90402\n"
            f"unique_id {1000 + i}",
        )
        sys.write(f"{NODES}/{i + 1}/name", "ip discovery")
        others = [j for j in range(count) if j != i]
        for k, j in enumerate([-1, *others]):
            kind, to = (2, 0) if j < 0 else (11, j + 1)
            sys.write(
                f"{NODES}/{i + 1}/io_links/{k}/properties",
                f"type {kind}\nnode_from {i + 1}\nnode_to {to}\nmax_bandwidth 64000",
            )
    return sys


def test_a_full_mesh_of_mi300x_is_seen_with_rccls_rate(tmp_path: Path) -> None:
    facts = read_machine("n0", sys=mi300x(tmp_path).root, nvml=FakeNvml([]), addresses=None)
    fabric = fabric_from_machine(facts).fabric
    links = [x for x in fabric.links if x.link_class == "xgmi"]
    assert len(links) == 4 * 3
    assert {(x.GBps, x.wire_GBps) for x in links} == {(48.0, 64.0)}
    assert [d.pci for d in fabric.of_kind("gpu")] == [f"0000:{b}1:00.0" for b in (1, 2, 3, 4)]
    assert topo_matrix(fabric, "n0").cell("GPU0", "GPU3") == "XGMI"
    assert facts.gpus[0].uuid == "GPU-00000000000003e8"
    assert facts.gpus[0].capability == (9, 4, 2)


def test_a_gpu_that_kfd_lacks_is_said_to_be_hidden(tmp_path: Path) -> None:
    sys = mi300x(tmp_path)
    (sys.root / NODES / "4/properties").unlink()
    found = fabric_from_machine(read_machine("n0", sys=sys.root, nvml=FakeNvml([]), addresses=None))
    assert len(found.fabric.of_kind("gpu")) == 4
    assert [finding.code for finding in found.findings] == ["gpu_not_shown"]


def test_without_kfd_amd_gpus_are_those_on_the_bus(tmp_path: Path) -> None:
    sys = Sys(tmp_path)
    sys.pci("pci0000:10/0000:10:01.0/0000:11:00.0", pci_class="0x038000", vendor="0x1002")
    facts = read_machine("n0", sys=sys.root, nvml=FakeNvml([]), addresses=None)
    assert [(gpu.bus_id, gpu.vendor, gpu.shown) for gpu in facts.gpus] == [
        ("0000:11:00.0", "amd", False)
    ]
