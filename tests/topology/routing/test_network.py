import dataclasses

import numpy as np
import pytest

from clusterlab.core.errors import UsageError
from clusterlab.topology.design.load import load_fabric
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import Device, Link
from clusterlab.topology.routing.explain import trace
from clusterlab.topology.routing.network import network_of
from clusterlab.topology.routing.policy import StaticHash
from clusterlab.topology.routing.repair import random_pairs
from tests.topology.routing.clos_fabrics import three_tier, two_tier


def pair(a: str, b: str, **figures: object) -> tuple[Link, Link]:
    both = [Link(x, y, "ib", 50.0, **figures) for x, y in ((a, b), (b, a))]  # type: ignore[arg-type]
    return both[0], both[1]


def test_every_parallel_cable_stands_alone_with_its_own_health_and_number() -> None:
    devices = (Device("leaf0", "leaf"), Device("spine0", "spine"), Device("nic", "nic"))
    links = (
        *pair("nic", "leaf0"),
        *pair("leaf0", "spine0", multiplicity=2),
        *pair("leaf0", "spine0", health=0.0),
        *pair("leaf0", "spine0", multiplicity=2, health=0.5),
    )
    network = network_of(Fabric("f", devices, links))
    mine = network.between(network.node("spine0"), network.node("leaf0"))
    assert network.health[mine].tolist() == [1, 1, 0, 0.5, 0.5]
    assert [network.cable_name(c) for c in mine] == [f"leaf0/spine0#{i}" for i in range(5)]
    assert network.cable_name(int(network.at(network.node("nic"))[0])) == "nic/leaf0"
    assert network.weight[mine].tolist() == [50, 50, 0, 25, 25]


def test_a_cable_needs_both_directions_and_is_as_good_as_the_worse() -> None:
    devices = (Device("leaf0", "leaf"), Device("a", "nic"), Device("b", "nic"))
    links = (
        Link("a", "leaf0", "ib", 50.0),
        Link("leaf0", "a", "ib", 25.0, health=0.5),
        Link("b", "leaf0", "ib", 50.0),
    )
    network = network_of(Fabric("f", devices, links))
    a, b = (int(network.at(network.node(n))[0]) for n in ("a", "b"))
    assert (network.GBps[a], network.health[a]) == (25, 0.5)
    assert not network.live[b]


def test_an_unknown_rate_stays_unknown_and_weighs_one() -> None:
    devices = (Device("leaf0", "leaf"), Device("a", "nic"))
    links = tuple(Link(x, y, "ib", None) for x, y in (("a", "leaf0"), ("leaf0", "a")))
    network = network_of(Fabric("f", devices, links))
    assert np.isnan(network.GBps).all()
    assert network.weight.tolist() == [1.0]


def test_cables_between_switches_of_one_tier_lead_neither_up_nor_down() -> None:
    devices = (Device("leaf0", "leaf"), Device("leaf1", "leaf"), Device("a", "nic"))
    links = (*pair("a", "leaf0"), *pair("leaf0", "leaf1", multiplicity=3))
    network = network_of(Fabric("f", devices, links))
    mine = network.between(network.node("leaf1"), network.node("leaf0"))
    assert [network.cable_name(c) for c in mine] == [f"leaf0/leaf1#{i}" for i in range(3)]
    assert np.flatnonzero(network.level).tolist() == mine.tolist()
    assert len(network.at(network.node("leaf1"))) == 3
    assert len(network.at(network.node("leaf0"))) == 4
    for start, cables in (network.up, network.down):
        assert start[-1] == len(cables) == 1


def test_tiers_and_counts_of_a_clos() -> None:
    network = network_of(three_tier(16, rails=2, hosts_per_su=4, sus_per_pod=2, uplinks=4))
    assert np.bincount(network.tier).tolist() == [32, 8, 8, 4]
    assert len(network.low) == 3 * 32
    for start, cables in (network.up, network.down):
        assert start[-1] == len(cables) == len(np.unique(cables))


def test_links_inside_hosts_are_no_network() -> None:
    network = network_of(load_fabric("dgx-h100-2node"))
    assert (network.switches, len(network.nodes), len(network.low)) == (1, 17, 16)
    with pytest.raises(UsageError, match="fabric hgx-h100: no network to route on"):
        network_of(load_fabric("hgx-h100"))


def test_taking_cables_out_leaves_numbers_alone_and_the_fabric_keeps_its_network() -> None:
    fabric = two_tier()
    network = network_of(fabric)
    assert network_of(fabric) is network
    less = network.without([3, 5])
    assert np.flatnonzero(~less.live).tolist() == [3, 5]
    assert network.live.all()
    assert less.nodes == network.nodes


def with_aggregation_nodes(fabric: Fabric) -> Fabric:
    """A SHARP node on every leaf, as a subnet's dump shows them: a channel adapter on a port of its own."""
    leaves = fabric.of_kind("leaf")
    nodes = [Device(f"sharp-{leaf.name}", "nic", role="aggregation") for leaf in leaves]
    links = [
        Link(*ends, "ib", 50.0)
        for leaf, node in zip(leaves, nodes, strict=True)
        for ends in ((leaf.name, node.name), (node.name, leaf.name))
    ]
    return dataclasses.replace(
        fabric, devices=(*fabric.devices, *nodes), links=(*fabric.links, *links)
    )


def test_the_aggregation_node_of_a_switch_is_no_traffic_end_point() -> None:
    plain = two_tier(8)
    network = network_of(with_aggregation_nodes(plain))
    ends = {network.nodes[n] for n in network.end_points.tolist()}
    assert ends == {nic.name for nic in plain.of_kind("nic")}
    assert network.node("sharp-leaf0") not in network.end_points
    drawn = random_pairs(network, 1000)
    assert {network.nodes[n] for side in drawn for n in side.tolist()} == ends
    with pytest.raises(UsageError, match="sharp-leaf0 is the aggregation node of a switch"):
        trace(with_aggregation_nodes(plain), "sharp-leaf0", "n0/nic0", StaticHash())
