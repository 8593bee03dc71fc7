"""Shipped designs against published figures and real `nvidia-smi topo -m` matrices."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from clusterlab.core.shipped import shipped
from clusterlab.formats.topo_m import parse_topo_m
from clusterlab.topology.checks.ports import cages, ports
from clusterlab.topology.design.load import fabric_from_yaml, list_designs, load_fabric, outline
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.matrix import topo_matrix
from clusterlab.topology.parts import Link
from clusterlab.topology.routing.fluid import route
from tests.support import shared_dir

load = cache(load_fabric)


def scale_up(fabric: Fabric, gpu: str) -> list[Link]:
    return [k for k in fabric.links_from(gpu) if k.link_class in ("nvlink", "xgmi")]


# Design, scale-up links per GPU, their signalling rate together and what software gets (GB/s per direction).
SCALE_UP = [
    ("dgx-1v", 6, 150, 120),
    ("dgx-2", 6, 150, 120),
    ("hgx-a100", 12, 300, 240),
    ("dgx-a100", 12, 300, 240),
    ("aws-p4d", 12, 300, 240),
    ("azure-ndv4", 12, 300, 240),
    ("hgx-h200", 18, 450, 370.8),
    ("dgx-h100", 18, 450, 370.8),
    ("aws-p5", 18, 450, 370.8),
    ("aws-p5en", 18, 450, 370.8),
    ("azure-ndv5", 18, 450, 370.8),
    ("gcp-a3-high", 18, 450, 370.8),
    ("gcp-a3-mega", 18, 450, 370.8),
    ("gcp-a3-ultra", 18, 450, 370.8),
    ("alps-gh200", 18, 450, 370.8),
    ("hgx-b200", 18, 900, 721.8),
    ("dgx-b200", 18, 900, 721.8),
    ("dgx-b300", 18, 900, 721.8),
    ("aws-p6-b200", 18, 900, 721.8),
    ("gb200-nvl72", 18, 900, 721.8),
    ("gb300-nvl72", 18, 900, 721.8),
    ("mi300x", 7, 448, 336),
    ("l40s-8", 0, 0, 0),
    ("a100-pcie-4", 0, 0, 0),
    ("a100-pcie-8", 0, 0, 0),
]


@pytest.mark.parametrize(("name", "count", "wire", "usable"), SCALE_UP)
def test_every_gpu_has_its_published_scale_up_bandwidth(
    name: str, count: int, wire: float, usable: float
) -> None:
    fabric = load(name)
    for gpu in fabric.of_kind("gpu"):
        links = scale_up(fabric, gpu.name)
        assert sum(k.multiplicity for k in links) == count
        assert sum(k.wire_capacity_GBps or 0 for k in links) == pytest.approx(wire)
        assert sum(k.capacity_GBps or 0 for k in links) == pytest.approx(usable)


# Design, and the network's rate per host and direction: NICs with a role compute times the wire.
NICS = [
    ("dgx-1v", 4, 12.5),
    ("dgx-2", 8, 12.5),
    ("dgx-a100", 8, 25),
    ("dgx-h100", 8, 50),
    ("dgx-b200", 8, 50),
    ("dgx-b300", 8, 100),
    ("mi300x", 8, 50),
    ("alps-gh200", 4, 25),
    ("gb200-nvl72", 4, 50),
    ("gb300-nvl72", 4, 100),
    ("aws-p4d", 4, 12.5),
    ("aws-p5", 32, 12.5),
    ("aws-p5en", 16, 25),
    ("aws-p6-b200", 8, 50),
    ("azure-ndv4", 8, 25),
    ("azure-ndv5", 8, 50),
    ("gcp-a3-high", 4, 25),
    ("gcp-a3-mega", 8, 25),
    ("gcp-a3-ultra", 8, 50),
]


@pytest.mark.parametrize(("name", "count", "wire"), NICS)
def test_a_host_has_its_published_nics_and_a_kind_of_cable_for_them(
    name: str, count: int, wire: float
) -> None:
    """The kind of cable is there for designs that take their hosts from this one."""
    nics = [d for d in outline(name).host_devices if d.kind == "nic" and d.role == "compute"]
    assert len(nics) == count
    text = (shipped("topologies") / f"{name}.yaml").read_text()
    rates = [float(line.split(":")[1]) for line in text.splitlines() if "wire_GBps" in line]
    assert wire in [rate * (nics[0].ports or 1) for rate in rates] + rates


# Matrix of a real host, the design, and whether its NICs are the sample's.
MATRICES = [
    ("dgx_h100_12nic_tabs", "dgx-h100", True),
    ("dgx_a100_12nic_partial", "dgx-a100", True),
    ("hgx_h200_gcp_a3ultra_8nic_ansi", "gcp-a3-ultra", True),
    ("v100_8gpu_vm_nic0", "dgx-1v", False),
    ("dgx2_16gpu_nv6_partial", "dgx-2", True),
]


@pytest.mark.parametrize(("sample", "name", "with_nics"), MATRICES)
def test_a_design_is_what_nvidia_smi_prints_on_such_a_host(
    sample: str, name: str, with_nics: bool
) -> None:
    path = shared_dir() / "samples" / "topo_m" / f"{sample}.txt"
    if not path.is_file():
        pytest.skip(f"no sample {sample} here")
    printed = parse_topo_m(path.read_text(), file=path.name)
    fabric = load(name)
    ours = topo_matrix(fabric, fabric.hosts[0])
    label_of = {}
    for label, device in zip(ours.labels, ours.devices, strict=True):
        if device.kind == "gpu":
            label_of[label] = label
        elif with_nics:
            label_of[device.interface or f"mlx5_{label[3:]}"] = label
    compared = 0
    for row in printed.rows:
        for column in printed.columns:
            a, b = (label_of.get(n.replace("NIC", "mlx5_")) for n in (row, column))
            cell = printed.cell(row, column)
            if a and b and cell and not _over_two_switches(name, a, b):
                assert ours.cell(a, b) == cell, (row, column)
                compared += 1
    assert compared >= 64


def _over_two_switches(name: str, a: str, b: str) -> bool:
    """GPUs of the two boards of a DGX-2, which no single switch joins."""
    on_first = [int(label[3:]) < 8 for label in (a, b) if label.startswith("GPU")]
    return name == "dgx-2" and len(on_first) == 2 and on_first[0] != on_first[1]


def test_all_gpus_of_a_dgx_2_are_six_links_apart() -> None:
    fabric = load("dgx-2")
    for far in ("n0/gpu7", "n0/gpu8", "n0/gpu15"):
        crossings = route(fabric, "n0/gpu0", far)
        assert {c.link.link_class for c in crossings} == {"nvlink"}
        leaving = [c.link for c in crossings if c.link.src == "n0/gpu0"]
        assert sum(k.multiplicity for k in leaving) == 6


def test_a_cube_mesh_leaves_three_peers_of_each_gpu_without_nvlink() -> None:
    fabric = load("dgx-1v")
    gpus = [d.name for d in fabric.of_kind("gpu")]
    for gpu in gpus:
        peers = {k.dst for k in scale_up(fabric, gpu)}
        assert len(set(gpus) - peers - {gpu}) == 3


def test_every_two_mi300x_are_joined_by_one_link() -> None:
    fabric = load("mi300x")
    pairs = Counter((k.src, k.dst) for k in fabric.links if k.link_class == "xgmi")
    assert len(pairs) == 8 * 7
    assert set(pairs.values()) == {1}
    assert not fabric.of_kind("nvswitch")


@pytest.mark.parametrize("name", ["gb200-nvl72", "gb300-nvl72"])
def test_a_rack_has_one_link_from_every_gpu_to_every_switch_chip(name: str) -> None:
    fabric = load(name)
    assert len(fabric.hosts) == 18
    gpus, chips = fabric.of_kind("gpu"), fabric.of_kind("nvswitch")
    assert (len(gpus), len(chips)) == (72, 18)
    for chip in chips:
        arriving = fabric.links_to(chip.name)
        assert {k.src for k in arriving} == {g.name for g in gpus}
        assert all(k.multiplicity == 1 for k in arriving)


def test_the_gb200_superpod_joins_eight_racks_that_share_no_switch_chip() -> None:
    fabric = load("superpod-gb200")
    racks: dict[str, set[int]] = {}
    for link in fabric.network_links:
        if link.link_class == "nvlink" and link.dst.startswith("nvswitch"):
            racks.setdefault(link.dst, set()).add(int(str(fabric.host_of(link.src))[1:]) // 18)
    assert len(racks) == 8 * 18
    assert Counter(rack for seen in racks.values() for rack in seen) == dict.fromkeys(range(8), 18)
    assert len(fabric.of_kind("gpu")) == 576
    uplinks = Counter(k.src for k in fabric.network_links if "spine" in k.dst)
    assert set(uplinks.values()) == {9}
    assert {k.multiplicity for k in fabric.network_links if "spine" in k.dst} == {2}


def test_the_nvlink_pod_tapers_two_to_one() -> None:
    fabric = load("nvlink-pod-256")
    assert (len(fabric.hosts), len(fabric.of_kind("gpu"))) == (32, 256)
    leaving: Counter[str] = Counter()
    per_switch: Counter[tuple[str, str]] = Counter()
    for link in fabric.network_links:
        host = fabric.host_of(link.src)
        if host is not None:
            leaving[host] += link.multiplicity
            per_switch[host, link.src.partition("/")[2]] += link.multiplicity
    assert set(leaving.values()) == {72}
    inside = sum(
        k.multiplicity for g in fabric.on_host("n0", "gpu") for k in scale_up(fabric, g.name)
    )
    assert inside == 2 * 72
    assert [per_switch["n0", f"nvswitch{i}"] for i in range(4)] == [20, 16, 16, 20]
    outer = [d for d in fabric.network_devices if d.kind == "nvswitch"]
    assert len(outer) == 18 * 2
    arriving = {sum(k.multiplicity for k in fabric.links_to(d.name)) for d in outer}
    assert arriving == {64}
    crossings = route(fabric, "n0/gpu0", "n31/gpu7")
    assert {c.link.link_class for c in crossings} == {"nvlink"}


def test_hpn_has_fifteen_segments_in_two_planes() -> None:
    fabric = load("alibaba-hpn")
    assert len(fabric.of_kind("gpu")) == 15 * 1024
    assert Counter(d.plane for d in fabric.of_kind("leaf")) == {0: 120, 1: 120}
    assert Counter(d.plane for d in fabric.of_kind("spine")) == {0: 60, 1: 60}
    for leaf in fabric.of_kind("leaf")[:16]:
        down = [k for k in fabric.links_from(leaf.name) if "/nic" in k.dst]
        up = [k for k in fabric.links_from(leaf.name) if "spine" in k.dst]
        assert (len(down), len(up)) == (128, 60)
        assert {fabric.device(k.dst).rail for k in down} == {leaf.rail}
    tors = {k.dst for k in fabric.links_from("n0/nic3") if k.dst.startswith("leaf")}
    assert {fabric.device(t).plane for t in tors} == {0, 1}


def test_meta_pods_have_full_bisection_and_a_seventh_between_them() -> None:
    fabric = load("meta-roce-24k")
    assert len(fabric.of_kind("gpu")) == 24576
    nics, up, across = 0, 0, 0
    for link in fabric.network_links:
        if link.dst.startswith("leaf"):
            nics += link.multiplicity if "/nic" in link.src else 0
        elif link.src.startswith("leaf") and link.dst.startswith("spine"):
            up += link.multiplicity
        elif link.dst.startswith("core"):
            across += link.multiplicity
    assert nics == 24576
    assert up == 2 * nics
    assert nics / across == pytest.approx(7, rel=0.03)
    assert {len(fabric.links_from(leaf.name)) for leaf in fabric.of_kind("leaf")[:20]} == {16 + 16}


def test_rail_only_leaves_rails_apart() -> None:
    fabric = load("rail-only")
    assert not fabric.of_kind("spine")
    for leaf in fabric.of_kind("leaf"):
        assert {k.dst.partition("/")[2] for k in fabric.links_from(leaf.name)} == {
            f"nic{leaf.rail}"
        }
        assert len(fabric.links_from(leaf.name)) == 64


def test_a_cage_of_a_dgx_h100_holds_two_rails_whose_numbers_are_not_its_mlx5_numbers() -> None:
    fabric = load("dgx-h100")
    rails = {name: tuple(nic.rail for nic in nics) for name, nics in cages(fabric).items()}
    assert rails == {
        "osfp4@n0": (0, 3),
        "osfp3@n0": (1, 2),
        "osfp1@n0": (4, 7),
        "osfp2@n0": (5, 6),
    }
    assert [d.interface for d in fabric.on_host("n0", "nic") if d.role == "storage"] == [
        "mlx5_1",
        "mlx5_2",
        "mlx5_7",
        "mlx5_8",
    ]


@pytest.mark.parametrize("name", [n for n in list_designs() if n != "host"])
def test_no_shipped_design_has_more_cables_than_ports(name: str) -> None:
    assert ports(load_fabric(name)) == []


def test_the_readme_s_example_joins_hosts_of_a_cloud() -> None:
    readme = (shipped("topologies") / "README.md").read_text()
    (example,) = [part for part in readme.split("```") if part.startswith("yaml\nname: four-p5en")]
    fabric = fabric_from_yaml(example.removeprefix("yaml\n"), file="README.md", default_name="x")
    assert len(fabric.of_kind("gpu")) == 32
    assert len(fabric.links_to("leaf0")) == 4 * 16
    assert {k.wire_GBps for k in fabric.links_to("leaf0")} == {25.0}


def test_the_schema_in_the_readme_is_a_fabric() -> None:
    readme = (shipped("topologies") / "README.md").read_text()
    (schema,) = [part for part in readme.split("```") if part.startswith("yaml\nname: my-fabric")]
    fabric = fabric_from_yaml(schema.removeprefix("yaml\n"), file="README.md", default_name="x")
    assert len(fabric.of_kind("nic")) == len(fabric.links_from("leaf3")) * 8 == 16


def test_the_readme_lists_every_design() -> None:
    readme = (shipped("topologies") / "README.md").read_text()
    listed = {
        name
        for line in readme.splitlines()
        if line.startswith("| `")
        for name in line.split("|")[1].replace("`", "").replace(",", " ").split()
    }
    assert listed == set(list_designs())
