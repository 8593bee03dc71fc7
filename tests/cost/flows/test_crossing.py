"""Kinds of end points against every flow on its own, with and without damage."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.cost.flows.crossing import UNHINDERED, Routing, crossings
from clusterlab.cost.flows.patterns import Pattern, host_pairs
from clusterlab.topology.design.clos import Clos
from clusterlab.topology.fabric import Fabric
from tests.cost.flows.explicit import Flow, finish_times
from tests.topology.routing.clos_fabrics import NDR, fabric_of

PATTERNS: tuple[Pattern, ...] = ("ring", "tree", "doubling", "all")


def pods(hosts: int, *, rails: int, uplinks: int, spines: int, per_su: int) -> Fabric:
    shape = Clos(
        hosts_per_su=per_su, rails=rails, spines=spines, uplinks=uplinks,
        kinds={"leaf": NDR, "spine": NDR},
    )  # fmt: skip
    return fabric_of(shape, hosts, gpus=True)


def damaged(fabric: Fabric, seed: int, count: int, health: float, kinds: tuple[str, str]) -> Fabric:
    """``count`` links between devices of ``kinds`` at ``health``, both ways."""
    between = sorted(
        {
            tuple(sorted((k.src, k.dst)))
            for k in fabric.network_links
            if {fabric.kind_of(k.src), fabric.kind_of(k.dst)} == set(kinds)
        }
    )
    hurt = set(Random(seed).sample(between, min(count, len(between))))
    changes = {
        (k.src, k.dst): [replace(k, health=health)]
        for k in fabric.network_links
        if tuple(sorted((k.src, k.dst))) in hurt
    }
    return fabric.with_links(changes)


def gpus(fabric: Fabric, hosts: list[str] | None = None) -> list[str]:
    return [g.name for host in hosts or fabric.hosts for g in fabric.on_host(host, "gpu")]


def explicit_share(fabric: Fabric, devices: list[str], pattern: Pattern) -> float:
    """The same by the referee: how much later the last flow ends than by the NICs alone."""
    hosts = list(dict.fromkeys(d.partition("/")[0] for d in devices))
    rails = len(fabric.on_host(hosts[0], "nic"))
    n = len(hosts)
    if pattern == "all":
        pairs = [(a, b, 1 / (n - 1)) for a in range(n) for b in range(n) if a != b]
    else:
        found = host_pairs(pattern, n)
        pairs = list(
            zip(found.src.tolist(), found.dst.tolist(), found.amount.tolist(), strict=True)
        )
    flows: list[Flow] = [
        (f"{hosts[a]}/nic{lane}", f"{hosts[b]}/nic{lane}", amount / rails)
        for a, b, amount in pairs
        for lane in range(rails)
    ]
    last = finish_times(fabric, flows).max()
    sent, taken = np.zeros(n), np.zeros(n)
    for a, b, amount in pairs:
        sent[a] += amount
        taken[b] += amount
    rate = [
        sum(
            k.capacity_GBps or 0
            for k in fabric.links_from(f"{hosts[0]}/nic0")
            if k.link_class == "ib"
        )
    ]
    return float(max(sent.max(), taken.max()) / rails / rate[0] / last)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("hurt", [(0, 1.0), (1, 0.5), (3, 0.5), (2, 0.0)])
@pytest.mark.parametrize("uplinks", [2, 4])
def test_kinds_equal_every_flow_on_its_own(
    pattern: Pattern, hurt: tuple[int, float], uplinks: int
) -> None:
    """32 hosts of 8 GPUs: 256 ranks. Trees carry unequal amounts per host; equal ones per flow."""
    whole = pods(32, rails=8, uplinks=uplinks, spines=2, per_su=8)
    fabric = damaged(whole, 7, *hurt, ("leaf", "spine"))
    (found,) = crossings(fabric, [gpus(fabric)], pattern)
    if pattern in {"all", "ring"}:
        assert found.share == pytest.approx(explicit_share(fabric, gpus(fabric), pattern), rel=1e-9)
    assert 0 < found.share <= 1
    assert (found.cable is None) == (found.share == 1)


few = settings(max_examples=40, deadline=None)


@few
@given(
    st.integers(2, 10), st.integers(1, 3), st.integers(1, 4), st.integers(1, 3), st.integers(1, 5),
    st.integers(0, 99), st.integers(0, 3), st.sampled_from((0.25, 0.5, 1.0)), st.randoms(),
)  # fmt: skip
def test_a_ring_in_any_order_equals_its_flows(
    hosts: int, rails: int, uplinks: int, spines: int, per_su: int,
    seed: int, count: int, health: float, random: Random,
) -> None:  # fmt: skip
    fabric = pods(hosts, rails=rails, uplinks=spines * uplinks, spines=spines, per_su=per_su)
    fabric = damaged(fabric, seed, count, health, ("leaf", "spine"))
    order = list(fabric.hosts)
    random.shuffle(order)
    devices = gpus(fabric, order)
    (found,) = crossings(fabric, [devices], "ring")
    assert found.share == pytest.approx(explicit_share(fabric, devices, "ring"), rel=1e-9)


@few
@given(
    st.sampled_from(PATTERNS), st.integers(0, 99), st.integers(1, 6), st.sampled_from((0.0, 0.25, 0.5)),
    st.sampled_from((2, 4)),
)  # fmt: skip
def test_damage_never_leaves_more_than_the_whole_network(
    pattern: Pattern, seed: int, count: int, health: float, uplinks: int
) -> None:
    """Of two damaged networks the one with more damage may come out better: a second slow cable can draw
    traffic off the first, since every switch splits by what it sees of itself.
    """
    whole = pods(12, rails=2, uplinks=uplinks, spines=2, per_su=4)
    worse = damaged(whole, seed, count, health, ("leaf", "spine"))
    devices = gpus(whole)
    try:
        (after,) = crossings(worse, [devices], pattern)
    except UsageError:
        return
    (before,) = crossings(whole, [devices], pattern)
    assert after.share <= before.share * (1 + 1e-9)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("routing", ["hash", "pinned"])
def test_a_choice_per_flow_is_never_better_than_spreading(
    pattern: Pattern, routing: Routing
) -> None:
    fabric = pods(16, rails=2, uplinks=4, spines=2, per_su=4)
    order = list(fabric.hosts)
    Random(3).shuffle(order)
    devices = gpus(fabric, order)
    (spread,) = crossings(fabric, [devices], pattern)
    (chosen,) = crossings(fabric, [devices], pattern, routing)
    assert chosen.worst <= chosen.share <= spread.share
    assert chosen == crossings(fabric, [devices], pattern, routing)[0]
    if pattern == "ring":
        assert chosen.share < 0.9


def test_groups_that_run_at_once_share_what_they_both_cross() -> None:
    """Two rings across the pods on the same rails get half each of 2:1 uplinks; apart they get all."""
    fabric = pods(8, rails=2, uplinks=4, spines=2, per_su=4)
    across = [gpus(fabric, ["n0", "n4"]), gpus(fabric, ["n1", "n5"])]
    alone = crossings(fabric, across[:1], "ring")[0]
    assert alone == UNHINDERED
    four = [gpus(fabric, [f"n{i}", f"n{i + 4}"]) for i in range(4)]
    narrow = pods(8, rails=2, uplinks=2, spines=2, per_su=4)
    assert [c.share for c in crossings(fabric, four, "ring")] == [1.0] * 4
    assert [c.share for c in crossings(narrow, four, "ring")] == pytest.approx([0.5] * 4)
    assert crossings(narrow, four[:2], "ring")[0].share == 1.0


def test_ranks_of_one_host_cross_nothing_and_a_cut_network_is_an_error() -> None:
    fabric = pods(4, rails=1, uplinks=2, spines=2, per_su=2)
    assert crossings(fabric, [gpus(fabric, ["n0"])], "ring") == (UNHINDERED,)
    cut = damaged(fabric, 0, 99, 0.0, ("leaf", "spine"))
    with pytest.raises(UsageError, match="cut in two"):
        crossings(cut, [gpus(cut)], "ring")
    dead = damaged(fabric, 0, 1, 0.0, ("nic", "leaf"))
    with pytest.raises(UsageError, match="no NIC of"):
        crossings(dead, [gpus(dead)], "ring")
