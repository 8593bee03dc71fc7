import dataclasses
import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.topology.fabric import Fabric, to_networkx
from clusterlab.topology.failures.breaking import break_fabric
from clusterlab.topology.failures.connected import reach
from clusterlab.topology.failures.damage import Damage, damage
from clusterlab.topology.failures.detours import Detour
from clusterlab.topology.parts import Device, Link
from tests.topology.clusters import small, superpod


def broken(fabric: Fabric, *what: str) -> Damage:
    return damage(fabric, break_fabric(fabric, what))


def test_the_damage_of_one_nic() -> None:
    before = superpod(31, 4)
    found = damage(before, break_fabric(before, ["n5/nic3"]))
    assert {(x.link_class, x.down, x.lost_GBps) for x in found.losses} == {
        ("pcie", 1, 48.0),
        ("ib", 1, 48.0),
    }
    assert (found.hosts, found.rails, found.pairs_cut) == (("n5",), (3,), 0)


def test_the_damage_of_a_spine_and_of_hosts() -> None:
    before = small()
    spine = damage(before, break_fabric(before, ["spine0"]))
    assert spine.hosts == ("n0", "n1", "n2", "n3")
    assert [(x.down, x.lost_GBps) for x in spine.losses] == [(4 * 2, 4 * 2 * 24.0)]
    host = damage(before, break_fabric(before, ["n1"]))
    assert host.alone == ("n1/gpu0", "n1/gpu1")
    assert (host.pairs, host.pairs_cut) == (28, 2 * 6 + 1)


def test_only_what_is_new_counts_as_damage() -> None:
    first = break_fabric(small(), ["leaf0/spine0#0"])
    found = damage(first, break_fabric(first, ["leaf0/spine0"]))
    assert [(x.down, x.lost_GBps) for x in found.losses] == [(1, 24.0)]


def pairs_by_search(fabric: Fabric) -> tuple[int, set[str]]:
    """Pairs that meet and hosts that are shut in, by walking the graph: out of the host, through the
    network, never through a host.
    """
    import networkx as nx

    graph = to_networkx(fabric)
    graph.remove_edges_from(
        [(a, b, k) for a, b, k, d in graph.edges(keys=True, data=True) if d["link"].health == 0]
    )
    gpus = [d.name for d in fabric.of_kind("gpu")]
    network = [d.name for d in fabric.network_devices]
    inside, outside = {}, {}
    for gpu in gpus:
        host = [n for n in graph if fabric.host_of(n) == fabric.host_of(gpu) and n not in gpus]
        inside[gpu] = nx.descendants(graph.subgraph([gpu, *host]), gpu)
        near = [gpu, *inside[gpu], *network]
        outside[gpu] = nx.descendants(graph.subgraph(near), gpu) & set(network)
    meet = {(a, b) for a in gpus for b in gpus if inside[a] & inside[b] or outside[a] & outside[b]}
    home = {gpu: fabric.host_of(gpu) for gpu in gpus}
    out = {home[a] for a, b in meet if home[a] != home[b]}
    return sum(a < b for a, b in meet), {h for h in fabric.hosts if h not in out}


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
def test_pairs_cut_are_those_a_walk_over_the_graph_finds(seed: int) -> None:
    rng = random.Random(seed)
    pairs = sorted({(k.src, k.dst) for k in small().links})
    chosen = [f"{a}/{b}" for a, b in rng.sample(pairs, rng.randrange(len(pairs)))]
    hurt = break_fabric(small(), chosen)
    found = reach(hurt)
    assert (found.pairs, set(found.shut_in)) == pairs_by_search(hurt)


def test_hosts_cut_hosts_broken_and_hosts_that_share_less_are_told_apart() -> None:
    found = broken(superpod(31, 4), "leaf3/spine2#1", "n2/nic[0,3]", "n7")
    others = tuple(f"n{i}" for i in range(31) if i not in (2, 7))
    assert (found.hosts_cut, found.hosts_broken, found.hosts_sharing) == (("n7",), ("n2",), others)
    assert set(found.hosts) == {"n2", "n7", *others}


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
def test_every_host_concerned_is_in_one_of_the_three(seed: int) -> None:
    rng = random.Random(seed)
    names = [d.name for d in small().devices]
    found = broken(small(), *rng.sample(names, rng.randrange(1, 6)))
    parts = (found.hosts_cut, found.hosts_broken, found.hosts_sharing)
    assert sorted(host for part in parts for host in part) == sorted(found.hosts)


@pytest.mark.parametrize(
    ("what", "detours"),
    [
        (["rail3"], [(31, "PXN")]),
        (["n4/nic*/leaf*"], [(8, None)]),
        (["n2/nic[0,3]", "leaf0"], [(32, "PXN")]),  # nic0 of 31 hosts, and nic3 of one
        (["n1/nic0", "n1/nvswitch*"], [(1, "PHB")]),
        (["spine0"], []),
        (["n1/nic0:half"], []),
    ],
)
def test_gpus_that_lost_their_nic_are_counted_by_the_way_they_take_instead(
    what: list[str], detours: list[tuple[int, str | None]]
) -> None:
    found = broken(superpod(31, 4), *what)
    assert found.detours == tuple(Detour(*d) for d in detours)
    if detours and detours[0][1] is not None:
        assert found.pairs_cut == 0
    assert json.loads(json.dumps(found.to_json()))["detours"] == [
        {"gpus": gpus, "type": kind} for gpus, kind in detours
    ]


def test_a_loss_of_unknown_rate_is_unknown_and_not_nothing() -> None:
    links = tuple(dataclasses.replace(k, GBps=None, wire_GBps=None) for k in small().links)
    unknown = broken(dataclasses.replace(small(), links=links), "leaf0")
    assert [(x.lost_GBps, x.unknown > 0) for x in unknown.losses] == [(None, True)]
    assert all(x.lost_GBps for x in broken(small(), "leaf0").losses)


def with_aggregation_nodes(fabric: Fabric) -> Fabric:
    """A SHARP node on every leaf, as a subnet's dump shows them."""
    nodes = [
        Device(f"sharp-{leaf.name}", "nic", role="aggregation") for leaf in fabric.of_kind("leaf")
    ]
    ends = [
        (leaf.name, node.name) for leaf, node in zip(fabric.of_kind("leaf"), nodes, strict=True)
    ]
    links = [Link(*pair, "ib", 50.0) for a, b in ends for pair in ((a, b), (b, a))]
    return dataclasses.replace(
        fabric, devices=(*fabric.devices, *nodes), links=(*fabric.links, *links)
    )


def test_the_aggregation_nodes_of_switches_are_nobody_s_peers() -> None:
    """Where NICs are the end points, as in a network of which the hosts' inside is not known."""
    nics = tuple(d for d in small().devices if d.kind == "nic" or d.host is None)
    network = dataclasses.replace(small(), devices=nics, links=small().network_links)
    assert reach(with_aggregation_nodes(network)) == reach(network)
    found = broken(with_aggregation_nodes(network), "leaf0", "sharp-leaf1")
    assert dataclasses.replace(found, losses=()) == dataclasses.replace(
        broken(network, "leaf0"), losses=()
    )
    assert reach(network).end_points == 8
