"""InfraGraph's templates and instances as fabrics."""

from __future__ import annotations

from collections import Counter

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.topology.importing.imported import Imported
from clusterlab.topology.importing.infragraph import read_infragraph

SERVER = """
- name: server
  components:
  - {name: cpu, count: 1, choice: cpu}
  - {name: xpu, count: 2, choice: xpu}
  - {name: nvlsw, description: NVLink switch, count: 1, choice: switch}
  - {name: slot, description: PCIe slot, count: 2, choice: custom, custom: {type: riser}}
  - {name: nic, count: 2, choice: nic}
  - {name: hbm, count: 2, choice: memory}
  links:
  - {name: pcie, physical: {bandwidth: {choice: gigabytes_per_second, gigabytes_per_second: 48}}}
  - {name: nvlink}
  edges:
  - {ep1: {component: xpu}, ep2: {component: nvlsw}, scheme: many2many, link: nvlink}
  - {ep1: {component: xpu}, ep2: {component: cpu}, scheme: many2many, link: pcie}
  - {ep1: {component: cpu}, ep2: {component: slot}, scheme: many2many, link: pcie}
  - {ep1: {component: slot}, ep2: {component: nic}, scheme: one2one, link: pcie}
  - {ep1: {component: xpu}, ep2: {component: hbm}, scheme: one2one, link: pcie}
"""
SWITCH = """
- name: switch
  components: [{name: asic, count: 1, choice: cpu}, {name: port, count: 8, choice: port}]
  links: [{name: ic}]
  edges: [{ep1: {component: asic}, ep2: {component: port}, scheme: many2many, link: ic}]
"""
TWO_TIERS = f"""
devices:{SERVER}{SWITCH}
instances:
- {{name: n, device: server, count: 2}}
- {{name: leaf, device: switch, count: 2}}
- {{name: top, device: switch, count: 1}}
links:
- {{name: eth, physical: {{bandwidth: {{choice: gigabits_per_second, gigabits_per_second: 400}},
                          latency: {{choice: ns, ns: 500}}}}}}
edges:
- {{ep1: {{instance: "n[0:2]", component: "nic[0]"}}, ep2: {{instance: "leaf[0]", component: "port[0:2]"}},
   scheme: one2one, link: eth}}
- {{ep1: {{instance: "n[0:2]", component: "nic[1]"}}, ep2: {{instance: "leaf[1]", component: "port[0:2]"}},
   scheme: one2one, link: eth}}
- {{ep1: {{instance: leaf, component: "port[4:6]"}}, ep2: {{instance: top, component: "port[0:4]"}},
   scheme: one2one, link: eth}}
"""


def read(text: str) -> Imported:
    return read_infragraph(text, file="x.yaml")


def test_instances_expand_and_ports_and_slots_are_joined_through() -> None:
    found = read(TWO_TIERS).fabric
    assert Counter(d.kind for d in found.devices) == {
        "gpu": 4,
        "cpu": 2,
        "nvswitch": 2,
        "nic": 4,
        "leaf": 2,
        "spine": 1,
    }
    assert {d.name for d in found.on_host("n1", "gpu")} == {"n1/xpu0", "n1/xpu1"}
    assert {x.dst for x in found.links_from("n0/nic1")} == {"n0/cpu", "leaf1"}
    wire = next(x for x in found.links_from("n0/nic1") if x.dst == "leaf1")
    assert (wire.link_class, wire.GBps, wire.latency_us) == ("ethernet", 50.0, 0.5)
    up = next(x for x in found.links_from("leaf0") if x.dst == "top")
    assert up.multiplicity == 2
    assert found.device("leaf0").ports == 8
    nvlink = next(x for x in found.links_from("n0/xpu0") if x.dst == "n0/nvlsw")
    assert (nvlink.link_class, nvlink.GBps) == ("nvlink", None)


def test_a_nic_made_of_parts_is_one_nic_of_its_host() -> None:
    found = read(
        "devices:\n- name: box\n  components:\n  - {name: xpu, count: 2, choice: xpu}\n"
        "  - {name: cx5, count: 2, choice: device}\n  links: [{name: pcie}]\n"
        "  edges: [{ep1: {component: xpu}, ep2: {component: 'cx5[0:2].edge[0]'},"
        " scheme: one2one, link: pcie}]\n"
        "- name: cx5\n  components: [{name: asic, count: 1, choice: cpu},"
        " {name: edge, count: 1, choice: custom}, {name: port, count: 2, choice: port}]\n"
        "  links: [{name: ic}]\n  edges: []\n"
        "instances: [{name: b, device: box, count: 2}]\n"
    ).fabric
    assert {d.name for d in found.of_kind("nic")} == {"b0/cx50", "b0/cx51", "b1/cx50", "b1/cx51"}
    assert {x.dst for x in found.links_from("b1/xpu1")} == {"b1/cx51"}


def test_a_package_stands_for_its_part_of_that_type() -> None:
    found = read(
        "device:\n- name: gh\n  components:\n  - name: chip\n    type: xpu\n    count: 2\n"
        "    components: [{name: grace, type: cpu, count: 1}, {name: hopper, type: xpu, count: 1}]\n"
        "  - {name: cx7, type: nic, count: 2}\n  links: [{name: pcie}, {name: c2c}]\n"
        "  connections: [chip.1.pcie.cx7.1, grace.0.c2c.hopper.0]\n"
    ).fabric
    assert Counter(d.kind for d in found.devices) == {"cpu": 2, "gpu": 2, "nic": 2}
    assert {x.dst for x in found.links_from("gh/cx71")} == {"gh/hopper1"}
    assert {x.link_class for x in found.links_from("gh/grace0")} == {"c2c"}


def test_counts_that_are_not_written_come_from_the_edges() -> None:
    found = read(
        "instances: [{name: leafsw, device: sw}, {name: server, device: box}]\n"
        "links: [{name: eth}]\n"
        "connections: [server.0.nic.0.eth.leafsw.1.port.0, server.3.nic.1.eth.leafsw.0.port.0]\n"
    )
    assert Counter(d.kind for d in found.fabric.devices) == {"leaf": 2, "nic": 8}
    codes = [f.code for f in found.findings]
    assert {"count_inferred", "device_not_defined"} <= set(codes)


def test_the_units_own_trap_leaves_the_rate_unknown() -> None:
    text = TWO_TIERS.replace(
        "choice: gigabits_per_second, gigabits_per_second: 400",
        "choice: gigabytes_per_second, gigabytes_per_second: 400",
    )
    suspect = read(text)
    assert "bandwidth_unit_suspect" in [f.code for f in suspect.findings]
    contradicted = read(text.replace("- {name: eth,", "- {name: eth, description: 400Gbps ports,"))
    assert "bandwidth_unit_contradicts" in [f.code for f in contradicted.findings]
    rates = {x.GBps for x in contradicted.fabric.links if x.link_class == "ethernet"}
    assert rates == {None}
    assert "bandwidth_unit_suspect" not in [f.code for f in read(TWO_TIERS).findings]


def test_a_rate_per_lane_is_no_rate_of_the_link() -> None:
    text = SERVER.replace("choice: gigabytes_per_second, gigabytes_per_second: 48",
                          "choice: gigatransfers_per_second, gigatransfers_per_second: 32")  # fmt: skip
    found = read("devices:" + text)
    assert {x.GBps for x in found.fabric.links if x.link_class == "pcie"} == {None}
    assert {"templates_only", "bandwidth_per_lane"} <= {f.code for f in found.findings}


@pytest.mark.parametrize(
    ("edge", "code"),
    [
        ('{ep1: {component: "xpu[0:9]"}, ep2: {component: nvlsw}, scheme: many2many, link: nvlink}',
         "index_beyond_count"),
        ('{ep1: {component: xpu}, ep2: {component: cpu}, scheme: one2one, link: pcie}',
         "ends_do_not_match"),
        ('{ep1: {component: xpu}, ep2: {component: cpu}, scheme: many2many, link: zz}',
         "link_not_defined"),
    ],
)  # fmt: skip
def test_edges_that_do_not_fit_are_found(edge: str, code: str) -> None:
    found = read(f"devices:{SERVER}  - {edge}\n")
    assert code in [f.code for f in found.findings]


@pytest.mark.parametrize(
    "text",
    [
        "instances: [{name: a, device: b}]\nconnections: [a.0.x.0.l.a.0.x.999999999]\n",
        "instances: [{name: a, device: b}]\nconnections: [a.999999999.x.0.l.a.0.x.0]\n",
        "devices:\n- {name: a, components: [{name: a, choice: device, count: 2}]}\n",
        "devices:\n- name: a\n  components: [{name: x, choice: xpu, count: 100000}]\n  links: []\n"
        "  edges: [{ep1: {component: x}, ep2: {component: x}, scheme: many2many, link: l}]\n",
        "devices:\n- {name: a, components: [{name: x, choice: xpu, count: 9999}]}\n"
        "instances: [{name: i, device: a, count: 9999}]\n",
    ],
)
def test_what_would_grow_beyond_reason_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"at most|levels"):
        read(text)
