"""Orders of hosts: never worse than the given one, and better where neighbours were apart."""

from __future__ import annotations

from random import Random

import pytest

from clusterlab.cost.placing.orders import host_orders, neighbourhoods
from clusterlab.cost.placing.pattern import read_pattern
from clusterlab.cost.placing.propose import Job, propose
from clusterlab.topology.rank_order import host_of_each_rank
from tests.cost.fabrics import load_fabric

POD = load_fabric("superpod-h100-4su")


def job(hosts: int, pattern: str, **more: object) -> Job:
    return Job(8 * hosts, 8, read_pattern(pattern, 8 * hosts), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(6))
def test_a_scattered_allocation_is_never_made_worse_and_a_hash_gains(seed: int) -> None:
    random = Random(seed)
    hosts = random.sample(POD.hosts, 12)
    given = host_of_each_rank(hosts, 96, 8, random.choice(["block", "cyclic", "plane=4"]))
    plain = propose(POD, given, job(12, "tp8,dp"))
    hashed = propose(POD, given, job(12, "tp8,dp", routing="hash"))
    for found in (plain, hashed):
        assert found.best.time_us <= found.given.time_us
        assert sorted(found.best.hosts) == sorted(given)
    assert hashed.given.time_us >= plain.given.time_us * (1 - 1e-9)


def test_tensor_parallel_groups_spread_over_hosts_are_brought_together() -> None:
    hosts = ["n0", "n40", "n1", "n41"]
    given = host_of_each_rank(hosts, 32, 8, "cyclic")
    found = propose(POD, given, job(4, "tp8:64M*512,dp"))
    assert found.gain > 1.5
    assert found.best.hosts[:8] == (found.best.hosts[0],) * 8


def test_hosts_of_one_leaf_come_side_by_side_and_blocks_stay_whole() -> None:
    hosts = ["n0", "n33", "n1", "n34", "n2", "n64"]
    near = [leaf for pod in neighbourhoods(POD, hosts) for leaf in pod]
    assert sorted(map(sorted, near)) == sorted(
        map(sorted, [["n0", "n1", "n2"], ["n33", "n34"], ["n64"]])
    )
    orders = list(host_orders(POD, hosts, [2]))
    assert orders[0] == tuple(hosts)
    assert len(set(orders)) == len(orders)
    assert all(sorted(order) == sorted(hosts) for order in orders)
    assert any(
        {*order[:2]} < {"n0", "n1", "n2"} and {*order[2:4]} == {"n33", "n34"} for order in orders
    )
