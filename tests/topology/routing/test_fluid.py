import dataclasses
from collections import defaultdict

import pytest
from hypothesis import given

from clusterlab.core.errors import UsageError
from clusterlab.topology.design.load import load_fabric
from clusterlab.topology.fabric import Fabric, to_networkx
from clusterlab.topology.parts import Device, Link
from clusterlab.topology.routing.fluid import ACCELERATOR_LINKS, path_latency_us, route
from tests.topology.fabrics import leaf_spine, line


def test_nvlink_traffic_stripes_over_all_switches_by_their_links() -> None:
    fabric = load_fabric("hgx-h100")
    crossings = route(fabric, "n0/gpu0", "n0/gpu5")
    assert all(c.link.link_class == "nvlink" for c in crossings)
    shares = {c.link.dst: c.share for c in crossings if c.link.src == "n0/gpu0"}
    assert shares == pytest.approx(
        {f"n0/nvswitch{i}": links / 18 for i, links in enumerate((5, 4, 4, 5))}
    )


def test_without_nvlink_the_way_leads_over_pcie_and_the_cpus() -> None:
    fabric = load_fabric("hgx-h100")
    names = [c.link.name for c in route(fabric, "n0/gpu0", "n0/gpu5", avoid=ACCELERATOR_LINKS)]
    assert names == ["n0/gpu0->n0/cpu0", "n0/cpu0->n0/cpu1", "n0/cpu1->n0/gpu5"]


def test_a_gpu_forwards_nothing_for_others() -> None:
    devices = (Device("a", "gpu"), Device("b", "gpu"), Device("c", "gpu"))
    links = tuple(
        Link(x, y, "nvlink", 25.0) for x, y in (("a", "b"), ("b", "c"), ("b", "a"), ("c", "b"))
    )
    fabric = Fabric("chain", devices, links)
    assert len(route(fabric, "a", "b")) == 1
    with pytest.raises(UsageError, match="fabric chain: no path from a to c"):
        route(fabric, "a", "c")


def test_a_link_that_is_down_carries_nothing() -> None:
    fabric = line(10.0, 10.0)
    down = tuple(
        dataclasses.replace(ln, health=0.0) if ln.src == "gpu0" else ln for ln in fabric.links
    )
    with pytest.raises(UsageError, match="no path from gpu0 to gpu1"):
        route(dataclasses.replace(fabric, links=down), "gpu0", "gpu1")
    assert route(dataclasses.replace(fabric, links=down), "gpu1", "gpu0")


def test_a_device_reaches_itself_through_memory() -> None:
    loop = Link("c", "c", "memory", 10.0, multiplicity=2)
    assert route(Fabric("h", (Device("c", "cpu"),), (loop,)), "c", "c")[0].link is loop


def test_latency_adds_up_and_unknown_counts_nothing() -> None:
    assert path_latency_us(route(line(1.0, 1.0, 1.0), "gpu0", "gpu1")) == 3.0
    assert path_latency_us(route(line(1.0, 1.0, latency_us=None), "gpu0", "gpu1")) == 0.0


@given(leaf_spine())
def test_what_leaves_arrives_and_no_route_is_longer_than_the_shortest(fabric: Fabric) -> None:
    import networkx as nx

    graph = to_networkx(fabric)
    ends = [d.name for d in fabric.of_kind("gpu")]
    for dst in ends[1:]:
        crossings = route(fabric, ends[0], dst)
        balance: defaultdict[str, float] = defaultdict(float)
        for c in crossings:
            assert 0 < c.share <= 1 + 1e-12
            balance[c.link.src] -= c.share
            balance[c.link.dst] += c.share
        assert balance.pop(ends[0]) == pytest.approx(-1)
        assert balance.pop(dst) == pytest.approx(1)
        assert all(abs(rest) < 1e-9 for rest in balance.values())
        # every link carries one step of a shortest path, so the shares add up to its length
        assert sum(c.share for c in crossings) == pytest.approx(
            nx.shortest_path_length(graph, ends[0], dst)
        )
