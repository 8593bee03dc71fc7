"""Whole machines: what discovery makes of a made-up /sys and NVML."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from clusterlab.topology.design.saving import fabric_to_yaml
from clusterlab.topology.discover.assemble import fabric_from_machine
from clusterlab.topology.discover.facts_json import machine_from_json
from clusterlab.topology.discover.machine import read_machine
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.importing.imported import Imported
from clusterlab.topology.matrix import topo_matrix
from tests.topology.discover.trees import (
    DGX_BUSES,
    DGX_NICS,
    DGX_SWITCHES,
    GEN4,
    GEN5,
    HIDDEN,
    SWITCH,
    FakeGpu,
    FakeNvml,
    Sys,
    below,
    dgx_h100,
    dgx_nvml,
    to_switches,
)

NO_NVML = FakeNvml([], absent="NVML Shared Library Not Found")


def seen(sys: Sys, nvml: FakeNvml = NO_NVML) -> Imported:
    cpuinfo = sys.root / "cpuinfo"
    facts = read_machine("n0", sys=sys.root, nvml=nvml, addresses=None, cpuinfo=cpuinfo)
    assert machine_from_json(json.loads(json.dumps(facts.to_json()))) == facts
    return fabric_from_machine(facts)


def codes(found: Imported) -> list[str]:
    return [finding.code for finding in found.findings]


def kinds(fabric: Fabric) -> dict[str, int]:
    return dict(Counter(d.kind for d in fabric.devices))


def cell(fabric: Fabric, a: str, b: str) -> str:
    cells = topo_matrix(fabric, "n0")
    at = {d.name: i for i, d in enumerate(cells.devices)}
    return cells.cells[at[f"n0/{a}"]][at[f"n0/{b}"]]


def rates(fabric: Fabric, device: str, to: str) -> list[tuple[float | None, float | None, int]]:
    return [
        (link.GBps, link.wire_GBps, link.multiplicity)
        for link in fabric.links_from(f"n0/{device}")
        if fabric.device(link.dst).kind == to
    ]


def test_a_dgx_h100_is_seen_whole(tmp_path: Path) -> None:
    found = seen(dgx_h100(tmp_path), dgx_nvml())
    assert kinds(found.fabric) == {
        "gpu": 8, "nic": 12, "nvswitch": 4, "pcie_switch": 10, "host_bridge": 10, "cpu": 2,
    }  # fmt: skip
    assert found.findings == ()
    assert found.facts["notes"] == []
    gpu = found.fabric.device("n0/gpu5")
    assert (gpu.pci, gpu.numa, gpu.guid) == ("0000:a3:00.0", 1, "GPU-0000:a3:00.0")
    assert gpu.model == "NVIDIA H100 80GB HBM3"
    assert [d.cores for d in found.fabric.of_kind("cpu")] == [112, 112]


def test_nvlinks_of_a_dgx_end_at_the_switches_that_nvml_names(tmp_path: Path) -> None:
    fabric = seen(dgx_h100(tmp_path), dgx_nvml()).fabric
    assert rates(fabric, "gpu0", "nvswitch") == [
        (20.6, 26.562, n) for n in (5, 4, 4, 5)
    ]  # what a kernel gets, and what nvidia-smi nvlink -s prints
    assert [d.pci for d in fabric.of_kind("nvswitch")] == list(DGX_SWITCHES)
    assert all(d.in_network for d in fabric.of_kind("nvswitch"))
    assert cell(fabric, "gpu0", "gpu7") == "NV18"


def test_each_gpu_of_a_dgx_is_pix_to_its_own_nic_and_farther_from_the_others(
    tmp_path: Path,
) -> None:
    fabric = seen(dgx_h100(tmp_path), dgx_nvml()).fabric
    for i in range(8):
        assert cell(fabric, f"gpu{i}", DGX_NICS[i]) == "PIX"
        assert cell(fabric, f"gpu{i}", DGX_NICS[(i + 1) % 4 + i // 4 * 4]) == "NODE"
        assert cell(fabric, f"gpu{i}", DGX_NICS[(i + 4) % 8]) == "SYS"
    assert cell(fabric, "mlx5_1", "mlx5_2") == "PIX"  # two ports of one card, in a root port
    assert rates(fabric, "gpu0", "pcie_switch") == [(48.0, 63.02, 1)]
    assert rates(fabric, "mlx5_1", "pcie_switch") == [(48.0, 63.02, 1)]


def test_every_link_runs_both_ways_and_the_fabric_can_be_written(tmp_path: Path) -> None:
    fabric = seen(dgx_h100(tmp_path), dgx_nvml()).fabric
    there = Counter((x.src, x.dst, x.link_class, x.multiplicity) for x in fabric.links)
    assert there == Counter((x.dst, x.src, x.link_class, x.multiplicity) for x in fabric.links)
    assert "mlx5_11" in fabric_to_yaml(fabric)


def test_without_nvml_the_pci_bus_still_shows_the_gpus(tmp_path: Path) -> None:
    found = seen(dgx_h100(tmp_path))
    assert kinds(found.fabric)["gpu"] == 8
    assert [d.pci for d in found.fabric.of_kind("gpu")][:2] == ["0000:13:00.0", "0000:23:00.0"]
    assert cell(found.fabric, "gpu0", "gpu1") == "NODE"
    assert "NVML not available" in found.facts["notes"][0]
    assert codes(found) == []


def h200_vm(root: Path) -> Sys:
    """Two H200 on the root bus of a virtual machine: no root ports, no widths, one NUMA domain."""
    sys = Sys(root)
    sys.numa(0, "0-31")
    for number in (6, 7):
        sys.gpu(f"pci0000:00/0000:00:{number:02x}.0", numa=-1, width=0, now=("Unknown", 0))
    sys.pci("pci0000:00/0000:00:03.0", numa=-1, pci_class="0x020000", vendor="0x1af4")
    sys.net("eth0", "pci0000:00/0000:00:03.0", speed="-1")
    return sys


def h200_vm_nvml() -> FakeNvml:
    links = dict.fromkeys(range(18), (SWITCH, HIDDEN))
    buses = ("0000:00:06.0", "0000:00:07.0")
    gpus = [FakeGpu(bus, name="NVIDIA H200", links=links) for bus in buses]
    return FakeNvml(gpus, levels={buses: 30})


def test_a_flat_virtual_machine_hides_its_switches_and_says_so(tmp_path: Path) -> None:
    found = seen(h200_vm(tmp_path), h200_vm_nvml())
    assert kinds(found.fabric) == {"gpu": 2, "nic": 1, "nvswitch": 1, "host_bridge": 1, "cpu": 1}
    assert cell(found.fabric, "gpu0", "gpu1") == "NV18"
    assert codes(found) == ["nvswitch_hidden"]
    assert "as one" in str(found.fabric.of_kind("nvswitch")[0].model)
    assert [d.numa for d in found.fabric.of_kind("gpu")] == [0, 0]  # the only domain there is
    assert rates(found.fabric, "gpu0", "host_bridge") == [(None, None, 1)]  # no width: unknown


def test_nvml_tells_the_width_that_a_virtual_machine_hides(tmp_path: Path) -> None:
    nvml = h200_vm_nvml()
    nvml.nvmlDeviceGetMaxPcieLinkGeneration = lambda gpu: 5  # type: ignore[attr-defined]
    nvml.nvmlDeviceGetMaxPcieLinkWidth = lambda gpu: 16  # type: ignore[attr-defined]
    found = seen(h200_vm(tmp_path), nvml)
    assert rates(found.fabric, "gpu0", "host_bridge") == [(48.0, 63.02, 1)]


def test_nvml_that_contradicts_sys_is_a_finding(tmp_path: Path) -> None:
    nvml = h200_vm_nvml()
    nvml.levels = {("0000:00:06.0", "0000:00:07.0"): 50}
    found = seen(h200_vm(tmp_path), nvml)
    assert codes(found) == ["nvswitch_hidden", "pci_distance_disagrees"]
    assert found.findings[1].evidence == ("n0/gpu0 and n0/gpu1: PHB by /sys, SYS by NVML",)


def pcie_box(root: Path) -> Sys:
    """Two sockets with two root complexes each; two root ports of each hold a GPU."""
    sys = Sys(root)
    sys.numa(0, "0-15")
    sys.numa(1, "16-31")
    for bus in (0x00, 0x20, 0x80, 0xA0):
        for port in (1, 3):
            root_port = f"pci0000:{bus:02x}/0000:{bus:02x}:0{port}.1"
            sys.gpu(f"{root_port}/0000:{bus + port:02x}:00.0", numa=bus // 0x80, speed=GEN4)
    return sys


def test_one_root_complex_is_phb_and_two_of_one_socket_are_node(tmp_path: Path) -> None:
    found = seen(pcie_box(tmp_path))
    row = [cell(found.fabric, "gpu0", f"gpu{i}") for i in range(1, 8)]
    assert row == ["PHB", "NODE", "NODE", "SYS", "SYS", "SYS", "SYS"]
    assert kinds(found.fabric) == {"gpu": 8, "host_bridge": 4, "cpu": 2}
    assert rates(found.fabric, "gpu0", "host_bridge") == [(24.0, 31.51, 1)]


def test_between_sockets_nccls_figure_for_the_cpu_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sys = pcie_box(tmp_path)
    sys.write(
        "cpuinfo", "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 207\nmodel name\t: Xeon"
    )
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    found = seen(sys)
    assert {x.GBps for x in found.fabric.links if x.link_class == "upi"} == {40.0}
    assert {d.model for d in found.fabric.of_kind("cpu")} == {"Xeon"}


def test_half_the_lanes_are_a_finding_and_half_the_bandwidth(tmp_path: Path) -> None:
    sys = pcie_box(tmp_path)
    sys.write("bus/pci/devices/0000:01:00.0/current_link_width", "8")
    found = seen(sys)
    assert codes(found) == ["pcie_narrow"]
    assert found.findings[0].severity == "warning"
    assert "n0/gpu0 (0000:01:00.0) runs on 8 lanes; it can do 16" in found.findings[0].evidence[0]
    assert rates(found.fabric, "gpu0", "host_bridge") == [(12.0, 15.75, 1)]


def test_an_x16_card_in_an_x8_slot_is_narrow_too(tmp_path: Path) -> None:
    sys = pcie_box(tmp_path)
    for function in ("0000:00:01.1", "0000:01:00.0"):
        sys.write(f"bus/pci/devices/{function}/current_link_width", "8")
    sys.write("bus/pci/devices/0000:00:01.1/max_link_width", "8")
    found = seen(sys)
    assert codes(found) == ["pcie_narrow"]
    assert "its slot 8" in found.findings[0].evidence[0]


def test_one_card_with_two_functions_is_narrow_twice_and_its_slot_is_silent(tmp_path: Path) -> None:
    sys = dgx_h100(tmp_path)
    for function in (0, 1):
        sys.write(f"bus/pci/devices/0000:51:00.{function}/current_link_width", "8")
    found = seen(sys, dgx_nvml())
    assert [f.evidence[0].split()[0] for f in found.findings] == ["n0/mlx5_1", "n0/mlx5_2"]


def test_a_machine_is_described_by_what_it_holds(tmp_path: Path) -> None:
    sys = dgx_h100(tmp_path)
    sys.write("cpuinfo", "model name\t: Xeon 8480C")
    text = seen(sys, dgx_nvml()).fabric.description
    assert text == "8 NVIDIA H100 80GB HBM3, 12 NICs, Xeon 8480C"


def test_an_idle_gpus_slow_link_is_a_remark_and_costs_nothing(tmp_path: Path) -> None:
    sys = pcie_box(tmp_path)
    sys.write("bus/pci/devices/0000:01:00.0/current_link_speed", "2.5 GT/s PCIe")
    found = seen(sys)
    assert [(f.code, f.severity) for f in found.findings] == [("pcie_slow", "info")]
    assert rates(found.fabric, "gpu0", "host_bridge")[0][0] == 24.0


def test_a_nics_slow_link_is_a_warning_and_costs_bandwidth(tmp_path: Path) -> None:
    sys = Sys(tmp_path)
    sys.numa(0, "0-7")
    sys.rdma("mlx5_0", "pci0000:00/0000:00:01.0/0000:01:00.0", now=("8.0 GT/s PCIe", 16))
    found = seen(sys)
    assert [(f.code, f.severity) for f in found.findings] == [("pcie_slow", "warning")]
    assert rates(found.fabric, "mlx5_0", "host_bridge")[0][0] == 12.0


def test_a_laptop_without_anything_is_its_cpu(tmp_path: Path) -> None:
    sys = Sys(tmp_path)
    sys.numa(0, "0-7")
    sys.pci("pci0000:00/0000:00:02.0", pci_class="0x030000", vendor="0x8086")  # integrated graphics
    sys.pci("pci0000:00/0000:00:14.3", pci_class="0x028000", vendor="0x8086")
    sys.net("wlan0", "pci0000:00/0000:00:14.3")
    (sys.root / "class/net/wlan0/wireless").mkdir()
    found = seen(sys)
    assert kinds(found.fabric) == {"cpu": 1}
    assert codes(found) == []


def test_an_empty_sys_gives_an_empty_fabric_and_says_why(tmp_path: Path) -> None:
    found = seen(Sys(tmp_path))
    assert found.fabric.devices == ()
    assert "names no NUMA domain" in found.facts["notes"][0]


def test_unknown_numa_domains_are_neither_guessed_nor_joined(tmp_path: Path) -> None:
    sys = pcie_box(tmp_path)
    for device in (sys.root / "bus/pci/devices").iterdir():
        (device / "numa_node").write_text("-1\n")
    found = seen(sys)
    assert codes(found) == ["numa_unknown"] * 4
    assert [cell(found.fabric, "gpu0", f"gpu{i}") for i in (1, 2, 4)] == ["PHB", "SYS", "SYS"]
    assert {d.numa for d in found.fabric.of_kind("gpu")} == {None}


def test_nvmls_memory_affinity_tells_a_numa_domain_that_sys_hides(tmp_path: Path) -> None:
    sys = pcie_box(tmp_path)
    (sys.root / "bus/pci/devices/0000:81:00.0/numa_node").write_text("-1\n")
    gpus = [FakeGpu("0000:81:00.0", memory_affinity=[0b10]), FakeGpu("0000:01:00.0")]
    found = seen(sys, FakeNvml(gpus))
    by_bus = {d.pci: d.numa for d in found.fabric.of_kind("gpu")}
    assert (by_bus["0000:81:00.0"], by_bus["0000:01:00.0"]) == (1, 0)


def test_gpus_that_only_the_bus_shows_are_said_to_be_hidden(tmp_path: Path) -> None:
    nvml = dgx_nvml()
    nvml.gpus = nvml.gpus[:6]  # a device cgroup
    found = seen(dgx_h100(tmp_path), nvml)
    assert kinds(found.fabric)["gpu"] == 8
    assert codes(found) == ["gpu_not_shown"] * 2
    assert len(found.facts["notes"]) == 2


def test_a_gpu_with_fewer_links_than_its_siblings_is_an_error(tmp_path: Path) -> None:
    nvml = dgx_nvml()
    nvml.gpus[7].links = {**to_switches(), 3: None, 17: None}
    found = seen(dgx_h100(tmp_path), nvml)
    assert [(f.code, f.severity) for f in found.findings] == [("nvlink_down", "error")]
    assert "n0/gpu0 has 16 active NVLinks (down: 3, 17)" in found.findings[0].evidence[0]
    assert cell(found.fabric, "gpu0", "gpu1") == "NV16"


def test_a_bridge_of_two_gpus_links_them_directly(tmp_path: Path) -> None:
    sys = pcie_box(tmp_path)
    pair = ("0000:01:00.0", "0000:03:00.0")
    gpus = [
        FakeGpu(bus, name="NVIDIA A100 80GB PCIe", capability=(8, 0),
                links=dict.fromkeys(range(12), (0, f"0000{pair[1 - k]}")), link_MBps=25000)
        for k, bus in enumerate(pair)
    ]  # fmt: skip
    found = seen(sys, FakeNvml(gpus))
    assert cell(found.fabric, "gpu0", "gpu1") == "NV12"
    assert [(x.GBps, x.multiplicity) for x in found.fabric.links if x.link_class == "nvlink"] == [
        (20.0, 12)
    ] * 2


def test_a_peer_outside_the_cgroup_is_said_to_be_unseen(tmp_path: Path) -> None:
    gpus = [FakeGpu("0000:01:00.0", links={0: (0, "00000000:FE:00.0")})]
    found = seen(pcie_box(tmp_path), FakeNvml(gpus))
    assert "nvlink_peer_unseen" in codes(found)


def test_grace_is_joined_by_c2c(tmp_path: Path) -> None:
    sys = Sys(tmp_path)
    sys.numa(0, "0-71")
    sys.numa(2, "")  # the GPU's memory: a domain without cores
    sys.gpu("pci0009:00/0009:00:00.0/0009:01:00.0", numa=0)
    gpus = [FakeGpu("0009:01:00.0", name="NVIDIA GH200 480GB", c2c=(10, 44712))]
    found = seen(sys, FakeNvml(gpus))
    assert kinds(found.fabric) == {"gpu": 1, "host_bridge": 1, "cpu": 1}
    links = [x for x in found.fabric.links if x.link_class == "c2c"]
    assert [(x.GBps, x.multiplicity) for x in links] == [(44.712, 10)] * 2


def test_a_container_without_a_pci_tree_still_has_nvmls_distances(tmp_path: Path) -> None:
    sys = Sys(tmp_path)
    sys.numa(0, "0-7")
    buses = [f"0000:{i:02x}:00.0" for i in range(1, 7)]
    words = {(0, 1): 10, (0, 2): 20, (1, 2): 20, (3, 4): 10}
    levels = {
        (buses[a], buses[b]): words.get((a, b), 30 if b < 5 else 40)
        for a in range(6)
        for b in range(a + 1, 6)
    }
    found = seen(sys, FakeNvml([FakeGpu(bus) for bus in buses], levels=levels))
    row = [cell(found.fabric, "gpu0", f"gpu{i}") for i in range(1, 6)]
    assert row == ["PIX", "PXB", "PHB", "PHB", "NODE"]
    assert cell(found.fabric, "gpu3", "gpu4") == "PIX"
    assert codes(found) == []
    assert "does not say where GPUs" in found.facts["notes"][0]


GARBAGE = ("", "\x00\x01\xff", "99999999999999999999999", "-", "0x", "NaN", "Unknown", "a\nb" * 9)


@pytest.mark.parametrize("garbage", GARBAGE)
def test_garbage_in_every_file_is_never_a_traceback(tmp_path: Path, garbage: str) -> None:
    sys = dgx_h100(tmp_path)
    for file in (sys.root).rglob("*"):
        if file.is_file() and file.name not in ("vendor", "class"):
            file.write_text(garbage)
    found = seen(sys, dgx_nvml())
    assert kinds(found.fabric)["gpu"] == 8
    assert {x.GBps for x in found.fabric.links if x.link_class == "pcie"} == {None}


@pytest.mark.parametrize(
    "name", ["numa_node", "class", "max_link_speed", "node_guid", "cpulist", "rate"]
)
def test_missing_files_are_never_a_traceback(tmp_path: Path, name: str) -> None:
    sys = dgx_h100(tmp_path)
    for file in list(sys.root.rglob(name)):
        if file.is_file():
            file.unlink()
    assert kinds(seen(sys, dgx_nvml()).fabric)["gpu"] == 8


def test_this_machine_can_be_seen_whatever_it_is() -> None:
    facts = read_machine()
    assert facts.host
    assert len(fabric_from_machine(facts).fabric.of_kind("gpu")) == len(facts.gpus)


def test_an_interface_called_like_a_gpu_keeps_the_names_apart(tmp_path: Path) -> None:
    sys = pcie_box(tmp_path)
    path = "pci0000:e0/0000:e0:01.0/0000:e1:00.0"
    sys.pci(path, pci_class="0x020000", vendor="0x15b3", speed=GEN5)
    sys.net("gpu0", path)
    assert seen(sys).fabric.device("n0/nic-gpu0").interface == "gpu0"


def test_bus_numbers_used_by_the_made_up_dgx_do_not_overlap() -> None:
    buses = [below(bus, i).rpartition("/")[2] for bus in DGX_BUSES for i in (0, 1)]
    assert len(set(buses)) == 16
