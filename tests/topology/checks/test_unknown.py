from clusterlab.core.findings import Severity
from clusterlab.topology.checks.unknown import unknown
from clusterlab.topology.design.load import load_fabric
from tests.topology.clusters import small


def test_links_without_a_bandwidth_are_told_by_kind_of_end() -> None:
    assert unknown(small()) == []
    (finding,) = unknown(load_fabric("lab-2x4"))
    assert finding.severity == Severity.INFO
    assert finding.fix.startswith("a prediction whose traffic crosses one of them")
    assert finding.evidence[:2] == (
        "8 pcie links between cpu and gpu, such as n0/gpu0/cpu0",
        "4 memory links between cpu and cpu, such as n0/cpu0/cpu0",
    )
