import pytest

from clusterlab.core.errors import UsageError
from clusterlab.topology.design.load import load_fabric
from clusterlab.topology.fabric import Fabric, to_networkx
from clusterlab.topology.parts import Device, Link
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
