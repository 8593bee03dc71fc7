from clusterlab.topology.design import load_fabric
from clusterlab.topology.summary import summary


def test_a_cable_counts_once_for_its_two_directions() -> None:
    found = summary(load_fabric("dgx-h100-2node"))
    assert found["devices"] == {
        "gpu": 16,
        "nvswitch": 8,
        "pcie_switch": 16,
        "cpu": 4,
        "nic": 16,
        "leaf": 1,
    }
    assert {(ln["class"], ln["count"], ln["GBps"]) for ln in found["links"]} == {
        ("nvlink", 16 * 18, 20.6),
        ("pcie", 16 + 16 + 16, 48.0),
        ("upi", 2, 22.0),
        ("ib", 16, 48.0),
    }
    assert found["rails"] == 8


def test_memory_and_unknown_rates_are_counted_too() -> None:
    links = summary(load_fabric("lab-2x4"))["links"]
    assert {"class": "memory", "count": 4, "GBps": None} in links
    assert {"class": "ethernet", "count": 2, "GBps": 0.0238} in links
