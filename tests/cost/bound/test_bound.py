import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.core.collectives import SWEPT
from clusterlab.cost.bound import bytes_across, lower_bound
from clusterlab.topology.fabric import Fabric, to_networkx
from clusterlab.topology.host import HostFacts, NumaDomain, host_fabric
from clusterlab.topology.parts import Device, Link
from tests.cost.fabrics import load_fabric
from tests.topology.fabrics import leaf_spine, line


def gpus(fabric: Fabric, n: int | None = None) -> list[str]:
    return [d.name for d in fabric.of_kind("gpu")][:n]


def flat(n: int, GBps: float, latency_us: float | None = None) -> Fabric:
    """n GPUs, each with its own link to one switch."""
    devices = [Device(f"gpu{i}", "gpu", host=f"h{i}") for i in range(n)]
    links = [
        Link(*pair, "ib", GBps, latency_us)
        for i in range(n)
        for pair in ((f"gpu{i}", "leaf0"), ("leaf0", f"gpu{i}"))
    ]
    return Fabric("flat", (*devices, Device("leaf0", "leaf")), tuple(links))


@pytest.mark.parametrize(
    ("collective", "bytes_per_link"),
    [
        ("all_reduce", 2 * 7 / 8),
        ("reduce_scatter", 7 / 8),
        ("all_gather", 7 / 8),
        ("all_to_all", 7 / 8),
        ("broadcast", 1),
        ("reduce", 1),
        ("send_recv", 1),
    ],
)
def test_on_a_flat_fabric_busbw_is_bounded_by_the_link(
    collective: str, bytes_per_link: float
) -> None:
    """nccl-tests' factors are made for exactly this."""
    fabric = flat(8, 50.0)
    bound = lower_bound(fabric, gpus(fabric), collective, 1e9)
    assert bound.time_us == pytest.approx(bytes_per_link * 1e9 / 50e3)
    assert bound.busbw_GBps == pytest.approx(50.0)


def test_in_network_reduction_halves_what_an_all_reduce_must_send() -> None:
    fabric = load_fabric("hgx-h100")
    bound = lower_bound(fabric, gpus(fabric), "all_reduce", 1e9)
    assert bound.time_us == pytest.approx(1e9 / ((450 + 63) * 1e3))
    assert bound.busbw_GBps > 450  # NVLS' busbw may exceed the link
    assert bound.limited_by == "links out of n0/gpu0, 513 GB/s"


def test_one_node_s_nics_bound_what_crosses() -> None:
    fabric = load_fabric("dgx-h100-2node")
    bound = lower_bound(fabric, gpus(fabric), "all_to_all", 1e9)
    assert bound.time_us == pytest.approx(1e9 * 8 * 8 / 16 / 400e3)
    assert bound.limited_by.startswith("links out of n0, ")


def test_latency_bounds_small_sizes() -> None:
    fabric = line(100.0, 100.0, 100.0, latency_us=2.0)
    bound = lower_bound(fabric, ["gpu0", "gpu1"], "broadcast", 8)
    assert (bound.time_us, bound.limited_by) == (6.0, "latency of the longest path")


def test_ranks_on_a_host_are_bounded_by_what_its_cores_copy() -> None:
    fabric = host_fabric(HostFacts("h", "CPU", "Linux", (NumaDomain(0, (0, 1), None),)))
    devices = ["h/cpu0"] * 4
    assert lower_bound(fabric, devices, "all_reduce", 1e6).time_us == 0
    bound = lower_bound(fabric, devices, "all_reduce", 1e6, copy_GBps=10.0)
    assert bound.time_us == pytest.approx(2 * 3 * 1e6 / 20e3)
    assert bound.limited_by == "copies by the cores, 20 GB/s"


@pytest.mark.parametrize("n", [2, 3, 8])
def test_copies_on_a_host_bound_uneven_parts_as_they_bound_equal_ones(n: int) -> None:
    fabric = host_fabric(HostFacts("h", "CPU", "Linux", (NumaDomain(0, (0, 1), None),)))
    devices = ["h/cpu0"] * n
    equal = lower_bound(fabric, devices, "all_to_all_v", 1e6, copy_GBps=10.0)
    even = "matrix:" + "/".join(n * [" ".join("1" * n)])
    same = lower_bound(fabric, devices, "all_to_all_v", 1e6, copy_GBps=10.0, uneven=even)
    assert same.time_us == pytest.approx(equal.time_us, rel=1e-5)
    # Everything to rank 0: of the size that it gets all but its own part travels.
    hot = lower_bound(fabric, devices, "all_to_all_v", 1e6, copy_GBps=10.0, uneven="hot:1")
    assert hot.time_us == pytest.approx((n - 1) / n * 1e6 / 20e3, rel=1e-5)
    assert hot.limited_by == "copies by the cores, 20 GB/s"


def test_a_cut_of_unknown_bandwidth_says_nothing() -> None:
    fabric = load_fabric("lab-2x4")
    bound = lower_bound(fabric, gpus(fabric), "all_reduce", 1e6)
    assert bound.limited_by.startswith("links out of n0, ")
    assert bound.time_us == pytest.approx(1e6 / 25)


def test_one_rank_is_bounded_by_nothing() -> None:
    bound = lower_bound(flat(1, 1.0), ["gpu0"], "all_reduce", 1e6)
    assert (bound.time_us, bound.busbw_GBps) == (0.0, float("inf"))


@given(
    collective=st.sampled_from(sorted(SWEPT)),
    inside=st.lists(st.booleans(), min_size=2, max_size=12).filter(lambda i: 0 < sum(i) < len(i)),
    root=st.integers(0, 11),
)
def test_what_leaves_a_set_enters_the_rest(collective: str, inside: list[bool], root: int) -> None:
    root %= len(inside)
    leaving, entering = bytes_across(collective, 1.0, inside, root)
    assert (entering, leaving) == pytest.approx(
        bytes_across(collective, 1.0, [not i for i in inside], root)
    )


@settings(deadline=None)  # max-flow takes its time beside other work
@given(leaf_spine(gpus=5))
def test_the_bound_of_a_broadcast_is_never_above_size_over_the_smallest_max_flow(
    fabric: Fabric,
) -> None:
    """Edmonds: broadcast's optimum is S over the least max-flow from the root (networkx as referee)."""
    import networkx as nx

    ends = gpus(fabric)
    graph = nx.DiGraph(to_networkx(fabric))
    flow = min(nx.maximum_flow_value(graph, ends[0], end) for end in ends[1:])
    bound = lower_bound(fabric, ends, "broadcast", 1e9)
    latency_us = lower_bound(fabric, ends, "broadcast", 1e-9).time_us
    assert bound.time_us <= max(latency_us, 1e9 / (flow * 1e3)) * (1 + 1e-9)
