from __future__ import annotations

from dataclasses import replace

import pytest

from clusterlab.core.findings import Severity
from clusterlab.topology.checks.ports import cages, crowded_cages, port_overflow, ports
from clusterlab.topology.design.load import fabric_from_yaml, load_fabric
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import Device, Link

SMALL = """\
links:
  wire: {class: ib, GBps: unknown}
  lane: {class: pcie, GBps: unknown}
hosts:
  count: 4
  devices:
    - {name: gpu0, kind: gpu}
    - {name: "nic{i}", kind: nic, count: 2, rail: index, ports: 1, cage: osfp1}
  links:
    - {from: gpu0, to: "nic*", type: lane, multiplicity: 16}
network:
  devices:
    - {name: leaf0, kind: leaf, ports: 8}
  links:
    - {from: "n*/nic*", to: leaf0, type: wire}
"""


def build(text: str) -> Fabric:
    return fabric_from_yaml(text, file="my.yaml", default_name="my")


def test_as_many_cables_as_ports_are_fine_and_pcie_lanes_are_no_cables() -> None:
    assert ports(build(SMALL)) == []


def test_one_cable_too_many_on_a_switch_is_an_error() -> None:
    (finding,) = ports(build(SMALL.replace("ports: 8", "ports: 7")))
    assert finding.code == "port_overflow"
    assert finding.severity is Severity.ERROR
    assert finding.evidence == ("leaf0: 8 cables, 7 ports",)


def test_a_cable_that_is_down_still_occupies_its_port() -> None:
    fabric = build(SMALL.replace("ports: 8", "ports: 7"))
    dead = {
        (k.src, k.dst): [replace(k, health=0.0)] for k in fabric.network_links if "nic1" in k.name
    }
    assert ports(fabric.with_links(dead)) == ports(fabric)


def test_equal_nics_with_too_many_cables_are_one_line() -> None:
    text = SMALL.replace("to: leaf0, type: wire", "to: leaf0, type: wire, multiplicity: 2")
    (finding,) = port_overflow(build(text.replace("ports: 8", "ports: 16")))
    assert finding.evidence == (
        "nic0 of n[0-3] (4 hosts): 2 cables, 1 ports",
        "nic1 of n[0-3] (4 hosts): 2 cables, 1 ports",
    )


def test_links_inside_a_host_count_for_its_nvswitches() -> None:
    text = """\
links: {nvlink: {class: nvlink, GBps: unknown}}
hosts:
  devices:
    - {name: "gpu{i}", kind: gpu, count: 8}
    - {name: nvswitch0, kind: nvswitch, ports: 18}
  links: [{from: "gpu*", to: nvswitch0, type: nvlink, multiplicity: 3}]
"""
    (finding,) = ports(build(text))
    assert finding.evidence == ("nvswitch0 of n0: 24 cables, 18 ports",)


def test_devices_without_a_port_count_are_not_judged() -> None:
    devices = (Device("leaf0", "leaf"), Device("n0/nic0", "nic", host="n0"))
    links = (
        Link("n0/nic0", "leaf0", "ib", None, multiplicity=999),
        Link("leaf0", "n0/nic0", "ib", None, multiplicity=999),
    )
    assert ports(Fabric("f", devices, links)) == []


def test_a_cable_seen_in_one_direction_only_counts_once() -> None:
    devices = (Device("leaf0", "leaf", ports=2), Device("spine0", "spine"))
    both = Link("leaf0", "spine0", "ib", None), Link("spine0", "leaf0", "ib", None)
    fabric = Fabric("f", devices, (*both, Link("leaf0", "spine0", "ib", None)))
    assert ports(fabric) == []


def test_cages_are_named_as_one_breaks_them() -> None:
    found = cages(build(SMALL))
    assert sorted(found) == ["osfp1@n0", "osfp1@n1", "osfp1@n2", "osfp1@n3"]
    assert [nic.name for nic in found["osfp1@n2"]] == ["n2/nic0", "n2/nic1"]


@pytest.mark.parametrize(
    ("change", "code", "severity"),
    [
        (("count: 2, rail: index, ports: 1", "count: 3, rail: index"), "cage_overflow", "error"),
        (("ports: 1, cage", "ports: 2, cage"), "cage_overflow", "error"),
        (("rail: index, ports: 1", "rail: 0, ports: 1"), "cage_on_one_rail", "warning"),
    ],
)
def test_a_cage_takes_two_ports_of_two_rails(
    change: tuple[str, str], code: str, severity: str
) -> None:
    assert change[0] in SMALL
    (finding,) = crowded_cages(build(SMALL.replace(*change)))
    assert (finding.code, finding.severity.value) == (code, severity)
    assert finding.evidence[0].startswith("osfp1 of n[0-3] (4 hosts): nic0, nic1")


def test_ports_of_a_large_design_are_counted() -> None:
    fabric = load_fabric("superpod-b200-16su")
    assert ports(fabric) == []
    full = fabric.device("core0")
    fewer = tuple(replace(d, ports=63) if d.name == full.name else d for d in fabric.single_devices)
    shrunk = Fabric(
        "f", fewer, tuple(k for k in fabric.network_links if full.name in (k.src, k.dst))
    )
    (finding,) = ports(shrunk)
    assert finding.evidence == ("core0: 64 cables, 63 ports",)
