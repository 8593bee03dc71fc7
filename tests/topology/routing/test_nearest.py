"""The search from both ends against all simple paths, and how little of a large fabric it looks at."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.topology.design.load import load_fabric
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import END_POINTS, Device, DeviceKind, Link, LinkClass
from clusterlab.topology.routing.fluid import route
from clusterlab.topology.routing.nearest import NearestPaths, nearest_paths

CLASSES: tuple[LinkClass, ...] = ("nvlink", "pcie", "ib")
KINDS: tuple[DeviceKind, ...] = ("gpu", "nic", "cpu", "leaf", "external", "nvswitch")


@st.composite
def tangles(draw: st.DrawFn) -> tuple[Fabric, dict[str, int]]:
    """2-8 devices of any kind with links of any length, one way or both, some of them parallel; and the
    lengths by link class (what is not in it carries nothing).
    """
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=2, max_size=8))
    devices = tuple(Device(f"d{i}", kind) for i, kind in enumerate(kinds))
    number = st.integers(0, len(kinds) - 1)
    ends = draw(st.lists(st.tuples(number, number), max_size=20))
    classes = st.sampled_from(CLASSES)
    links = tuple(
        Link(f"d{a}", f"d{b}", draw(classes), draw(st.sampled_from((None, 10.0, 20.0))))
        for a, b in ends
        if a != b
    )
    lengths = {"nvlink": draw(st.integers(1, 3)), "pcie": draw(st.integers(1, 5))}
    if draw(st.booleans()):
        lengths["ib"] = draw(st.integers(1, 9))
    return Fabric("tangle", devices, links), lengths


def by_enumeration(
    fabric: Fabric, lengths: dict[str, int], src: str, dst: str
) -> tuple[int, set[int]] | None:
    """The least length of all simple paths, and the links on those of that length by their place."""
    graph: nx.MultiDiGraph[str] = nx.MultiDiGraph()
    graph.add_nodes_from(d.name for d in fabric.devices)
    for at, link in enumerate(fabric.links):
        ends_here = link.src != src and fabric.device(link.src).kind in END_POINTS
        if link.link_class in lengths and not ends_here:
            graph.add_edge(link.src, link.dst, key=at)
    links = fabric.links
    found: defaultdict[int, set[int]] = defaultdict(set)
    paths: Iterable[Any] = nx.all_simple_edge_paths(graph, src, dst)  # typed as of a simple graph
    for path in paths:
        places: list[int] = [at for _, _, at in path]
        found[sum(lengths[links[at].link_class] for at in places)].update(places)
    return (min(found), found[min(found)]) if found else None


def searched(
    fabric: Fabric, lengths: dict[str, int], src: str = "d0", dst: str = "d1"
) -> NearestPaths | None:
    return nearest_paths(fabric, src, dst, lambda link: lengths.get(link.link_class))


@settings(deadline=None)
@given(tangles())
def test_the_links_of_all_nearest_paths_and_no_others(made: tuple[Fabric, dict[str, int]]) -> None:
    fabric, lengths = made
    expected, found = by_enumeration(fabric, lengths, "d0", "d1"), searched(fabric, lengths)
    if expected is None:
        assert found is None
        return
    assert found is not None
    place = {id(link): at for at, link in enumerate(fabric.links)}
    places = [place[id(link)] for links in found.ahead.values() for link in links]
    assert len(places) == len(set(places))  # no link twice: it would carry twice its share
    assert (found.distance, set(places)) == expected
    assert all(link.src == name for name, links in found.ahead.items() for link in links)


@settings(deadline=None)
@given(tangles())
def test_devices_come_in_the_order_of_their_distance(made: tuple[Fabric, dict[str, int]]) -> None:
    fabric, lengths = made
    found = searched(fabric, lengths)
    far = {"d0": 0}
    before = 0
    for name, links in () if found is None else found.ahead.items():
        assert far[name] >= before  # all that leads there came before
        before = far[name]
        for link in links:
            there = far[name] + lengths[link.link_class]
            assert far.setdefault(link.dst, there) == there


@pytest.mark.parametrize("design", ["alibaba-hpn", "meta-roce-24k", "superpod-b200-64su"])
def test_of_a_large_fabric_it_looks_at_two_hosts_and_the_switches_between(design: str) -> None:
    fabric = load_fabric(design)
    first, *_, last = fabric.hosts
    for there in (fabric.hosts[1], last):
        ends = fabric.on_host(first, "gpu")[0].name, fabric.on_host(there, "gpu")[0].name
        assert route(fabric, *ends)
    looked_at = fabric.memo["links", "from"].keys() | fabric.memo["links", "to"].keys()
    assert len(looked_at) < len(fabric.devices) / 10
    assert route(fabric, *ends) is route(fabric, *ends)


@pytest.mark.parametrize("design", ["dgx-h100-2node", "rail-only", "dgx-1v"])
def test_a_link_is_one_object_from_either_end(design: str) -> None:
    """Loads are summed up by link: two objects of one link would carry half each."""
    fabric = load_fabric(design)
    for device in fabric.on_host(fabric.hosts[-1]):
        for link in fabric.links_from(device.name):
            assert any(link is other for other in fabric.links_to(link.dst))
