import pytest

from clusterlab.topology.checks.capacity_mismatch import asymmetric_capacity
from clusterlab.topology.checks.nic_distance import DISTANCES, nearest_nics, nic_distance
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.failures.breaking import break_fabric
from clusterlab.topology.parts import Device, Link
from clusterlab.topology.shapes import host_shapes
from tests.topology.clusters import small, superpod


def host(*wires: str, kinds: str) -> Fabric:
    """A host from ``a-b`` wires; ``kinds`` as ``gpu0:gpu …``."""
    devices = [
        Device(f"n0/{name}", kind, host="n0")  # type: ignore[arg-type]
        for name, kind in (pair.split(":") for pair in kinds.split())
    ]
    links = []
    for wire in wires:
        a, b = wire.split("-")
        for src, dst in ((a, b), (b, a)):
            links.append(Link(f"n0/{src}", f"n0/{dst}", "upi" if "cpu" in a else "pcie", 10.0))
    return Fabric("f", devices, links)


KINDS = "gpu:gpu nic:nic sw0:pcie_switch sw1:pcie_switch hb0:host_bridge hb1:host_bridge cpu0:cpu cpu1:cpu"


@pytest.mark.parametrize(
    ("wires", "distance"),
    [
        ("gpu-sw0 nic-sw0", "PIX"),
        ("gpu-sw0 sw0-sw1 nic-sw1", "PXB"),
        ("gpu-hb0 nic-hb0 hb0-cpu0", "PHB"),
        ("gpu-sw0 sw0-hb0 hb0-cpu0 nic-hb0", "PHB"),
        ("gpu-sw0 sw0-cpu0 nic-cpu0", "PHB"),
        ("gpu-hb0 hb0-cpu0 nic-hb1 hb1-cpu0", "NODE"),
        ("gpu-hb0 hb0-cpu0 cpu0-cpu1 hb1-cpu1 nic-hb1", "SYS"),
    ],
)
def test_distances_are_nvidia_smis_words(wires: str, distance: str) -> None:
    (shape,) = host_shapes(host(*wires.split(), kinds=KINDS))
    index, nics = nearest_nics(shape)["gpu"]
    assert (DISTANCES[index], nics) == (distance, ("nic",))


def test_a_path_leads_neither_through_a_gpu_nor_through_another_nic() -> None:
    kinds = "gpu:gpu other:gpu nic:nic far:nic sw:pcie_switch cpu0:cpu"
    fabric = host("gpu-other", "other-nic", "gpu-cpu0", "far-cpu0", kinds=kinds)
    (shape,) = host_shapes(fabric)
    index, nics = nearest_nics(shape)["gpu"]
    assert (DISTANCES[index], nics) == ("PHB", ("far",))


def test_a_gpu_further_from_its_nic_than_its_siblings_is_found() -> None:
    fabric = superpod(31, 4)
    assert nic_distance(fabric) == []
    (finding,) = nic_distance(break_fabric(fabric, ["n5/nic3"]))
    assert finding.evidence == ("n5/gpu3: PHB to nic0; its siblings have a NIC at PIX",)


def test_hosts_with_the_same_fault_share_a_line() -> None:
    (finding,) = nic_distance(break_fabric(superpod(31, 4), ["n[2-6]/nic3"]))
    assert finding.evidence == (
        "gpu3 of n[2-6] (5 hosts): PHB to nic0; its siblings have a NIC at PIX",
    )


def test_a_gpu_without_any_way_to_a_nic() -> None:
    (finding,) = nic_distance(break_fabric(superpod(31, 4), ["n5/gpu3/pcie3"]))
    assert finding.evidence == ("n5/gpu3: reaches no NIC; its siblings have a NIC at PIX",)


def test_a_layout_that_puts_half_the_gpus_far_is_a_layout() -> None:
    kinds = "g0:gpu g1:gpu nic:nic cpu0:cpu cpu1:cpu"
    assert nic_distance(host("g0-cpu0", "g1-cpu1", "cpu0-cpu1", "nic-cpu0", kinds=kinds)) == []


def test_a_host_without_nics_has_no_distance() -> None:
    assert nic_distance(break_fabric(small(), ["n*/nic*"])) == []
    assert nic_distance(host("gpu-cpu0", kinds="gpu:gpu cpu0:cpu")) == []


def test_a_gpu_whose_place_is_unknown_is_not_far() -> None:
    kinds = "g0:gpu g1:gpu g2:gpu g3:gpu nic:nic sw:pcie_switch"
    fabric = host("g0-sw", "g1-sw", "g2-sw", "nic-sw", kinds=kinds)
    assert nic_distance(fabric) == []
    assert asymmetric_capacity(fabric) == []
