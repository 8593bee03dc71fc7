from clusterlab.core.findings import Severity
from clusterlab.topology.checks.unknown import unknown_bandwidth, unnamed_hosts
from clusterlab.topology.design import load_fabric
from clusterlab.topology.fabric import Device, Fabric, Link
from tests.topology.clusters import small


def test_links_without_a_bandwidth_are_told_by_kind_of_end() -> None:
    assert unknown_bandwidth(small()) == []
    (finding,) = unknown_bandwidth(load_fabric("lab-2x4"))
    assert finding.severity == Severity.INFO
    assert finding.evidence[:2] == (
        "8 pcie links between cpu and gpu, such as n0/gpu0/cpu0",
        "4 memory links between cpu and cpu, such as n0/cpu0/cpu0",
    )


def test_nics_of_hosts_without_a_name_are_told_by_switch() -> None:
    devices = [
        Device("leaf0", "leaf"),
        Device("H-1", "nic"),
        Device("localhost/HCA-1", "nic", host="localhost"),
        Device("n0/mlx5_0", "nic", host="n0"),
        Device("SHARP", "nic", role="aggregation"),
    ]
    links = [Link(d.name, "leaf0", "ib", 50.0) for d in devices[1:]]
    (finding,) = unnamed_hosts(Fabric("f", devices, links))
    assert finding.evidence == ("leaf0: 2 unnamed, such as H-1",)
