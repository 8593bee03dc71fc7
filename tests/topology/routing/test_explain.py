import dataclasses
import json

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.topology.design.clos import Clos
from clusterlab.topology.design.load import load_fabric
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import Device, Link
from clusterlab.topology.routing.explain import Trace, trace
from clusterlab.topology.routing.policy import Adaptive, Pinned, Policy, StaticHash
from tests.topology.routing.clos_fabrics import NDR, fabric_of, three_tier, two_tier
from tests.topology.routing.test_path_types import h200x2


def hops(found: Trace) -> list[str]:
    return [hop.src for hop in found.hops] + [found.hops[-1].dst]


@pytest.mark.parametrize("policy", [StaticHash(), Adaptive(), Pinned()])
def test_across_the_network_from_gpu_to_gpu_every_device_is_named(policy: Policy) -> None:
    found = trace(load_fabric("dgx-h100-2node"), "n0/gpu3", "n1/gpu5", policy)
    assert hops(found) == [
        *("n0/gpu3", "n0/pcie3", "n0/nic3", "leaf0", "n1/nic5", "n1/pcie5", "n1/gpu5"),
    ]
    assert (found.type, found.parts, found.GBps) == ("NET", ("PIX", "NET", "PIX"), 48.0)
    assert [hop.cable for hop in found.hops] == [
        *(None, None, "n0/nic3/leaf0", "n1/nic5/leaf0", None, None),
    ]


def test_inside_a_host_all_links_over_all_nvswitches_count_together() -> None:
    found = trace(load_fabric("hgx-h100"), "n0/gpu0", "n0/gpu5", StaticHash())
    assert found.text().splitlines() == [
        "n0/gpu0 -> n0/gpu5: NVL, 370.8 GB/s",
        "  n0/gpu0 -> n0/nvswitch0  nvlink   370.8 GB/s, 18 links",
        "  n0/nvswitch0 -> n0/gpu5  nvlink   370.8 GB/s, 18 links",
    ]


def test_the_slowest_hop_is_the_path_and_an_unknown_one_leaves_it_unknown() -> None:
    fabric = h200x2()
    assert trace(fabric, "60", "eth0", StaticHash()).GBps == 1.25
    unknown = tuple(dataclasses.replace(x, GBps=None) for x in fabric.links)
    found = trace(dataclasses.replace(fabric, links=unknown), "60", "70", StaticHash())
    assert (found.type, found.GBps) == ("NVL", None)
    assert "unknown, 18 links" in found.text()


def test_equal_cables_are_counted_and_the_chosen_one_is_named() -> None:
    fabric = two_tier(8, rails=1, spines=2, uplinks=4)
    found = trace(fabric, "n0/nic0", "n7/nic0", StaticHash())
    assert [hop.ways for hop in found.hops] == [1, 4, 2, 1]
    assert found.hops[1].cable is not None
    assert found.hops[1].cable.startswith("leaf0/spine")
    assert "of 4 equal" in found.text()
    labels = {
        trace(fabric, "n0/nic0", "n7/nic0", StaticHash(), label=i).hops[1].cable for i in range(40)
    }
    assert len(labels) == 4


def test_rails_that_do_not_meet_are_crossed_over_nvlink() -> None:
    shape = Clos(hosts_per_su=4, rails=2, kinds={"leaf": NDR})
    found = trace(fabric_of(shape, 4, gpus=True), "n0/gpu0", "n3/gpu1", StaticHash())
    assert hops(found)[:4] == ["n0/gpu0", "n0/nvswitch", "n0/gpu1", "n0/nic1"]
    assert found.parts == ("PXN", "NET", "PIX")


def test_no_way_is_said_and_a_device_reaches_itself() -> None:
    fabric = two_tier(4, rails=1)
    unplugged = fabric.with_links({("n0/nic0", "leaf0"): (), ("leaf0", "n0/nic0"): ()})
    found = trace(unplugged, "n0/nic0", "n1/nic0", StaticHash())
    assert (found.type, found.hops) == ("DIS", ())
    assert "no way" in found.text()
    assert trace(fabric, "n0/nic0", "n0/nic0", StaticHash()).type == "LOC"
    alone = Fabric("two", (Device("a/gpu", "gpu", host="a"), Device("b/gpu", "gpu", host="b")), ())
    assert trace(alone, "a/gpu", "b/gpu", StaticHash()).type == "DIS"


def test_switches_send_nothing_and_unknown_names_are_refused() -> None:
    fabric = three_tier(8, rails=2, hosts_per_su=2, sus_per_pod=2, uplinks=2)
    with pytest.raises(UsageError, match="leaf0 is a leaf"):
        trace(fabric, "leaf0", "n0/nic0", StaticHash())
    with pytest.raises(UsageError, match="no device 'n0/nic9'"):
        trace(fabric, "n0/nic9", "n0/nic0", StaticHash())


def test_a_trace_is_plain_json() -> None:
    found = trace(load_fabric("dgx-h100-2node"), "n0/gpu0", "n1/gpu0", Pinned())
    data = json.loads(json.dumps(found.to_json()))
    assert data["hops"][2] == {
        "src": "n0/nic0",
        "dst": "leaf0",
        "link_class": "ib",
        "GBps": 48.0,
        "links": 1,
        "cable": "n0/nic0/leaf0",
        "ways": 1,
    }


def test_hosts_that_hang_on_a_switch_by_themselves_need_no_nic() -> None:
    devices = (Device("a", "host", host="a"), Device("b", "host", host="b"), Device("leaf", "leaf"))
    links = tuple(
        Link(*ends, "ethernet", None)
        for ends in (("a", "leaf"), ("leaf", "a"), ("b", "leaf"), ("leaf", "b"))
    )
    found = trace(Fabric("slurm", devices, links), "a", "b", StaticHash())
    assert (found.type, hops(found), found.GBps) == ("NET", ["a", "leaf", "b"], None)
