"""ASTRA-sim's networks as fabrics."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.importing.astra_sim import read_astra_sim
from clusterlab.topology.importing.imported import NotAFabricError
from clusterlab.topology.routing.fluid import route
from tests.formats.test_astra_sim import NS3, SIMAI


def analytical(*dimensions: tuple[str, int]) -> str:
    n = len(dimensions)
    return (
        f"topology: [{', '.join(shape for shape, _ in dimensions)}]\n"
        f"npus_count: [{', '.join(str(count) for _, count in dimensions)}]\n"
        f"bandwidth: [{', '.join(str(100.0 / (i + 1)) for i in range(n))}]\n"
        f"latency: [{', '.join(str(500 * (i + 1)) for i in range(n))}]\n"
    )


def fabric(text: str) -> Fabric:
    return read_astra_sim(text, file="net.yml").fabric


def degrees(found: Fabric, link_class: str) -> set[int]:
    counts = Counter(x.src for x in found.links if x.link_class == link_class)
    return {counts[d.name] for d in found.of_kind("gpu")}


def test_a_switch_inside_and_a_ring_outside() -> None:
    found = fabric(analytical(("Switch", 8), ("Ring", 4)))
    assert len(found.of_kind("gpu")) == 32
    assert found.hosts == ("n0", "n1", "n2", "n3")
    assert {d.name for d in found.of_kind("nvswitch")} == {f"n{i}/nvswitch0" for i in range(4)}
    assert degrees(found, "nvlink") == {1}
    assert degrees(found, "network") == {2}
    up = found.links_from("n0/gpu3")[0]
    assert (up.dst, up.GBps, up.latency_us) == ("n0/nvswitch0", 100.0, 0.5)
    assert {x.dst for x in found.links_from("n0/gpu3") if x.link_class == "network"} == {
        "n1/gpu3",
        "n3/gpu3",
    }


def test_a_switch_outside_joins_the_same_gpu_of_every_host() -> None:
    found = fabric(analytical(("FullyConnected", 4), ("Switch", 2)))
    assert len(found.of_kind("leaf")) == 4
    across = route(found, "n0/gpu2", "n1/gpu2")
    assert [c.link.latency_us for c in across] == [1.0, 1.0]  # paid up and down, as ASTRA-sim does


def test_two_npus_in_a_ring_share_one_link() -> None:
    found = fabric(analytical(("Ring", 2)))
    assert [(x.src, x.dst) for x in found.links] == [("n0/gpu0", "n0/gpu1"), ("n0/gpu1", "n0/gpu0")]


_DIMENSIONS = st.lists(
    st.tuples(st.sampled_from(["Ring", "FullyConnected", "Switch"]), st.integers(1, 5)),
    min_size=1,
    max_size=3,
)


@given(_DIMENSIONS)
def test_gpus_are_the_product_and_every_gpu_has_the_same_links(
    dimensions: list[tuple[str, int]],
) -> None:
    found = fabric(analytical(*dimensions))
    assert len(found.of_kind("gpu")) == math.prod(count for _, count in dimensions)
    expected = 0
    for shape, n in dimensions:
        expected += {"Switch": 1, "FullyConnected": n - 1, "Ring": min(n - 1, 2)}[shape]
    counts = Counter(x.src for x in found.links)
    assert {counts[d.name] for d in found.of_kind("gpu")} == {expected}


def test_what_is_assumed_or_missing_is_said() -> None:
    found = read_astra_sim(
        "topology: [Ring]\nnpus_count: [4]\nbandwidth: [tbd]\nlatency: [3.39]\n", file="x"
    )
    assert [f.code for f in found.findings] == [
        "technology_assumed",
        "bandwidth_not_given",
        "latency_unit_suspect",
    ]
    assert {x.GBps for x in found.fabric.links} == {None}


def test_ns3_nodes_are_hosts_of_one_gpu() -> None:
    found = fabric(NS3)
    assert {d.name: d.kind for d in found.devices} == {
        "n0/gpu0": "gpu",
        "n1/gpu0": "gpu",
        "leaf0": "leaf",
    }
    link = found.links_from("leaf0")[0]
    assert (link.link_class, link.GBps, link.latency_us) == ("network", 50.0, 0.5)


def test_simai_servers_have_their_nvswitch_and_tiers() -> None:
    read = read_astra_sim(SIMAI, file="x")
    assert {d.name: (d.kind, d.host) for d in read.fabric.devices} == {
        "n0/gpu0": ("gpu", "n0"),
        "n0/gpu1": ("gpu", "n0"),
        "n0/nvswitch0": ("nvswitch", "n0"),
        "leaf0": ("leaf", None),
        "spine0": ("spine", None),
    }
    assert {d.model for d in read.fabric.of_kind("gpu")} == {"H20"}
    classes = {(x.src, x.dst): x.link_class for x in read.fabric.links}
    assert classes["n0/gpu0", "n0/nvswitch0"] == "nvlink"
    assert classes["n0/gpu0", "leaf0"] == "network"


def test_a_cut_off_list_and_lossy_links_are_found() -> None:
    found = read_astra_sim(NS3.replace("3 1 2\n", "3 1 9\n"), file="x")
    assert [f.code for f in found.findings] == ["link_count_differs", "lossy_links"]


def test_logical_dimensions_are_refused() -> None:
    with pytest.raises(NotAFabricError, match="sizes without links"):
        read_astra_sim('{"logical-dims": ["8"]}', file="x")


def test_a_mesh_beyond_reason_is_refused() -> None:
    with pytest.raises(UsageError, match="links"):
        read_astra_sim(analytical(("FullyConnected", 90_000)), file="x")
