import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.topology.routing.fluid_load import fluid_load
from clusterlab.topology.routing.load import cable_load, collisions, load_by_tier
from clusterlab.topology.routing.network import Network, network_of
from clusterlab.topology.routing.policy import Adaptive, Pinned, StaticHash, expected_collisions
from clusterlab.topology.routing.updown import route_pairs
from tests.topology.routing.clos_fabrics import three_tier, two_tier
from tests.topology.routing.random_networks import networks
from tests.topology.routing.test_updown import all_pairs


def balance(network: Network, load: np.ndarray) -> np.ndarray:
    """[nodes] what arrives minus what leaves."""
    net = np.zeros(len(network.nodes))
    np.add.at(net, network.high, load[0] - load[1])
    np.add.at(net, network.low, load[1] - load[0])
    return net


@settings(deadline=None)  # the first network that needs scipy pays for its import
@given(networks(), st.integers(0, 1000))
def test_a_fluid_is_conserved_at_every_switch_and_arrives_where_it_should(
    network: Network, seed: int
) -> None:
    src, dst = all_pairs(network)
    rate = np.random.default_rng(seed).uniform(0.5, 2.0, len(src))
    fluid = fluid_load(network, src, dst, rate)
    reached = route_pairs(network, src, dst, StaticHash()).reached & (src != dst)
    expected = np.zeros(len(network.nodes))
    np.add.at(expected, dst[reached], rate[reached])
    np.add.at(expected, src[reached], -rate[reached])
    assert balance(network, fluid.load) == pytest.approx(expected, abs=1e-9)
    assert fluid.lost == pytest.approx(rate[(src != dst) & ~reached].sum(), abs=1e-9)
    assert (fluid.load[:, ~network.live] == 0).all()
    assert (fluid.load >= 0).all()


@settings(deadline=None)
@given(networks(), st.integers(0, 1000))
def test_few_flows_moved_together_are_as_many_moved_switch_by_switch(
    network: Network, seed: int
) -> None:
    src, dst = all_pairs(network)
    drawn = np.random.default_rng(seed)
    rate = drawn.uniform(0.5, 2.0, len(src)) * drawn.integers(0, 2, len(src))
    broken = drawn.random(len(network.low)) < 0.1
    together = fluid_load(network, src, dst, rate, broken=broken)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("clusterlab.topology.routing.fluid_load._AT_ONCE", -1)
        one_by_one = fluid_load(network, src, dst, rate, broken=broken)
    assert together.load == pytest.approx(one_by_one.load, abs=1e-9)
    assert together.lost == pytest.approx(one_by_one.lost, abs=1e-9)


@given(networks(), st.integers(0, 3))
def test_the_load_of_paths_is_conserved(network: Network, seed: int) -> None:
    src, dst = all_pairs(network)
    routes = route_pairs(network, src, dst, StaticHash(seed=seed))
    net = balance(network, cable_load(network, routes))
    assert (net[: network.switches] == 0).all()
    assert cable_load(network, routes).sum() == routes.length.sum()


def test_many_adaptive_packets_load_cables_as_the_fluid_does() -> None:
    network = network_of(two_tier(4, rails=1, spines=2, uplinks=4))
    network.health[network.between(network.node("leaf0"), network.node("spine1"))[0]] = 0.5
    src, dst = (np.repeat(pairs, 4000) for pairs in all_pairs(network))
    routes = route_pairs(network, src, dst, Adaptive(), labels=np.arange(len(src)))
    packets = cable_load(network, routes) / 4000
    fluid = fluid_load(network, src, dst, 1 / 4000)
    assert packets == pytest.approx(fluid.load, abs=0.05)


def test_the_fluid_fills_a_whole_clos_evenly_in_blocks_too(monkeypatch: pytest.MonkeyPatch) -> None:
    network = network_of(three_tier(16, rails=2, hosts_per_su=4, sus_per_pod=2, uplinks=4))
    src, dst = all_pairs(network)
    whole = fluid_load(network, src, dst, 1.0)
    for tier in load_by_tier(network, whole.load, in_GBps=True):
        assert tier.imbalance == pytest.approx(1.0)
        assert tier.worst_share == pytest.approx(tier.worst / 48.0)
    monkeypatch.setattr("clusterlab.topology.routing.fluid_load._CELLS", 60)
    assert fluid_load(network, src, dst, 1.0).load == pytest.approx(whole.load)


def test_an_oversubscribed_leaf_shows_in_the_worst_link_load() -> None:
    network = network_of(two_tier(8, rails=1, spines=1, uplinks=2))
    nics = np.array([network.node(f"n{i}/nic0") for i in range(8)])
    fluid = fluid_load(network, nics, np.roll(nics, 4), 48.0)
    tiers = {t.between: t for t in load_by_tier(network, fluid.load, in_GBps=True)}
    assert tiers["end point-leaf up"].worst_share == pytest.approx(1.0)
    assert tiers["leaf-spine up"].worst_share == pytest.approx(2.0)
    assert tiers["leaf-spine up"].cable == "leaf0/spine0#0"


def test_collisions_of_a_hash_are_as_many_as_chance_gives_and_pinned_shifts_have_none() -> None:
    network = network_of(two_tier(64, rails=1, spines=8, uplinks=32))
    nics = np.array([network.node(f"n{i}/nic0") for i in range(64)])
    found = [
        collisions(network, route_pairs(network, nics, np.roll(nics, 32), StaticHash(seed=s)))
        for s in range(200)
    ]
    assert found[0].expected == pytest.approx(2 * expected_collisions(32, 32))
    assert np.mean([c.shared for c in found]) == pytest.approx(found[0].expected, rel=0.03)
    assert all(c.flows == 64 for c in found)
    pinned = collisions(network, route_pairs(network, nics, np.roll(nics, 32), Pinned()))
    assert (pinned.shared, pinned.worst) == (0, 1)


def test_expected_collisions_by_hand() -> None:
    assert expected_collisions(1, 4) == 0
    assert expected_collisions(2, 4) == pytest.approx(1 / 4)
    assert expected_collisions(5, 1) == pytest.approx(4)
    assert expected_collisions(5, 0) == 0
