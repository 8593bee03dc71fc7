"""NCCL's topology XML as a fabric."""

from __future__ import annotations

import csv

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.importing.imported import Imported, NotAFabricError
from clusterlab.topology.importing.nccl_xml import read_nccl_xml
from tests.formats.nccl_examples import TOPOLOGY
from tests.support import shared_dir
from tests.topology.importing.mangled import mangled


def read(text: str = TOPOLOGY) -> Imported:
    return read_nccl_xml(text, file="topo.xml")


def changed(*pairs: tuple[str, str]) -> str:
    text = TOPOLOGY
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new, 1)
    return text


def rates(fabric: Fabric) -> dict[str, tuple[str, float | None, float | None, int]]:
    return {
        link.name: (link.link_class, link.GBps, link.wire_GBps, link.multiplicity)
        for link in fabric.links
    }


def codes(imported: Imported) -> dict[str, tuple[str, ...]]:
    return {finding.code: finding.evidence for finding in imported.findings}


def test_a_dump_is_one_host_with_its_pci_tree() -> None:
    fabric = read().fabric
    assert [(d.name, d.kind, d.model, d.numa) for d in fabric.devices] == [
        ("n0/gpu0", "gpu", "H100-SXM5-80GB", 0),
        ("n0/gpu1", "gpu", "H100-SXM5-80GB", 1),
        ("n0/nic0", "nic", "ConnectX-7", 0),
        ("n0/nic1", "nic", None, 0),
        ("n0/cpu0", "cpu", "x86_64 GenuineIntel 6/143", 0),
        ("n0/cpu1", "cpu", "x86_64 GenuineIntel 6/143", 1),
        ("n0/pcie0", "pcie_switch", "pci 1000:c030 1000:1003", 0),
        ("n0/nvswitch0", "nvswitch", None, None),
        ("n0/nvswitch1", "nvswitch", None, None),
        ("network", "external", None, None),
    ]
    assert fabric.device("n0/nic0").interface == "mlx5_0"
    assert fabric.device("n0/nic0").guid == "0xabc"
    assert fabric.device("n0/nvswitch0").pci == "0000:06:00.0"


def test_rates_are_what_nccl_counts() -> None:
    found = rates(read().fabric)
    assert found["n0/gpu0->n0/pcie0"] == ("pcie", 48.0, 63.02, 1)
    assert found["n0/cpu1->n0/gpu1"] == ("pcie", 24.0, 31.51, 1)
    assert found["n0/gpu0->n0/nvswitch0"] == ("nvlink", 20.6, 25.0, 13)
    assert found["n0/nvswitch1->n0/gpu0"] == ("nvlink", 20.6, 25.0, 5)
    assert found["n0/nic0->network"] == ("ib", 50.0, None, 1)
    assert found["network->n0/nic1"] == ("network", 1.25, None, 1)
    assert found["n0/nic1->n0/cpu0"] == ("pcie", None, None, 1)
    assert found["n0/cpu0->n0/cpu1"] == ("upi", 22.0, None, 1)
    assert all(link.latency_us is None for link in read().fabric.links)
    assert all(link.GBps_source for link in read().fabric.links if link.GBps is not None)


def test_a_narrow_slot_and_a_front_end_port_are_found() -> None:
    assert codes(read()) == {
        "pcie_half_width": ("n0/gpu1 (0000:9b:00.0): 8 lanes, 24 of 48 GB/s",),
        "front_end_port": ("n0/nic1 (eth0): 10 Gb/s beside 400 Gb/s",),
    }


@pytest.mark.parametrize(
    ("speed", "code"),
    [
        ("400000000", "net_speed_unit_slip"),
        ("400", "net_speed_unit_slip"),
        ("0", "net_speed_missing"),
        ("-1", "net_speed_missing"),
    ],
)
def test_a_speed_in_another_unit_or_none_gives_no_rate(speed: str, code: str) -> None:
    found = read(changed(('speed="400000"', f'speed="{speed}"')))
    assert rates(found.fabric)["n0/nic0->network"][1] is None
    assert f"speed {speed}" in codes(found)[code][0]


def test_a_reduced_speed_is_taken_as_written() -> None:
    found = read(changed(('speed="400000"', 'speed="180000"')))
    assert rates(found.fabric)["n0/nic0->network"][1] == 22.5


def test_a_missing_pcie_rate_is_unknown_and_says_what_nccl_will_count() -> None:
    found = read(
        changed(
            ('link_speed="32.0 GT/s PCIe" link_width="8"', 'link_speed="" link_width="0"'),
            (
                'link_speed="32.0 GT/s PCIe" link_width="16"',
                'link_speed="16.0 GT/s" link_width="16"',
            ),
        )
    )
    assert rates(found.fabric)["n0/gpu1->n0/cpu1"][1:3] == (None, None)
    assert rates(found.fabric)["n0/pcie0->n0/cpu0"][1] == 24.0
    told = codes(found)
    assert told["pcie_rate_unknown"] == (
        "n0/gpu1 (0000:9b:00.0): link_speed '', link_width 0; NCCL counts 12 GB/s",
    )
    assert told["pcie_speed_misread"] == (
        "n0/pcie0 (0000:10:00.0): '16.0 GT/s', which NCCL reads as 8 GT/s",
    )
    assert told["pcie_uplink_slow"] == (
        "n0/pcie0 (0000:10:00.0): 24 GB/s up, 48 GB/s to a device below",
    )


MESH = """<system version="2">
  <cpu numaid="0" arch="x86_64" vendor="AuthenticAMD" familyid="175" modelid="1">
    <pci busid="0000:03:00.0" class="0x120000" vendor="0x1002" device="0x74a1" link_speed="32.0 GT/s PCIe" link_width="16">
      <gpu dev="0" sm="304" gcn="942" arch="38911" rank="0" gdr="1">
        <xgmi target="0000:83:00.0" count="2" tclass="0x120000"/>
        <xgmi target="0000:99:00.0" count="1" tclass="0x038000"/>
        <c2c bw="44000" count="10"/>
      </gpu>
    </pci>
    <pci busid="0000:83:00.0" class="0x038000" vendor="0x1002" device="0x0bad" link_speed="32.0 GT/s PCIe" link_width="16">
      <gpu dev="1" sm="304" gcn="942" arch="38911" rank="1" gdr="1">
        <xgmi target="0000:03:00.0" count="1" tclass="0x120000"/>
        <nvlink target="0000:00:00.0" count="3" tclass="0x068001"/>
      </gpu>
    </pci>
  </cpu>
</system>
"""  # noqa: E501


def test_meshes_and_links_to_the_cpu() -> None:
    found = read(MESH)
    links = rates(found.fabric)
    assert links["n0/gpu0->n0/gpu1"] == ("xgmi", 48.0, None, 2)
    assert links["n0/gpu1->n0/gpu0"] == ("xgmi", 48.0, None, 1)
    classes = {
        (k.src, k.dst): (k.GBps, k.multiplicity)
        for k in found.fabric.links
        if k.link_class == "c2c"
    }
    assert classes == {
        ("n0/gpu0", "n0/cpu0"): (44.0, 10),
        ("n0/cpu0", "n0/gpu0"): (44.0, 10),
    }
    to_cpu = [k for k in found.fabric.links if k.link_class == "nvlink"]
    assert {(k.src, k.dst, k.multiplicity) for k in to_cpu} == {
        ("n0/gpu1", "n0/cpu0", 3),
        ("n0/cpu0", "n0/gpu1", 3),
    }
    assert [found.fabric.device(f"n0/gpu{i}").model for i in (0, 1)] == ["MI300X", "gfx942"]


def test_one_sided_links_unknown_targets_and_rccls_version_are_found() -> None:
    told = codes(read(MESH))
    assert told["nvlink_target_unknown"] == (
        "line 6: 1 links of n0/gpu0 to 0000:99:00.0, class 0x038000, which is no GPU of this file",
    )
    assert told["nvlink_one_sided"] == (
        "n0/gpu0 lists 2 links to n0/gpu1, which lists 1",
        "n0/gpu1 lists 1 links to n0/gpu0, which lists 2",
    )
    assert "rccl_topology" in told


STATIC = """<system version="1">
  <cpu numaid="1">
    <pci busid="ffff:ff:01.0" class="0x060400" link_speed="16 GT/s" link_width="16">
      <pci busid="0002:00:00.0" class="0x030200" link_speed="16 GT/s" link_width="16"/>
      <pci busid="0101:00:00.0" class="0x020700" link_speed="16 GT/s" link_width="16"/>
    </pci>
    <pci busid="0001:00:00.0" class="0x030200"/>
    <pci busid="0000:00:16.0"/>
    <pci busid="0000:00:17.0" class="0x010802"/>
  </cpu>
  <cpu numaid="-1">
    <pci busid="0001:00:00.0" class="0x020000"><nic><net dev="4" speed="100000"/></nic></pci>
  </cpu>
</system>
"""


def test_devices_by_class_count_though_nccl_fills_them_in() -> None:
    found = read(STATIC)
    assert [(d.name, d.pci) for d in found.fabric.of_kind("gpu")] == [
        ("n0/gpu0", "0001:00:00.0"),
        ("n0/gpu1", "0002:00:00.0"),
    ]
    assert [d.name for d in found.fabric.of_kind("nic")] == ["n0/nic0", "n0/nic4"]
    assert found.facts["filled_in_by_nccl"] == {
        "n0/gpu0": "class 0x030200, no <gpu>",
        "n0/gpu1": "class 0x030200, no <gpu>",
        "n0/nic0": "class 0x020700, no <net>",
        "n0/pci0": "no class",
    }
    told = codes(found)
    assert told["duplicate_bus_id"] == ("0001:00:00.0 on lines 7, 12",)
    assert told["numa_unknown"] == ("line 11: numaid -1 names no domain of its own",)
    assert found.fabric.device("n0/cpu0").numa is None
    assert found.fabric.device("n0/pci1").model == "pci class 0x010802"


def test_hosts_that_nccl_fused_share_the_nvlink_switch() -> None:
    host = '<cpu host_hash="{}" numaid="0"><pci busid="0008:01:00.0" class="0x030200">'
    gpu = '<gpu dev="0" sm="100" rank="{}"><nvlink target="fffffff:ffff:ff" count="18" '
    end = 'tclass="0x068000"/></gpu></pci></cpu>'
    text = "".join(host.format(f"0x{i}") + gpu.format(i) + end for i in (1, 2))
    fabric = read(f'<system version="1">{text}</system>').fabric
    assert fabric.hosts == ("n0", "n1")
    (switch,) = fabric.of_kind("nvswitch")
    assert switch.host is None
    assert {link.src for link in fabric.links_to(switch.name)} == {"n0/gpu0", "n1/gpu0"}
    assert {link.GBps for link in fabric.links_to(switch.name)} == {40.1}


def test_rails_and_planes_come_from_the_file_only() -> None:
    assert read().fabric.device("n0/nic0").rail is None
    found = read(changed(('name="mlx5_0"', 'rail="3" plane="1" name="mlx5_0"')))
    assert found.fabric.device("n0/nic0").rail == 3
    assert found.fabric.device("n0/nic0").plane == 1


def test_a_graph_file_is_refused_as_what_it_is() -> None:
    text = (
        '<graphs version="1"><graph id="0" pattern="4" crossnic="0" nchannels="1" speedintra="1" '
        'speedinter="1" typeintra="NVL" typeinter="PIX" samechannels="1"><channel><gpu dev="0"/>'
        "</channel></graph></graphs>"
    )
    with pytest.raises(NotAFabricError, match="NCCL's graph file: 1 results") as caught:
        read(text)
    assert (caught.value.kind, caught.value.refused) == ("nccl_xml", "not_a_fabric")
    assert caught.value.facts == {"graphs": 1, "channels": 1}


@given(st.sampled_from([TOPOLOGY, MESH, STATIC]).flatmap(mangled))
def test_damaged_files_are_read_or_refused(text: str) -> None:
    try:
        imported = read(text)
    except UsageError as error:
        assert error.where is not None
        assert error.where.startswith("topo.xml")
    else:
        assert imported.fabric.devices


def test_every_sample_is_what_is_stated() -> None:
    samples = shared_dir() / "samples"
    checked = 0
    for stated in csv.DictReader((samples / "expect.csv").read_text().splitlines()):
        if stated["kind"] != "nccl_xml":
            continue
        text = (samples / stated["path"]).read_text()
        checked += 1
        if stated["expected"] != "import":
            with pytest.raises(NotAFabricError) as caught:
                read(text)
            assert caught.value.refused == stated["expected"]
            continue
        fabric = read(text).fabric
        for column, kind in (("gpus", "gpu"), ("nics", "nic")):
            if stated[column]:
                assert len(fabric.of_kind(kind)) == int(stated[column]), stated["path"]  # type: ignore[arg-type]
        by_class = {kind: sum(d.kind == kind for d in fabric.devices) for kind in ("gpu", "nic")}
        note = f"GPU-like {by_class['gpu']}, NIC-like {by_class['nic']}"
        assert "by class" not in stated["notes"] or note in stated["notes"], stated["path"]
    assert checked > 50
