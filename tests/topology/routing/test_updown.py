import itertools

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.topology.routing.load import cable_load
from clusterlab.topology.routing.network import Network, network_of
from clusterlab.topology.routing.policy import Adaptive, Pinned, Policy, StaticHash
from clusterlab.topology.routing.updown import Routes, route_pairs
from tests.topology.routing.clos_fabrics import three_tier, two_tier
from tests.topology.routing.random_networks import any_way_graph, networks, up_down_graph

policies: st.SearchStrategy[Policy] = st.one_of(
    st.builds(StaticHash, seed=st.integers(0, 9), alike=st.booleans()),
    st.builds(Adaptive, seed=st.integers(0, 9)),
    st.just(Pinned()),
)


def all_pairs(network: Network) -> tuple[np.ndarray, np.ndarray]:
    pairs = np.array(list(itertools.product(network.end_points, repeat=2)))
    return pairs[:, 0], pairs[:, 1]


def nodes_on(network: Network, routes: Routes, pair: int, src: int) -> list[int]:
    """Walks the path as a packet would; fails where a cable is down or does not begin here."""
    here, seen = src, [src]
    for hop in range(routes.length[pair]):
        cable = routes.cables[pair, hop]
        assert network.live[cable]
        ends = (network.low[cable], network.high[cable])
        start, end = ends[::-1] if routes.back[pair, hop] else ends
        assert start == here
        here = int(end)
        seen.append(here)
    assert (routes.cables[pair, routes.length[pair] :] == -1).all()
    return seen


@given(networks(), policies)
def test_paths_are_live_and_as_short_as_up_down_paths_can_be_where_there_are_such(
    network: Network, policy: Policy
) -> None:
    src, dst = all_pairs(network)
    routes = route_pairs(network, src, dst, policy)
    graph, any_way = up_down_graph(network), any_way_graph(network)
    for pair, (a, b) in enumerate(zip(src.tolist(), dst.tolist(), strict=True)):
        if a == b:
            assert routes.reached[pair]
            assert routes.length[pair] == 0
            continue
        ends = (a, "up"), (b, "down")
        up_down = nx.has_path(graph, *ends)
        assert routes.reached[pair] == nx.has_path(any_way, *ends)
        assert routes.minimal[pair] == (routes.reached[pair] and not up_down)
        if routes.reached[pair]:
            assert nodes_on(network, routes, pair, a)[-1] == b
            by = (graph, "weight") if up_down else (any_way, None)
            assert routes.length[pair] == nx.shortest_path_length(by[0], *ends, weight=by[1])
        if up_down:
            backs = routes.back[pair, : routes.length[pair]].tolist()
            assert backs == sorted(backs)
            assert backs.count(False) == routes.ups[pair]
        if not routes.reached[pair]:
            assert (routes.cables[pair] == -1).all()


@given(networks(broken=False), policies, st.data())
def test_any_single_failure_that_leaves_a_path_leaves_the_pair_reached(
    network: Network, policy: Policy, data: st.DataObject
) -> None:
    lost = data.draw(st.integers(0, len(network.low) - 1))
    src, dst = all_pairs(network)
    after = network.without([lost])
    routes = route_pairs(after, src, dst, policy)
    graph = any_way_graph(after)
    for pair, (a, b) in enumerate(zip(src.tolist(), dst.tolist(), strict=True)):
        assert routes.reached[pair] == (a == b or nx.has_path(graph, (a, "up"), (b, "down")))
        assert lost not in routes.cables[pair]


def test_a_whole_clos_survives_the_loss_of_every_cable_between_switches() -> None:
    network = network_of(two_tier())
    src, dst = all_pairs(network)
    for cable in np.flatnonzero(network.low < network.switches):
        assert route_pairs(network.without([cable]), src, dst, StaticHash()).reached.all()


@pytest.mark.parametrize("policy", [StaticHash(), Adaptive(), Pinned()])
def test_same_leaf_same_pod_and_far_pod_take_two_four_and_six_cables(policy: Policy) -> None:
    network = network_of(three_tier(8, rails=2, hosts_per_su=2, sus_per_pod=2, uplinks=2))
    start = network.node("n0/nic0")
    near = [network.node(f"n{i}/nic0") for i in (1, 2, 4)]
    routes = route_pairs(network, np.full(3, start), np.array(near), policy)
    assert routes.length.tolist() == [2, 4, 6]
    assert routes.ups.tolist() == [1, 2, 3]
    tiers = [network.tier[nodes_on(network, routes, p, start)].tolist() for p in range(3)]
    assert tiers == [[0, 1, 0], [0, 1, 2, 1, 0], [0, 1, 2, 3, 2, 1, 0]]


def test_the_same_hash_inputs_give_the_same_paths_whatever_else_is_routed() -> None:
    network = network_of(two_tier())
    src, dst = all_pairs(network)
    every = route_pairs(network, src, dst, StaticHash(seed=3))
    some = np.arange(0, len(src), 7)
    alone = route_pairs(network, src[some], dst[some], StaticHash(seed=3))
    assert (alone.cables == every.cables[some]).all()
    labels = np.arange(len(src))
    assert (
        route_pairs(network, src, dst, StaticHash(), labels=labels).cables != every.cables
    ).any()


def test_hash_choices_are_uniform_over_the_uplinks() -> None:
    scipy_stats = pytest.importorskip("scipy.stats")
    network = network_of(two_tier(8, rails=1, spines=4, uplinks=8))
    src = np.full(40_000, network.node("n0/nic0"))
    dst = np.full(40_000, network.node("n7/nic0"))
    for seed in range(3):
        routes = route_pairs(network, src, dst, StaticHash(seed=seed), labels=np.arange(40_000))
        for hop in (1, 2):
            _, seen = np.unique(routes.cables[:, hop], return_counts=True)
            assert len(seen) == 8
            assert scipy_stats.chisquare(seen).pvalue > 0.001


def test_switches_that_hash_alike_use_only_some_cables_of_the_next_tier() -> None:
    fabric = three_tier(16, rails=1, hosts_per_su=4, sus_per_pod=2, uplinks=4)
    network = network_of(fabric)
    src = np.full(5000, network.node("n0/nic0"))
    dst = np.full(5000, network.node("n15/nic0"))
    labels = np.arange(5000)

    def used(policy: StaticHash) -> int:
        return len(np.unique(route_pairs(network, src, dst, policy, labels=labels).cables[:, 2]))

    assert used(StaticHash()) == 8  # two spines with four uplinks each
    assert used(StaticHash(alike=True)) == 4


def test_adaptive_draws_follow_the_capacity_left() -> None:
    network = network_of(two_tier(2, rails=1, spines=2, uplinks=2))
    leaf = network.node("leaf0")
    half = int(network.at(leaf)[np.isin(network.high[network.at(leaf)], network.node("spine0"))][0])
    network.health[half] = 0.5
    pairs = 30_000
    routes = route_pairs(
        network,
        np.full(pairs, network.node("n0/nic0")),
        np.full(pairs, network.node("n1/nic0")),
        Adaptive(),
        labels=np.arange(pairs),
    )
    share = (routes.cables[:, 1] == half).mean()
    assert share == pytest.approx(1 / 3, abs=0.01)


def test_pinned_routes_depend_on_switch_and_destination_only() -> None:
    network = network_of(three_tier(16, rails=2, hosts_per_su=4, sus_per_pod=2, uplinks=4))
    src, dst = all_pairs(network)
    routes = route_pairs(network, src, dst, Pinned())
    next_hop: dict[tuple[int, int], int] = {}
    for pair, (a, b) in enumerate(zip(src.tolist(), dst.tolist(), strict=True)):
        here = nodes_on(network, routes, pair, a)
        for hop in range(routes.length[pair]):
            cable = int(routes.cables[pair, hop])
            assert next_hop.setdefault((here[hop], b), cable) == cable


def test_pinned_routes_carry_any_shift_without_sharing_a_cable() -> None:
    network = network_of(three_tier(32, rails=1, hosts_per_su=4, sus_per_pod=4, uplinks=4))
    nics = np.array([network.node(f"n{i}/nic0") for i in range(32)])
    for shift in range(1, 32):
        routes = route_pairs(network, nics, np.roll(nics, shift), Pinned())
        assert cable_load(network, routes).max() == 1


def test_a_nic_on_two_planes_uses_both_and_stays_in_the_plane_it_took() -> None:
    network = network_of(three_tier(8, rails=1, hosts_per_su=2, sus_per_pod=2, uplinks=2, planes=2))
    src = np.full(1000, network.node("n0/nic0"))
    dst = np.full(1000, network.node("n7/nic0"))
    routes = route_pairs(network, src, dst, StaticHash(), labels=np.arange(1000))
    plane = np.array([link.plane for link in network.links])[network.up_link]
    taken = plane[routes.cables]
    assert (taken == taken[:, :1]).all()
    assert 400 < (taken[:, 0] == 0).sum() < 600
    first = network.at(int(src[0]))
    alone = route_pairs(network.without([int(first[0])]), src, dst, StaticHash())
    assert (plane[alone.cables] == 1).all()


def test_wrong_nodes_are_refused() -> None:
    network = network_of(two_tier())
    nics = network.end_points
    with pytest.raises(UsageError, match="end points: 6 to 21"):
        route_pairs(network, np.array([0]), nics[:1], StaticHash())
    with pytest.raises(UsageError, match="one for each of 1 pairs"):
        route_pairs(network, nics[:1], nics[:2], StaticHash())
    with pytest.raises(UsageError, match=r"'n0/nic9' has no cable.*did you mean"):
        network.node("n0/nic9")
