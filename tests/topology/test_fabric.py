from collections import Counter
from dataclasses import fields, replace
from typing import Any

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.topology.design.load import load_fabric
from clusterlab.topology.fabric import Fabric, device_at_host, link_at_host, to_networkx
from clusterlab.topology.parts import Device, Link, between, check_links
from tests.topology.fabrics import line

A, B = Device("a", "gpu", host="h"), Device("b", "nic", host="h")


def link(**changes: object) -> Link:
    return Link(**{"src": "a", "dst": "b", "link_class": "pcie", "GBps": 48.0, **changes})  # type: ignore[arg-type]


def test_look_ups() -> None:
    fabric = Fabric("f", (A, B), (link(),))
    assert fabric.device("a") is A
    assert fabric.of_kind("nic") == (B,)
    assert fabric.links_from("a") == fabric.links_to("b") == (link(),)
    assert fabric.links_from("b") == ()
    assert fabric.on_host("h", "gpu") == (A,)
    with pytest.raises(UsageError, match=r"no device 'gpuO'.*did you mean 'gpu[01]'\?"):
        line(1.0, 1.0).device("gpuO")
    with pytest.raises(UsageError, match="unknown host 'g'"):
        fabric.on_host("g")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dst": "c"}, "fabric f: link a->c: dangling link: no device 'c'"),
        ({"dst": "a"}, "fabric f: link a->a: a link from a device to itself"),
        ({"GBps": -1.0}, "fabric f: link a->b: GBps: a bandwidth of -1"),
        ({"GBps": float("nan")}, "fabric f: link a->b: GBps: a bandwidth of nan"),
        ({"wire_GBps": float("inf")}, "fabric f: link a->b: wire_GBps: a bandwidth of inf"),
        ({"wire_GBps": 40.0}, "fabric f: link a->b: GBps: usable 48 GB/s above the wire's 40"),
        ({"latency_us": -1.0}, "fabric f: link a->b: latency_us: a latency of -1"),
        ({"latency_us": float("nan")}, "fabric f: link a->b: latency_us: a latency of nan"),
        ({"multiplicity": 0}, "fabric f: link a->b: multiplicity 0"),
        ({"health": 1.1}, "fabric f: link a->b: health 1.1"),
        ({"link_class": "rope"}, "fabric f: link a->b: unknown link class 'rope'"),
    ],
)
def test_a_link_that_cannot_be_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        Fabric("f", (A, B), (link(**changes),))
    assert str(caught.value).startswith(message)


def test_unknown_figures_stay_unknown() -> None:
    unknown = link(GBps=None)
    assert unknown.capacity_GBps is unknown.wire_capacity_GBps is None
    assert link(multiplicity=2, health=0.5, wire_GBps=63.0).wire_capacity_GBps == 63.0
    assert link(multiplicity=2, health=0.5).capacity_GBps == 48.0


def test_networkx_sees_the_same_graph() -> None:
    import networkx as nx

    fabric = load_fabric("hgx-h100")
    graph = to_networkx(fabric)
    assert graph.number_of_nodes() == len(fabric.devices)
    assert graph.number_of_edges() == len(fabric.links)
    assert nx.is_strongly_connected(graph)
    out = sum(data["capacity"] for _, _, data in graph.out_edges("n0/gpu0", data=True))
    assert out == pytest.approx(370.8 + 48)
    assert {data["kind"] for _, data in graph.nodes(data=True)} == {"gpu", "nvswitch", "cpu"}


@pytest.mark.parametrize("design", ["lab-2x4", "dgx-h100-2node", "gb200-nvl72", "alps-gh200"])
def test_kinds_and_models_without_making_devices_are_those_of_the_devices(design: str) -> None:
    fabric = load_fabric(design)
    for kind in {d.kind for d in fabric.devices}:
        assert fabric.models(kind) == Counter(d.model for d in fabric.of_kind(kind))
    assert fabric.models("external") == {}
    assert all(fabric.kind_of(d.name) == d.kind for d in fabric.devices)
    assert fabric.kind_of("n0/none") is None


@pytest.mark.parametrize("design", ["dgx-h100-2node", "rail-only", "lab-2x4"])
def test_links_that_lead_out_of_a_host_are_single_ones(design: str) -> None:
    fabric = load_fabric(design)
    for device in fabric.devices:
        for links, single in (
            (fabric.links_from(device.name), fabric.single_links_from(device.name)),
            (fabric.links_to(device.name), fabric.single_links_to(device.name)),
        ):
            out = [k for k in links if fabric.host_of(k.src) != fabric.host_of(k.dst)]
            assert set(out) <= set(single) <= set(links)


GOOD = Link("a", "b", "ib", 25.0, 1.0)


@pytest.mark.parametrize(
    "change",
    [
        {"src": "x"},
        {"dst": "x"},
        {"dst": "a"},
        {"link_class": "rope"},
        {"GBps": -1.0},
        {"GBps": float("nan")},
        {"wire_GBps": 1.0},
        {"latency_us": -1.0},
        {"multiplicity": 0},
        {"health": 2.0},
        {"ports": (1, 2)},
    ],
)
@pytest.mark.parametrize("at", [0, 1, 5])
def test_one_bad_link_among_many_like_it_is_found(change: dict[str, Any], at: int) -> None:
    links = [GOOD, replace(GOOD, src="b", dst="a")] * 3
    check_links(links, {"a", "b"}, where="here")
    links[at] = replace(GOOD, **change)
    with pytest.raises(UsageError, match="here: link"):
        check_links(links, {"a", "b"}, where="here")


def test_a_link_at_a_host_and_a_link_between_others_keep_every_figure() -> None:
    link = Link("a", "b", "ib", 25.0, 1.0, 2, 50.0, 3, 4, 0.5, "x", "y", "z", (7, 8))
    assert all(getattr(link, f.name) != f.default for f in fields(Link))  # none left at its default
    assert link_at_host(link, "h") == replace(link, src="h/a", dst="h/b")
    assert between(link, "c", "d") == replace(link, src="c", dst="d")
    device = Device(
        "a", "gpu", None, "m", 1, 2, 3, 4, 5, True, "storage", 6, "p", "g", "i", "c", "l", "efa"
    )
    assert device_at_host(device, "h") == replace(device, name="h/a", host="h")
