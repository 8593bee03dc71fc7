from dataclasses import replace

from clusterlab.topology.checks.capacity_mismatch import (
    asymmetric_capacity,
    oversubscription_mismatch,
    unequal_bundle,
)
from clusterlab.topology.checks.uplinks import uplinks
from clusterlab.topology.design.load import load_fabric
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.failures.breaking import break_fabric
from clusterlab.topology.parts import Device, Link
from tests.topology.clusters import small, superpod


def without(fabric: Fabric, a: str, b: str, *, cables: int = 1) -> Fabric:
    """``fabric`` where ``cables`` of a connection were never plugged."""
    changes = {}
    for pair in ((a, b), (b, a)):
        (link,) = [k for k in fabric.links_from(pair[0]) if k.dst == pair[1]]
        rest = link.multiplicity - cables
        changes[pair] = [replace(link, multiplicity=rest)] if rest else []
    return fabric.with_links(changes)


def test_a_lost_uplink_makes_its_leaf_worse_than_declared() -> None:
    fabric = superpod(64, 8)
    assert oversubscription_mismatch(fabric) == []
    (finding,) = oversubscription_mismatch(break_fabric(fabric, ["leaf3/spine2#1"]))
    assert finding.evidence == (
        "leaf3 (rail 3): 32 cables 1536 GB/s down, 31 cables 1488 GB/s up live, 1.03:1; declared 1:1",
    )
    assert finding.caused_by == "link_down"


def test_an_uplink_that_was_never_there_has_no_fault_behind_it() -> None:
    (finding,) = oversubscription_mismatch(without(superpod(64, 8), "leaf3", "spine2"))
    assert finding.caused_by is None


def test_a_spare_uplink_may_be_lost() -> None:
    """31 hosts below 32 uplinks: the declared ratio still holds."""
    assert oversubscription_mismatch(break_fabric(superpod(31, 4), ["leaf3/spine2#1"])) == []


def test_without_a_declared_ratio_most_leaves_set_it() -> None:
    fabric = replace(superpod(64, 8), oversubscription={})
    assert oversubscription_mismatch(fabric) == []
    (finding,) = oversubscription_mismatch(break_fabric(fabric, ["leaf3/spine2"]))
    assert "most leaves have 1:1" in finding.evidence[0]


def test_ports_that_serve_management_make_no_leaf_worse() -> None:
    """A leaf with as many compute ports as uplinks, and the subnet manager's beside them."""
    fabric = replace(superpod(64, 8), oversubscription={})
    manager = Device("ufm/mlx5_0", "nic", host="ufm", role="management")
    cable = Link(manager.name, "leaf3", "ib", 48.0)
    more = replace(
        fabric,
        devices=(*fabric.devices, manager),
        links=(*fabric.links, cable, replace(cable, src="leaf3", dst=manager.name)),
    )
    assert oversubscription_mismatch(more) == []
    compute = tuple(replace(d, role="compute") if d == manager else d for d in more.devices)
    (finding,) = oversubscription_mismatch(replace(more, devices=compute))
    assert finding.evidence[0].startswith("leaf3 (rail 3): 33 cables")


def test_missing_uplinks_are_not_told_twice() -> None:
    """Where nothing is declared: a leaf that lacks what its peers have is for the check of uplinks."""
    fabric = replace(superpod(64, 8), oversubscription={})
    lacking = without(fabric, "leaf3", "spine2", cables=2)
    assert [f.code for f in uplinks(lacking)] == ["uneven_parallel_links"]
    assert oversubscription_mismatch(lacking) == []
    extra = [Device(f"x{i}/mlx5_0", "nic", host=f"x{i}") for i in range(4)]
    cables = [Link(d.name, "leaf3", "ib", 48.0) for d in extra]
    fuller = replace(
        lacking,
        devices=(*lacking.devices, *extra),
        links=(*lacking.links, *cables, *(replace(k, src=k.dst, dst=k.src) for k in cables)),
    )
    (finding,) = oversubscription_mismatch(fuller)
    assert finding.evidence[0].startswith("leaf3 (rail 3): 36 cables")


def test_a_leaf_without_any_uplink_left() -> None:
    (finding,) = oversubscription_mismatch(break_fabric(small(), ["leaf0/spine*"]))
    assert "nothing goes up" in finding.evidence[0]


def test_a_gpu_with_fewer_links_than_its_equals() -> None:
    fabric = superpod(31, 4)
    assert asymmetric_capacity(fabric) == []
    (finding,) = asymmetric_capacity(without(fabric, "n7/gpu2", "n7/nvswitch0"))
    assert finding.evidence == (
        "n7/gpu2: scale-up 17 links, 350.2 GB/s; most H100-SXM5-80GB have 18 links, 370.8 GB/s",
    )


def test_a_nic_in_a_slot_of_half_the_width() -> None:
    fabric = superpod(31, 4)
    changes = {}
    for pair in (("n7/nic2", "n7/pcie2"), ("n7/pcie2", "n7/nic2")):
        (link,) = [k for k in fabric.links_from(pair[0]) if k.dst == pair[1]]
        changes[pair] = [replace(link, GBps=24.0, wire_GBps=31.5)]
    (finding,) = asymmetric_capacity(fabric.with_links(changes))
    assert finding.evidence == (
        "n7/nic2: PCIe 1 links, 24 GB/s; most ConnectX-7 have 1 links, 48 GB/s",
    )


def test_a_gpu_of_a_rack_with_fewer_links_to_the_switches_outside() -> None:
    fabric = without(load_fabric("gb200-nvl72"), "n3/gpu1", "nvswitch5")
    (finding,) = asymmetric_capacity(fabric)
    assert finding.evidence == (
        "n3/gpu1: scale-up 17 links, 681.7 GB/s; most GB200 have 18 links, 721.8 GB/s",
    )


def test_what_is_only_down_is_not_also_asymmetric() -> None:
    assert asymmetric_capacity(break_fabric(superpod(31, 4), ["n7/nvswitch0", "spine2"])) == []


def test_a_bundle_goes_at_the_pace_of_its_worst_cable() -> None:
    (finding,) = unequal_bundle(break_fabric(small(), ["leaf0/spine0#0:half"]))
    assert finding.evidence == ("leaf0/spine0: of 2 cables 1 whole, 1 degraded, 0 down",)
    assert unequal_bundle(break_fabric(small(), ["leaf0/spine0:half"])) == []
    assert unequal_bundle(break_fabric(small(), ["leaf0/spine0#0"])) == []


def test_a_tree_without_cables_has_no_ratio() -> None:
    fabric = break_fabric(superpod(64, 8), [])
    changes = {
        (k.src, k.dst): [replace(k, link_class="network", GBps=None, wire_GBps=None)]
        for k in fabric.network_links
        if (k.src, k.dst) not in {("leaf3", "spine2"), ("spine2", "leaf3")}
    }
    tree = replace(fabric.with_links({**changes, ("leaf3", "spine2"): []}), oversubscription={})
    assert oversubscription_mismatch(tree) == []
