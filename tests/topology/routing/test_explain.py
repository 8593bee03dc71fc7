import dataclasses
import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.topology.design.clos import Clos
from clusterlab.topology.design.load import load_fabric
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.failures.breaking import break_fabric
from clusterlab.topology.parts import Device, Link, LinkClass
from clusterlab.topology.routing.explain import trace
from clusterlab.topology.routing.fluid import route
from clusterlab.topology.routing.hops import Trace
from clusterlab.topology.routing.policy import Adaptive, Pinned, Policy, StaticHash
from tests.topology.clusters import small
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
        "n0/gpu0 -> n0/gpu5: NVL (topo -m: NV18), 370.8 GB/s",
        "  n0/gpu0 -> n0/nvswitch[0-3]  nvlink   370.8 GB/s, 18 links",
        "  n0/nvswitch[0-3] -> n0/gpu5  nvlink   370.8 GB/s, 18 links",
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


def test_one_nvswitch_down_leaves_the_others_as_the_way() -> None:
    fabric = break_fabric(load_fabric("hgx-h100"), ["n0/nvswitch0", "n0/nvswitch2"])
    found = trace(fabric, "n0/gpu0", "n0/gpu5", StaticHash())
    assert hops(found) == ["n0/gpu0", "n0/nvswitch[1,3]", "n0/gpu5"]


@pytest.mark.parametrize(
    ("src", "dst", "line"),
    [
        ("n0/gpu0", "n0/nic3", "n0/gpu0 -> n0/nic3: PXN (topo -m: NODE), 48 GB/s"),
        ("n0/nic3", "n0/gpu0", "n0/nic3 -> n0/gpu0: PHB (topo -m: NODE), 48 GB/s"),
        ("n0/gpu1", "n0/nic1", "n0/gpu1 -> n0/nic1: PXB, 48 GB/s"),
    ],
)
def test_where_nvidia_smi_has_another_word_both_are_said(src: str, dst: str, line: str) -> None:
    found = trace(load_fabric("superpod-h100-1su"), src, dst, StaticHash())
    assert found.text().splitlines()[0] == line
    assert found.to_json()["topo_m"] in ("NODE", "PXB")


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_a_nic_that_is_not_cabled_is_like_one_that_is_down(seed: int) -> None:
    """And the way is there wherever the links of ``route`` lead: over whatever NIC is left."""
    rng = random.Random(seed)
    nics = [nic.name for nic in small().of_kind("nic")]
    gone = rng.sample(nics, rng.randrange(len(nics) + 1))
    down = break_fabric(small(), [f"{nic}/leaf*" for nic in gone])
    ends = [(k.src, k.dst) for k in small().network_links if {k.src, k.dst} & set(gone)]
    absent = small().with_links(dict.fromkeys(ends, ()))
    src, dst = rng.sample([gpu.name for gpu in small().of_kind("gpu")], 2)
    found = [trace(fabric, src, dst, StaticHash()) for fabric in (down, absent)]
    assert found[0].type == found[1].type
    for fabric, way in zip((down, absent), found, strict=True):
        try:
            route(fabric, src, dst)
        except UsageError:
            assert way.type == "DIS"
            assert way.reason
        else:
            assert way.type != "DIS"
            assert way.reason is None
            assert not set(hops(way)) & set(gone)


def test_hosts_whose_nics_are_cabled_in_part_are_crossed_over_the_cabled_ones() -> None:
    """As a host's XML merged with the fabric that only its compute ports are on."""
    kinds = {"leaf": NDR, "spine": NDR}
    gpus = fabric_of(Clos(hosts_per_su=2, rails=2, spines=2, uplinks=2, kinds=kinds), 4, gpus=True)
    assert trace(gpus, "n0/gpu1", "n3/gpu1", StaticHash()).parts == ("PIX", "NET", "PIX")
    pairs = [(k.src, k.dst) for k in gpus.network_links if {"n0/nic1", "n3/nic0"} & {k.src, k.dst}]
    found = trace(gpus.with_links(dict.fromkeys(pairs, ())), "n0/gpu1", "n3/gpu1", StaticHash())
    assert hops(found)[:4] == ["n0/gpu1", "n0/nvswitch", "n0/gpu0", "n0/nic0"]


@pytest.mark.parametrize(
    ("broken", "src", "dst", "says"),
    [
        (["n0/nic0"], "n0/nic0", "n1/nic0", "n0/nic0 has no live link to the network"),
        (["n1/nic*"], "n0/gpu0", "n1/gpu1", "no NIC of n1 has a live link to the network (n1/nic[0-1] down)"),
        (["spine*"], "n0/gpu0", "n2/gpu0", "leaf0 has no live cable to another switch"),
        (["spine*"], "n0/gpu0", "n2/gpu0", "no live path from n0/nic0 (on leaf0) to n2/nic0 (on leaf"),
        (["n0/gpu0", "n0/nic0"], "n0/gpu0", "n2/gpu0", "n0/gpu0 reaches no NIC that leads into the network"),
    ],
)  # fmt: skip
def test_no_way_comes_with_its_reason(broken: list[str], src: str, dst: str, says: str) -> None:
    kinds = {"leaf": NDR, "spine": NDR}
    whole = fabric_of(Clos(hosts_per_su=2, rails=2, spines=2, uplinks=2, kinds=kinds), 4, gpus=True)
    found = trace(break_fabric(whole, broken), src, dst, StaticHash())
    assert found.type == "DIS"
    assert found.reason is not None
    assert says in found.reason
    assert f"no way: {found.reason}" in found.text()
    assert found.to_json()["reason"] == found.reason


def both_ways(a: str, b: str, link_class: LinkClass) -> list[Link]:
    return [Link(a, b, link_class, 48.0), Link(b, a, link_class, 48.0)]


def test_hosts_without_a_nic_a_cable_or_a_switch() -> None:
    gpus = [Device(f"{host}/gpu", "gpu", host=host) for host in "abc"]
    nics = [Device(f"{host}/nic", "nic", host=host) for host in "abc"]
    pci = [link for host in "abc" for link in both_ways(f"{host}/gpu", f"{host}/nic", "pcie")]

    def way(devices: list[Device], links: list[Link]) -> Trace:
        return trace(Fabric("three", tuple(devices), tuple(links)), "a/gpu", "b/gpu", StaticHash())

    assert way(gpus, []).reason == "a has no NIC"
    assert way(gpus + nics, pci).reason == "no NIC of a is cabled"
    others = both_ways("a/nic", "c/nic", "ib") + both_ways("b/nic", "c/nic", "ib")
    assert way(gpus + nics, pci + others).reason == (
        "fabric three has no switches, and no cable joins the two"
    )
    found = way(gpus + nics, pci + both_ways("a/nic", "b/nic", "ib"))
    assert (hops(found), found.GBps) == (["a/gpu", "a/nic", "b/nic", "b/gpu"], 48.0)


def test_a_host_is_no_end_but_what_is_in_it() -> None:
    for src, dst in (("n0", "n1/gpu0"), ("n0/gpu0", "n1")):
        with pytest.raises(
            UsageError, match=r"n[01] is a host; expected a GPU or NIC of it; give n[01]/gpu0"
        ):
            trace(load_fabric("dgx-h100-2node"), src, dst, StaticHash())
