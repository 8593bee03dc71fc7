"""The slow cable of any fabric is named from what pairs get, and nothing else is."""

from __future__ import annotations

import random
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.cost.gloo.ways import gloo_ways
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.opening import open_fabric
from clusterlab.topology.routing.network import network_of
from clusterlab.verdict.localise.messages import Message, Step, of_messages
from clusterlab.verdict.localise.types import Suspect

FABRICS = {name: open_fabric(name) for name in ("lab-8x1", "lab-rails-4x2", "lab-2to1-4x2")}


def ways(fabric: Fabric) -> dict[tuple[int, int], tuple[Step, ...]]:
    gpus = [gpu.name for gpu in fabric.of_kind("gpu")]
    pairs = [
        (i, j)
        for i, j in permutations(range(len(gpus)), 2)
        if fabric.host_of(gpus[i]) != fabric.host_of(gpus[j])
    ]
    found = gloo_ways(fabric, [(gpus[i], gpus[j]) for i, j in pairs], "pinned")
    return {
        (i, j): tuple((c.link.src, c.link.dst) for c in found[gpus[i], gpus[j]] if c.link.GBps)
        for i, j in pairs
    }


WAYS = {name: ways(fabric) for name, fabric in FABRICS.items()}
CABLES = {
    name: [frozenset((link.src, link.dst)) for link in network_of(fabric).links]
    for name, fabric in FABRICS.items()
}


def slow_links(measured: list[Message]) -> tuple[Suspect, ...]:
    """What is named."""
    return of_messages(measured).faults


def cables_of(found: Suspect) -> set[frozenset[str]]:
    return {frozenset(link.split("->")) for link in found.links}


def messages(
    name: str, slow: dict[frozenset[str], float], seed: int, *, expected: bool = True
) -> list[Message]:
    """What pairs of ranks get alone, up to 4 % off, when cables of ``slow`` carry only that share."""
    draw = random.Random(seed)
    return [
        Message(
            ranks,
            0.0245 * min(slow.get(frozenset(step), 1.0) for step in way) * draw.uniform(0.96, 1.0),
            0.0245 if expected else None,
            "between hosts",
            way,
        )
        for ranks, way in WAYS[name].items()
    ]


@settings(deadline=None)
@given(st.sampled_from(list(FABRICS)), st.data(), st.floats(0.05, 0.7), st.integers(0, 999))
def test_a_slow_cable_is_named_with_what_it_carries(
    name: str, data: st.DataObject, share: float, seed: int
) -> None:
    cable = data.draw(st.sampled_from(CABLES[name]))
    crossed = [r for r, way in WAYS[name].items() if cable in map(frozenset, way)]
    found = slow_links(messages(name, {cable: share}, seed))
    if not crossed:  # a cable that the routing leaves idle is beyond what pairs can tell
        assert found == ()
        return
    assert cable in {one for link in found for one in cables_of(link)}
    assert sum(len(link.slow) for link in found) == len(crossed)
    for link in found:
        assert link.rate / link.usual == pytest.approx(share, rel=0.1)
        # What else is named carries the same messages to the last one: nothing can tell them apart.
        for one in cables_of(link):
            same = {r for r, way in WAYS[name].items() if one in map(frozenset, way)}
            assert same <= set(crossed)


@pytest.mark.parametrize("cable", CABLES["lab-8x1"], ids=lambda c: "/".join(sorted(c)))
def test_in_the_lab_of_eight_nodes_every_cable_is_told_from_all_others(
    cable: frozenset[str],
) -> None:
    (found,) = slow_links(messages("lab-8x1", {cable: 0.5}, seed=1))
    assert cables_of(found) == {cable}
    assert "↔" in found.name


@settings(deadline=None)
@given(st.sampled_from(list(FABRICS)), st.integers(0, 999))
def test_a_whole_fabric_accuses_nobody(name: str, seed: int) -> None:
    assert slow_links(messages(name, {}, seed)) == ()


@settings(deadline=None)
@given(st.data(), st.integers(0, 999))
def test_two_slow_cables_are_two(data: st.DataObject, seed: int) -> None:
    nics = [c for c in CABLES["lab-8x1"] if any("nic" in end for end in c)]
    both = data.draw(st.lists(st.sampled_from(nics), min_size=2, max_size=2, unique=True))
    found = slow_links(messages("lab-8x1", {both[0]: 0.3, both[1]: 0.5}, seed))
    assert {one for link in found for one in cables_of(link)} == set(both)


@settings(deadline=None)
@given(st.integers(0, 55), st.integers(0, 999))
def test_one_slow_pair_alone_accuses_no_link(which: int, seed: int) -> None:
    all_of_them = messages("lab-8x1", {}, seed)
    m = all_of_them[which]
    all_of_them[which] = Message(m.ranks, m.GBps / 3, m.expected_GBps, m.kind, m.way)
    assert slow_links(all_of_them) == ()


@settings(deadline=None)
@given(st.sampled_from(range(8)), st.data(), st.integers(0, 999))
def test_a_few_slow_pairs_beside_a_slow_nic_accuse_no_other_link(
    host: int, data: st.DataObject, seed: int
) -> None:
    """Pairs measured at once may share an uplink: four messages of the 56 then get half."""
    leaf = f"leaf{host // 2}"
    cable = frozenset((f"n{host}/nic0", leaf))
    measured = messages("lab-8x1", {cable: 0.5}, seed)
    up = data.draw(st.sampled_from([(leaf, "spine0"), (leaf, "spine1")]))
    shared = [i for i, m in enumerate(measured) if up in m.way and host not in m.ranks]
    for i in data.draw(st.lists(st.sampled_from(shared), max_size=2, unique=True)):
        m = measured[i]
        measured[i] = Message(m.ranks, m.GBps / 2, m.expected_GBps, m.kind, m.way)
    (found,) = slow_links(measured)
    assert cables_of(found) == {cable}


def test_one_direction_is_said_as_one() -> None:
    slow = [
        Message(m.ranks, m.GBps / (2 if m.ranks[0] == 3 else 1), None, m.kind, m.way)
        for m in messages("lab-8x1", {}, 1)
    ]
    (found,) = slow_links(slow)
    assert found.name == "n3/nic0 → leaf1"
    assert (len(found.slow), found.crossing) == (7, 7)


@pytest.mark.parametrize("hosts", [3, 4, 6])
def test_without_a_fabric_the_host_is_named_even_of_few(hosts: int) -> None:
    found = slow_links(
        [
            Message((a, b), 1.0 if 2 in (a, b) else 2.0, None, "between hosts",
                    ((f"h{a}", "network"), ("network", f"h{b}")))
            for a, b in permutations(range(hosts), 2)
        ]
    )  # fmt: skip
    assert [link.name for link in found] == ["h2 ↔ network"]
