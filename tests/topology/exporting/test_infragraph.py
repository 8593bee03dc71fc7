"""InfraGraph of fabrics, read back."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.topology.design.clos import Clos
from clusterlab.topology.design.load import load_fabric
from clusterlab.topology.exporting.infragraph import infragraph
from clusterlab.topology.exporting.infragraph_names import Names, Numbered, numbered
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.importing.infragraph import read_infragraph
from clusterlab.topology.parts import Device
from tests.topology.exporting.networks import both, rails, trees
from tests.topology.fabrics import leaf_spine
from tests.topology.routing.clos_fabrics import NDR, fabric_of


def devices(fabric: Fabric) -> dict[str, tuple[str, str | None, int | None]]:
    """Kind and host of each device, and the rail of NICs and switches: a GPU's is that of its NIC."""
    return {d.name: (d.kind, d.host, None if d.kind == "gpu" else d.rail) for d in fabric.devices}


def cables(fabric: Fabric) -> Counter[tuple[object, ...]]:
    found: Counter[tuple[object, ...]] = Counter()
    for x in fabric.links:
        if x.health > 0 and x.src != x.dst:
            rate = None if x.GBps is None else round(x.GBps * x.health, 3)
            latency = None if x.latency_us is None else round(x.latency_us, 3)
            found[x.src, x.dst, x.link_class, rate, latency] += x.multiplicity
    return found


def back(fabric: Fabric) -> Fabric:
    return read_infragraph(infragraph(fabric), file="x.yaml").fabric


@pytest.mark.parametrize(
    "design",
    [
        "hgx-h100",
        "dgx-h100-2node",
        "mi300x",
        "dgx-1v",
        "gb200-nvl72",
        "superpod-h100-1su",
        "rail-only",
    ],
)
def test_shipped_designs_come_back_device_by_device_and_link_by_link(design: str) -> None:
    fabric = load_fabric(design)
    found = back(fabric)
    assert devices(found) == devices(fabric)
    assert cables(found) == cables(fabric)


@given(st.one_of(leaf_spine(), trees()))
def test_any_network_comes_back(fabric: Fabric) -> None:
    found = back(fabric)
    assert devices(found) == devices(fabric)
    assert cables(found) == cables(fabric)


@given(st.integers(1, 2), st.integers(1, 3), st.integers(1, 3), st.integers(1, 2), st.booleans())
def test_rail_fabrics_come_back(
    units: int, hosts: int, gpus: int, spines: int, known: bool
) -> None:
    fabric = rails(
        units=units, hosts=hosts, gpus=gpus, spines=spines, latency_us=1.5 if known else None
    )
    found = back(fabric)
    assert devices(found) == devices(fabric)
    assert cables(found) == cables(fabric)


def test_rails_of_a_network_with_spines_of_their_own_come_back() -> None:
    kinds = {"leaf": NDR, "spine": NDR}
    shape = Clos(hosts_per_su=2, rails=2, rail_groups=True, spines=2, uplinks=2, kinds=kinds)
    fabric = fabric_of(shape, 4)
    found = back(fabric)
    assert {d.rail for d in fabric.of_kind("spine")} == {0, 1}
    assert devices(found) == devices(fabric)
    assert cables(found) == cables(fabric)


def test_a_nic_keeps_its_rail_on_a_switch_of_another_and_without_any() -> None:
    fabric = rails(units=1, hosts=2)
    leaves = {"leaf0": 1, "leaf1": 0}
    crossed = tuple(replace(d, rail=leaves.get(d.name, d.rail)) for d in fabric.devices)
    bare = replace(fabric, devices=crossed)
    assert devices(back(bare)) == devices(bare)
    inside = tuple(d for d in fabric.devices if d.host is not None)
    names = {d.name for d in inside}
    links = tuple(x for x in fabric.links if {x.src, x.dst} <= names)
    alone = replace(fabric, devices=inside, links=links)
    assert [d.rail for d in back(alone).of_kind("nic")] == [0, 1, 0, 1]


def test_equal_hosts_share_a_template_and_parallel_links_an_edge() -> None:
    text = infragraph(rails(units=1, hosts=3, gpus=2))
    data = yaml.safe_load(text)
    host = next(d for d in data["devices"] if d["name"] == "host-type-1")
    assert [(c["name"], c["count"], c["choice"]) for c in host["components"]] == [
        ("nvswitch0", 1, "custom"),
        ("gpu", 2, "xpu"),
        ("nic", 2, "nic"),
    ]
    assert {"name": "n", "device": "host-type-1", "count": 3} in data["instances"]
    nvlink = next(link for link in host["links"] if link["name"] == "nvlink")
    assert nvlink["physical"]["bandwidth"]["gigabytes_per_second"] == 360
    assert nvlink["description"] == "18 parallel links of 20 GB/s each"


def test_a_degraded_cable_keeps_what_is_left_and_a_down_one_goes() -> None:
    fabric = rails(units=1, hosts=2)
    worn = {("n0/nic0", "leaf0"): 0.5, ("n1/nic0", "leaf0"): 0.0}
    worn |= {(b, a): health for (a, b), health in worn.items()}
    links = tuple(replace(x, health=worn.get((x.src, x.dst), 1.0)) for x in fabric.links)
    broken = replace(fabric, links=links)
    assert cables(back(broken)) == cables(broken)


def test_directions_that_differ_are_refused() -> None:
    fabric = rails(units=1, hosts=2)
    links = tuple(
        replace(x, GBps=1.0) if (x.src, x.dst) == ("n0/nic0", "leaf0") else x for x in fabric.links
    )
    with pytest.raises(UsageError, match="two directions between"):
        infragraph(replace(fabric, links=links))


def test_names_beyond_its_letters_are_changed_and_stay_apart() -> None:
    leaves = (Device("MF0;A 1", "leaf"), Device("MF0;A/1", "leaf"))
    hosts = tuple(Device(f"h{i}", "host", host=f"h{i}") for i in range(2))
    links = both("h0", leaves[0].name, "ib", None) + both("h1", leaves[1].name, "ib", None)
    found = back(Fabric("odd", (*hosts, *leaves), tuple(links)))
    assert {d.name for d in found.of_kind("leaf")} == {"MF0-A-1", "MF0-A-1-2"}


def test_numbered_names_without_a_gap_share_one() -> None:
    places = numbered(["a0", "a1", "b1", "b2", "c00", "c01", "d"], Names())
    assert places["a1"] == Numbered("a", 1)
    assert places["b1"] == Numbered("b1", 0)
    assert places["c00"] == Numbered("c00", 0)
    assert places["d"] == Numbered("d", 0)
