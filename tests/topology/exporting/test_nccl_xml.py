"""A host as NCCL's topology XML, and back."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given

from clusterlab.core.errors import UsageError
from clusterlab.formats.nccl_xml import parse_nccl_xml
from clusterlab.topology.design.load import list_designs, load_fabric
from clusterlab.topology.exporting.nccl_xml import to_nccl_xml
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.importing.nccl_xml import read_nccl_xml
from clusterlab.topology.parts import Device, Link
from tests.formats.nccl_examples import TOPOLOGY
from tests.support import shared_dir
from tests.topology.importing.hosts import hosts

WRITTEN = """\
<system version="1">
  <cpu numaid="0" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:10:00.0" class="0x060400" vendor="0x1000" device="0xc030" subsystem_vendor="0x1000" subsystem_device="0x1003" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:1b:00.0" class="0x030200" vendor="0x10de" device="0x2330" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="90" rank="0">
          <nvlink target="0000:07:00.0" count="5" tclass="0x068000"/>
          <nvlink target="0000:06:00.0" count="13" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:18:00.0" class="0x020700" vendor="0x15b3" device="0x1021" link_speed="32.0 GT/s PCIe" link_width="16">
        <nic>
          <net name="mlx5_0" dev="0" speed="400000" guid="0xabc"/>
        </nic>
      </pci>
    </pci>
    <nic>
      <net name="eth0" dev="1" speed="10000"/>
    </nic>
  </cpu>
  <cpu numaid="1" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:9b:00.0" class="0x030200" vendor="0x10de" device="0x2330" link_speed="16.0 GT/s PCIe" link_width="16">
      <gpu dev="1" sm="90" rank="1">
        <nvlink target="0000:06:00.0" count="13" tclass="0x068000"/>
        <nvlink target="0000:07:00.0" count="5" tclass="0x068000"/>
      </gpu>
    </pci>
  </cpu>
</system>
"""  # noqa: E501 - NCCL writes one element a line


def read(text: str) -> Fabric:
    return read_nccl_xml(text, file="topo.xml").fabric


def assert_same(a: Fabric, b: Fabric) -> None:
    assert set(a.devices) == set(b.devices)
    assert set(a.links) == set(b.links)


def with_links(fabric: Fabric, health: dict[str, float]) -> Fabric:
    links = [replace(k, health=health.get(k.name, k.health)) for k in fabric.links]
    return replace(fabric, links=tuple(links))


def test_the_text_is_what_nccl_reads() -> None:
    text = to_nccl_xml(read(TOPOLOGY))
    body = text.partition("-->\n")[2]
    assert body == WRITTEN
    assert parse_nccl_xml(text, file="f").unreadable == ()


def test_a_round_trip_changes_nothing() -> None:
    fabric = read(TOPOLOGY)
    assert_same(read(to_nccl_xml(fabric)), fabric)


def test_every_sample_makes_the_round_trip_unchanged() -> None:
    folder = shared_dir()
    files = sorted((folder / "samples/nccl_xml").rglob("*.xml"))
    files.append(folder / "measured/h200x2/topo.xml")
    checked = 0
    for path in files:
        text = path.read_text()
        if "<graphs" not in text:
            fabric = read(text)
            assert_same(read(to_nccl_xml(fabric)), fabric)
            checked += 1
    assert checked > 50


@pytest.mark.parametrize("name", list_designs())
def test_every_design_with_gpus_reaches_a_fixed_point_with_the_same_links(name: str) -> None:
    design = load_fabric(name)
    host = design.hosts[0]
    if not design.on_host(host, "gpu"):
        with pytest.raises(UsageError, match="has no PCI devices"):
            to_nccl_xml(design)
        return
    once = read(to_nccl_xml(design, host))
    assert [d.name for d in once.of_kind("gpu")] == [
        f"n0/{d.name.rpartition('/')[2]}" for d in design.on_host(host, "gpu")
    ]
    assert len(once.of_kind("nic")) == len(design.on_host(host, "nic"))
    for gpu in design.on_host(host, "gpu"):
        local = gpu.name.rpartition("/")[2]
        assert _fast_links(once, f"n0/{local}") == _fast_links(design, gpu.name)
    assert_same(read(to_nccl_xml(once)), once)


def _fast_links(fabric: Fabric, gpu: str) -> list[tuple[str, int]]:
    """Links of one GPU inside its host: the kind of what is there, and how many."""
    host = fabric.host_of(gpu)
    return sorted(
        (fabric.device(k.dst).kind, k.multiplicity)
        for k in fabric.links_from(gpu)
        if k.link_class in {"nvlink", "xgmi"}
        and (fabric.device(k.dst).kind != "gpu" or fabric.host_of(k.dst) == host)
    )


@given(hosts())
def test_made_up_hosts_keep_their_tree_and_links(fabric: Fabric) -> None:
    kinds = {d.kind for d in fabric.devices}
    if not kinds & {"gpu", "nic"}:
        return
    once = read(to_nccl_xml(fabric))
    for kind in ("gpu", "nic", "pcie_switch", "cpu"):
        assert len(once.of_kind(kind)) == len(fabric.of_kind(kind))  # type: ignore[arg-type]
    for gpu in fabric.of_kind("gpu"):
        assert _fast_links(once, gpu.name) == _fast_links(fabric, gpu.name)
        assert once.device(gpu.name).numa == gpu.numa
    assert_same(read(to_nccl_xml(once)), once)


def test_made_up_bus_ids_are_told_and_meet_no_real_one() -> None:
    devices = [
        Device("n0/cpu0", "cpu", "n0", numa=0),
        Device("n0/gpu0", "gpu", "n0", model="sm_90"),
        Device("n0/gpu1", "gpu", "n0", model="sm_90", pci="FFFF:00:00.0"),
        Device("n0/gpu2", "gpu", "n0", model="sm_90", pci="00000000:1B:00.0"),
    ]
    fabric = Fabric("f", tuple(devices), ())
    text = to_nccl_xml(fabric)
    assert re.findall(r'busid="([^"]+)"', text) == ["ffff:00:01.0", "ffff:00:00.0", "0000:1b:00.0"]
    assert "gpu0=ffff:00:01.0" in text
    assert "gpu1=" not in text


def test_a_pcie_link_at_half_its_width_is_written_so() -> None:
    fabric = read(TOPOLOGY)
    half = with_links(fabric, {"n0/gpu0->n0/pcie0": 0.5, "n0/pcie0->n0/gpu0": 0.5})
    found = {k.name: k.GBps for k in read(to_nccl_xml(half)).links}
    assert found["n0/gpu0->n0/pcie0"] == 24.0
    assert found["n0/pcie0->n0/cpu0"] == 48.0


def test_what_is_down_is_left_out() -> None:
    fabric = read(TOPOLOGY)
    down = {k.name: 0.0 for k in fabric.links if "n0/gpu1" in (k.src, k.dst)}
    down |= {"n0/gpu0->n0/nvswitch0": 7 / 13, "n0/gpu0->n0/nvswitch1": 0.5}
    down |= {
        k.name: 0.0 for k in fabric.links if "n0/nic0" in (k.src, k.dst) and "network" in k.name
    }
    text = to_nccl_xml(with_links(fabric, down))
    assert "Left out, all their links are down: n0/gpu1" in text
    assert "Rounded down to whole links: n0/gpu0->n0/nvswitch1".replace("->", "-_") in text
    after = read(text)
    assert [d.name for d in after.of_kind("gpu")] == ["n0/gpu0"]
    assert {k.dst: k.multiplicity for k in after.links_from("n0/gpu0")} == {
        "n0/pcie0": 1,
        "n0/nvswitch0": 7,
        "n0/nvswitch1": 2,
    }
    assert not [k for k in after.links_from("n0/nic0") if k.dst == "network"]


def test_hosts_that_differ_need_a_name() -> None:
    devices = [
        Device(f"{h}/gpu{i}", "gpu", h, model="A100")
        for h, n in (("a", 1), ("b", 2))
        for i in range(n)
    ]
    fabric = Fabric("two", tuple(devices), ())
    with pytest.raises(UsageError, match="hosts a and b differ"):
        to_nccl_xml(fabric)
    assert to_nccl_xml(fabric, "b").count("<gpu ") == 2
    with pytest.raises(UsageError, match="unknown host"):
        to_nccl_xml(fabric, "c")


def test_a_name_that_xml_cannot_hold_is_refused() -> None:
    nic = Device("n0/nic0", "nic", "n0", interface='a"b')
    leaf = Device("leaf0", "leaf")
    fabric = Fabric("f", (nic, leaf), (Link("n0/nic0", "leaf0", "ib", 50.0),))
    with pytest.raises(UsageError, match="cannot stand in NCCL's XML"):
        to_nccl_xml(fabric)


def test_amd_hosts_are_written_in_rccls_version() -> None:
    text = to_nccl_xml(load_fabric("mi300x"))
    assert '<system version="2">' in text
    assert '<gpu dev="0" gcn="gfx942" rank="0">' in text
    assert text.count("<xgmi ") == 8 * 7


@pytest.mark.parametrize("design", ["alps-gh200", "gb200-nvl72"])
def test_a_signalling_rate_of_c2c_is_not_written_as_what_software_gets(design: str) -> None:
    text = to_nccl_xml(load_fabric(design), "n0")
    assert "<c2c" not in text
    head = text.partition("-->")[0]
    assert "C2C left out" in head
    assert "n0/gpu0 n0/gpu1 n0/gpu2 n0/gpu3" in head


def test_a_known_rate_of_c2c_comes_back() -> None:
    fabric = load_fabric("alps-gh200")
    known = tuple(replace(x, GBps=400.0) if x.link_class == "c2c" else x for x in fabric.links)
    text = to_nccl_xml(replace(fabric, links=known), "n0")
    assert text.count('<c2c bw="400000" count="1"/>') == 4
    assert "left out" not in text
    assert {x.GBps for x in read(text).links if x.link_class == "c2c"} == {400.0}
