import pytest

from clusterlab.core.findings import Finding, Severity
from clusterlab.topology.checks.down import down
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.failures.breaking import break_fabric
from tests.topology.clusters import small, superpod


def found(fabric: Fabric, *what: str) -> dict[str, Finding]:
    return {f.code: f for f in down(break_fabric(fabric, what))}


@pytest.mark.parametrize(
    ("what", "code", "severity", "evidence"),
    [
        (
            "n1/nic1",
            "nic_down",
            "error",
            "n1/nic1 (rail 1): its host keeps 1 of 2 NICs, 48 of 96 GB/s",
        ),
        ("leaf0", "leaf_down", "error", "leaf0 (rail 0): 2 hosts lose 2 NIC links, 48 GB/s"),
        (
            "spine0",
            "spine_down",
            "warning",
            "spine0: 4 switches below lose a path up; leaf0 keeps 48 of 96 GB/s",
        ),
        (
            "n0/nvswitch1",
            "nvswitch_down",
            "error",
            "n0/nvswitch1: 2 GPUs lose links; each keeps 40 of 80 GB/s",
        ),
        (
            "leaf0/spine0#1",
            "link_down",
            "warning",
            "leaf0/spine0: 1 of 2 ethernet links down; leaf0 keeps 72 of 96 GB/s up",
        ),
        (
            "n3/gpu1/pcie1:half",
            "link_degraded",
            "warning",
            "n3/gpu1/pcie1: 1 of 1 pcie links degraded, 24 GB/s lost",
        ),
        ("n[0-1]", "host_down", "error", "n[0-1] (2 hosts): 4 GPUs"),
    ],
)
def test_what_is_down_and_what_it_costs(what: str, code: str, severity: str, evidence: str) -> None:
    finding = found(small(), what)[code]
    assert finding.severity == Severity(severity)
    assert finding.evidence == (evidence,)
    assert finding.fix


def test_a_thousand_equal_faults_are_one_short_finding() -> None:
    fabric = superpod(127, 16)
    findings = down(break_fabric(fabric, ["n*/nic*/leaf*"]))
    assert [f.code for f in findings] == ["cut_off", "link_down"]
    assert len(findings[1].evidence) <= 11
    assert len(findings[1].links) == 100
    assert "… and" in findings[1].evidence[-1] or "1016" in findings[1].evidence[0]


def test_pairs_that_are_cut_are_counted_and_the_lonely_named() -> None:
    findings = found(small(), "n1/nic*")
    assert "pairs of end points are cut" in findings["cut_off"].evidence[0]
    assert findings["cut_off"].evidence[0].startswith("12 of 28")
    assert "cut_off" not in found(small(), "n1/nic0")


def test_a_healthy_fabric_has_nothing_down() -> None:
    assert down(small()) == []
