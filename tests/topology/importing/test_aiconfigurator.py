"""aiconfigurator's sheets as fabrics."""

from __future__ import annotations

from clusterlab.topology.importing.aiconfigurator import read_aiconfigurator
from tests.formats.test_aiconfigurator import SHEET


def test_gpus_share_an_nvswitch_at_the_rate_inside_the_node() -> None:
    found = read_aiconfigurator(SHEET, file="h100.yaml")
    assert len(found.fabric.of_kind("gpu")) == 8
    assert len(found.fabric.of_kind("nvswitch")) == 1
    assert {(x.link_class, x.GBps) for x in found.fabric.links} == {("nvlink", 450.0)}
    assert found.facts["GBps_per_gpu"] == {"inter_node": 50.0, "intra_node": 450.0, "pcie": 64.0}
    assert len(found.fabric.of_kind("nic")) == 0


def test_gpus_at_no_more_than_their_pcie_rate_share_a_pcie_switch() -> None:
    text = SHEET.replace("intra_node_bw: 450e9", "intra_node_bw: 28400000000")
    found = read_aiconfigurator(text, file="b60.yaml")
    assert len(found.fabric.of_kind("pcie_switch")) == 1
    assert {(x.link_class, x.GBps) for x in found.fabric.links} == {("pcie", 28.4)}


def test_nvlink_rates_of_cards_without_nvlink_are_found() -> None:
    found = read_aiconfigurator(SHEET.replace("sm_version: 90", "sm_version: 89"), file="l40s.yaml")
    assert "bandwidth_beyond_hardware" in [f.code for f in found.findings]
    assert "bandwidth_beyond_hardware" not in [
        f.code for f in read_aiconfigurator(SHEET, file="h100.yaml").findings
    ]


def test_a_rate_that_is_not_given_stays_unknown() -> None:
    found = read_aiconfigurator("node:\n  num_gpus_per_node: 2\n", file="x")
    assert {x.GBps for x in found.fabric.links} == {None}
    assert "bandwidth_not_given" in [f.code for f in found.findings]
