from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.topology.design.load import load_fabric
from clusterlab.topology.failures.breaking import break_fabric
from clusterlab.topology.routing.network import Network, network_of
from clusterlab.topology.routing.policy import Adaptive, Pinned, Policy, StaticHash
from clusterlab.topology.routing.repair import RepairReport, random_pairs, repair_report
from clusterlab.topology.routing.updown import route_pairs
from tests.topology.routing.clos_fabrics import three_tier, two_tier
from tests.topology.routing.random_networks import networks
from tests.topology.routing.test_updown import all_pairs, policies

POLICIES: list[Policy] = [StaticHash(), Pinned(), Adaptive()]


def broken(network: Network, cables: np.ndarray, policy: Policy) -> RepairReport:
    src, dst = all_pairs(network)
    return repair_report(network, network.without(cables), src, dst, policy)


def cut(report: RepairReport) -> list[float]:
    return [stage.cut for stage in report.stages]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_lost_leaf_uplink_with_a_parallel_one_is_repaired_by_the_switches_at_it(
    policy: Policy,
) -> None:
    network = network_of(two_tier(8, rails=1, spines=2, uplinks=4))
    parallel = network.between(network.node("leaf0"), network.node("spine0"))
    report = broken(network, parallel[:1], policy)
    whole, unnoticed, local, neighbours, rerouted = cut(report)
    assert report.failed == ("leaf0/spine0#0",)
    assert whole == 0 < unnoticed
    assert (local, neighbours, rerouted) == pytest.approx((0, 0, 0))
    assert [(x.switch, x.way, x.left) for x in report.losses] == [
        ("leaf0", "up", 0.75),
        ("spine0", "down", 0.75),
    ]
    assert report.losses[0].GBps_before == 4 * 48.0
    assert report.losses[0].GBps_after == 3 * 48.0


@pytest.mark.parametrize("policy", POLICIES)
def test_a_lost_only_cable_from_spine_to_leaf_needs_the_neighbours_to_hear_of_it(
    policy: Policy,
) -> None:
    network = network_of(two_tier(8, rails=1, spines=4, uplinks=4))
    only = network.between(network.node("leaf0"), network.node("spine0"))
    assert len(only) == 1
    _, unnoticed, local, neighbours, _ = cut(broken(network, only, policy))
    # leaf0 itself sends around it, but spine0 has no other way down: that half stays cut
    assert 0 < local < unnoticed
    assert neighbours == pytest.approx(0)
    if isinstance(policy, Adaptive):
        across = 2 * 4 * 4 / (8 * 7)  # pairs of different leaves
        assert (unnoticed, local) == pytest.approx((across / 4, across / 2 / 4))


@pytest.mark.parametrize("policy", POLICIES)
def test_a_lost_spine_costs_its_share_of_every_leaf_and_nobody_stays_cut(policy: Policy) -> None:
    network = network_of(three_tier(32, rails=1, hosts_per_su=4, sus_per_pod=4, uplinks=4))
    report = broken(network, network.at(network.node("spine0")), policy)
    assert {x.left for x in report.losses if x.switch.startswith("leaf")} == {0.75}
    assert cut(report)[-2:] == pytest.approx([0, 0])
    assert report.stages[-1].worst_share > report.stages[0].worst_share  # type: ignore[operator]
    assert report.cut_off == ()


@pytest.mark.parametrize("policy", POLICIES)
def test_a_lost_cable_of_a_nic_is_not_repaired_by_the_network(policy: Policy) -> None:
    network = network_of(two_tier())
    nic = network.node("n3/nic1")
    report = broken(network, network.at(nic), policy)
    ends = len(network.end_points)
    assert report.cut_off == ("n3/nic1",)
    assert cut(report)[1:] == pytest.approx(4 * [2 * (ends - 1) / (ends * (ends - 1))])


def test_local_repair_moves_only_what_was_cut_and_a_new_hash_moves_more() -> None:
    network = network_of(two_tier(16, rails=1, spines=2, uplinks=8))
    src, dst = all_pairs(network)
    lost = network.between(network.node("leaf0"), network.node("spine0"))[:1]
    report = repair_report(network, network.without(lost), src, dst, StaticHash())
    whole = route_pairs(network, src, dst, StaticHash())
    hit = (whole.cables == lost[0]).any(axis=1).mean()
    stages = {stage.name: stage for stage in report.stages}
    assert stages["local"].moved == stages["neighbours"].moved == hit
    assert stages["rerouted"].moved > 3 * hit  # type: ignore[operator]
    assert stages["rerouted"].seconds == (10.0, 20.0)
    assert stages["local"].seconds is None


@given(networks(broken=False), policies, st.data())
def test_each_stage_cuts_no_more_than_the_one_before_and_the_last_cuts_what_has_no_path(
    network: Network, policy: Policy, data: st.DataObject
) -> None:
    cables = data.draw(st.lists(st.integers(0, len(network.low) - 1), max_size=4))
    src, dst = all_pairs(network)
    after = network.without(cables)
    stages = cut(repair_report(network, after, src, dst, policy))
    assert all(a >= b - 1e-9 for a, b in pairwise(stages[1:]))
    unreached = ~route_pairs(after, src, dst, policy).reached
    assert stages[-1] == pytest.approx(unreached.sum() / (src != dst).sum())


def test_a_cable_at_half_width_cuts_nothing_but_is_a_loss() -> None:
    network = network_of(two_tier())
    after = network.without([])
    after.health[0] = 0.5
    src, dst = random_pairs(network, 1000)
    assert (src != dst).all()
    report = repair_report(network, after, src, dst, StaticHash())
    assert cut(report) == [0, 0, 0, 0, 0]
    assert sorted(loss.left for loss in report.losses) == [7 / 8, 15 / 16]
    assert report.to_json()["failed"] == (network.cable_name(0),)


def test_different_networks_are_not_compared() -> None:
    a, b = network_of(two_tier()), network_of(two_tier(4))
    with pytest.raises(UsageError, match="two different networks"):
        repair_report(a, b, a.end_points, a.end_points, Pinned())


def test_a_broken_fabric_is_compared_with_the_whole_one() -> None:
    whole = load_fabric("superpod-h100-1su")
    broken_fabric = break_fabric(whole, ["leaf3/spine2#1", "osfp4@n2", "spine1/leaf0:half"])
    before, after = network_of(whole), network_of(broken_fabric)
    src, dst = random_pairs(before, 20_000)
    report = repair_report(before, after, src, dst, StaticHash(), GBps=0.01)
    assert "leaf3/spine2#1" in report.failed
    assert len(report.failed) == 1 + 2 + len(
        before.between(before.node("leaf0"), before.node("spine1"))
    )
    assert report.cut_off == ("n2/nic0", "n2/nic3")
    ends = len(before.end_points)
    for stage in report.stages[2:]:
        assert stage.cut == pytest.approx(2 * 2 / ends, rel=0.2)
    assert {(x.switch, x.way, x.cables_after) for x in report.losses} >= {
        ("leaf3", "up", 31),
        ("leaf0", "up", 32),
    }
