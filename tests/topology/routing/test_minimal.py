"""Networks whose switches are joined within a tier, or whose end points hang high up."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given

from clusterlab.core.errors import UsageError
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.failures.connected import reach
from clusterlab.topology.parts import Device, DeviceKind, Link
from clusterlab.topology.routing.explain import trace
from clusterlab.topology.routing.fluid_load import fluid_load
from clusterlab.topology.routing.load import cable_load, load_by_tier
from clusterlab.topology.routing.network import Network, network_of
from clusterlab.topology.routing.policy import Adaptive, Pinned, Policy, StaticHash
from clusterlab.topology.routing.repair import repair_report
from clusterlab.topology.routing.updown import route_pairs
from tests.topology.routing.random_networks import networks
from tests.topology.routing.test_updown import all_pairs

POLICIES: list[Policy] = [StaticHash(), Pinned(), Adaptive()]


def joined(
    switches: Sequence[str],
    cables: Sequence[tuple[str, str]],
    *,
    parallel: int = 1,
    kind: DeviceKind = "leaf",
    on: Sequence[str] | None = None,
) -> Fabric:
    """Switches of one kind with ``cables``, and a host with one NIC on each (or each of ``on``)."""
    homes = switches if on is None else on
    devices = [Device(name, kind) for name in switches]
    devices += [Device(f"n{i}/nic0", "nic", host=f"n{i}") for i in range(len(homes))]
    links = [
        Link(x, y, "ib", 50.0, multiplicity=parallel)
        for a, b in cables
        for x, y in ((a, b), (b, a))
    ]
    links += [
        Link(x, y, "ib", 50.0)
        for i, home in enumerate(homes)
        for x, y in ((f"n{i}/nic0", home), (home, f"n{i}/nic0"))
    ]
    return Fabric("net", tuple(devices), tuple(links))


def numbered(count: int) -> list[str]:
    return [f"sw{i}" for i in range(count)]


def dragonfly(groups: int = 3, each: int = 3) -> Fabric:
    """Groups of switches all joined to each other, one cable between any two groups."""
    names = [[f"g{g}s{s}" for s in range(each)] for g in range(groups)]
    cables = [pair for group in names for pair in combinations(group, 2)]
    cables += [(names[a][b % each], names[b][a % each]) for a, b in combinations(range(groups), 2)]
    return joined([s for group in names for s in group], cables)


def tree(depth: int) -> Fabric:
    switches = numbered(2**depth - 1)
    return joined(
        switches, [(switches[(i - 1) // 2], switches[i]) for i in range(1, len(switches))]
    )


FABRICS = {
    "two leaves": joined(numbered(2), [("sw0", "sw1")], parallel=8),
    "a chain": joined(numbered(12), list(pairwise(numbered(12)))),
    "a ring": joined(numbered(7), [*pairwise(numbered(7)), ("sw6", "sw0")]),
    "a dragonfly": dragonfly(),
    "a deep tree": tree(5),
}


@pytest.mark.parametrize("name", FABRICS)
@pytest.mark.parametrize("policy", POLICIES)
def test_switches_joined_within_a_tier_reach_each_other(name: str, policy: Policy) -> None:
    fabric = FABRICS[name]
    network = network_of(fabric)
    src, dst = all_pairs(network)
    routes = route_pairs(network, src, dst, policy)
    assert routes.reached.all()
    assert routes.minimal.any()
    ends = len(network.end_points)
    assert reach(fabric).pairs == ends * (ends - 1) // 2
    last = f"n{ends - 1}/nic0"
    found = trace(fabric, "n0/nic0", last, policy)
    assert (found.type, found.GBps) == ("NET", 50)
    assert [hop.src for hop in found.hops[1:]] == [hop.dst for hop in found.hops[:-1]]
    assert (found.hops[0].src, found.hops[-1].dst) == ("n0/nic0", last)


def test_a_path_within_a_tier_says_so_in_text_and_json() -> None:
    found = trace(FABRICS["two leaves"], "n0/nic0", "n1/nic0", StaticHash())
    assert found.to_json()["not_up_down"] == "minimal routing: 1 cable between leaves"
    assert "minimal routing: 1 cable between leaves" in found.text()
    assert [hop.ways for hop in found.hops] == [1, 8, 1]
    again = trace(FABRICS["two leaves"], "n0/nic0", "n1/nic0", StaticHash())
    assert again == found


def test_end_points_on_two_spines_meet_below_them() -> None:
    fabric = joined(["spine0", "spine1"], [], kind="spine")
    links = [
        Link(x, y, "ib", 50.0)
        for s in ("spine0", "spine1")
        for x, y in ((s, "leaf0"), ("leaf0", s))
    ]
    whole = Fabric("net", (*fabric.devices, Device("leaf0", "leaf")), (*fabric.links, *links))
    found = trace(whole, "n0/nic0", "n1/nic0", StaticHash())
    assert [hop.dst for hop in found.hops] == ["spine0", "leaf0", "spine1", "n1/nic0"]
    assert found.not_up_down == "minimal routing: up again at leaf0"


def test_an_up_down_path_is_preferred_to_a_shorter_one_within_the_tier() -> None:
    fabric = joined(numbered(2), [("sw0", "sw1")])
    links = [
        Link(x, y, "ib", 50.0) for s in ("sw0", "sw1") for x, y in ((s, "spine0"), ("spine0", s))
    ]
    whole = Fabric("net", (*fabric.devices, Device("spine0", "spine")), (*fabric.links, *links))
    found = trace(whole, "n0/nic0", "n1/nic0", StaticHash())
    assert [hop.dst for hop in found.hops] == ["sw0", "spine0", "sw1", "n1/nic0"]
    assert found.not_up_down is None


@pytest.mark.parametrize("policy", POLICIES)
def test_a_cut_chain_is_cut_there_and_only_there(policy: Policy) -> None:
    network = network_of(FABRICS["a chain"])
    after = network.without(network.between(network.node("sw3"), network.node("sw4")))
    src, dst = all_pairs(network)
    report = repair_report(network, after, src, dst, policy)
    assert report.stages[0].cut == 0
    assert report.stages[-1].cut == pytest.approx(2 * 4 * 8 / (12 * 11))
    assert [(x.switch, x.way, x.left) for x in report.losses] == [
        ("sw3", "level", 0.5),
        ("sw4", "level", 0.5),
    ]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_ring_heals_the_long_way_round(policy: Policy) -> None:
    network = network_of(FABRICS["a ring"])
    after = network.without(network.between(network.node("sw0"), network.node("sw1")))
    src, dst = all_pairs(network)
    stages = {s.name: s.cut for s in repair_report(network, after, src, dst, policy).stages}
    assert stages["whole"] == pytest.approx(0)
    assert stages["unnoticed"] > 0
    assert stages["neighbours"] == stages["rerouted"] == pytest.approx(0)


def test_paths_within_a_tier_load_their_cables() -> None:
    network = network_of(FABRICS["a chain"])
    src, dst = all_pairs(network)
    load = cable_load(network, route_pairs(network, src, dst, StaticHash()))
    middle = int(network.between(network.node("sw5"), network.node("sw6"))[0])
    assert load[:, middle].tolist() == [36, 36]
    rows = {row.between: row.worst for row in load_by_tier(network, load, in_GBps=False)}
    assert rows["leaf-leaf one way"] == rows["leaf-leaf other way"] == 36
    fluid = fluid_load(network, src, dst, 1.0)
    assert fluid.load == pytest.approx(load)
    assert fluid.lost == pytest.approx(0)


@given(networks())
def test_all_that_leaves_in_a_fluid_is_lost_or_arrives(network: Network) -> None:
    src, dst = all_pairs(network)
    fluid = fluid_load(network, src, dst, 1.0)
    arrives = fluid.load[1, network.low >= network.switches].sum()
    assert fluid.lost + arrives == pytest.approx((src != dst).sum())
    reached = route_pairs(network, src, dst, StaticHash()).reached
    assert fluid.lost == pytest.approx((~reached).sum(), abs=1e-9)


def test_blocks_of_destinations_change_no_path(monkeypatch: pytest.MonkeyPatch) -> None:
    network = network_of(FABRICS["a dragonfly"])
    src, dst = all_pairs(network)
    whole = route_pairs(network, src, dst, StaticHash())
    monkeypatch.setattr("clusterlab.topology.routing.minimal._CELLS", 1)
    assert np.array_equal(route_pairs(network, src, dst, StaticHash()).cables, whole.cables)


def test_more_cables_than_can_be_held_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    network = network_of(FABRICS["a chain"])
    src, dst = all_pairs(network)
    monkeypatch.setattr("clusterlab.topology.routing.minimal._MOST_HOPS", 1000)
    with pytest.raises(UsageError, match=r"paths of up to 13 cables"):
        route_pairs(network, src, dst, StaticHash())
