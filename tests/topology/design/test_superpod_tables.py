"""Published SuperPOD tables against what the shipped designs wire: every count is taken from the links."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from clusterlab.topology.design.load import load_fabric
from clusterlab.topology.fabric import Fabric

# DGX SuperPOD H100 reference architecture, network fabrics, table 4: SU, nodes, GPUs, leaf, spine,
# compute and UFM cables, spine-leaf cables. 32 nodes per SU, one removed to attach UFM.
H100_TABLE = [
    (1, 31, 248, 8, 4, 252, 256),
    (2, 63, 504, 16, 8, 508, 512),
    (3, 95, 760, 24, 16, 764, 768),
    (4, 127, 1016, 32, 16, 1020, 1024),
]

# DGX SuperPOD B200 reference architecture, DGX SuperPOD architecture, larger SuperPODs: SU, nodes, GPUs,
# leaf, spine, core, node-leaf, leaf-spine, spine-core cables.
B200_TABLE = [
    (2, 64, 512, 16, 8, 0, 512, 512, 0),
    (4, 128, 1024, 32, 16, 0, 1024, 1024, 0),
    (8, 256, 2048, 64, 32, 0, 2048, 2048, 0),
    (16, 512, 4096, 128, 128, 64, 4096, 4096, 4096),
    (32, 1024, 8192, 256, 256, 128, 8192, 8192, 8192),
    (64, 2048, 16384, 512, 512, 256, 16384, 16384, 16384),
]

# DGX SuperPOD B300 (Spectrum-X) reference architecture, DGX SuperPOD architecture, table 3: SU, nodes,
# GPUs, leaf, spine, node-leaf, leaf-spine cables. Its cables carry two 400 GbE links.
B300_TABLE = [
    (1, 64, 512, 16, 8, 512, 512),
    (2, 128, 1024, 32, 16, 1024, 1024),
    (4, 256, 2048, 64, 32, 2048, 2048),
    (8, 512, 4096, 128, 64, 4096, 4096),
    (16, 1024, 8192, 256, 128, 8192, 8192),
]


@cache
def built(name: str) -> tuple[Fabric, Counter[str], Counter[tuple[str, str]]]:
    """The fabric, its devices by kind, and its network cables by the kinds they join (lower first)."""
    fabric = load_fabric(name)
    kinds: Counter[str] = Counter(d.kind for d in fabric.devices)
    order = ["external", "nic", "leaf", "spine", "core"]
    cables: Counter[tuple[str, str]] = Counter()
    for link in fabric.network_links:
        ends = fabric.device(link.src).kind, fabric.device(link.dst).kind
        if order.index(ends[0]) < order.index(ends[1]):
            cables[ends] += link.multiplicity
    return fabric, kinds, cables


def nodes_with_gpus(fabric: Fabric) -> int:
    return len({d.host for d in fabric.of_kind("gpu")})


@pytest.mark.parametrize("row", H100_TABLE, ids=lambda row: f"{row[0]}su")
def test_h100_superpods_have_the_published_counts(row: tuple[int, ...]) -> None:
    fabric, kinds, cables = built(f"superpod-h100-{row[0]}su")
    assert (
        row[0],
        nodes_with_gpus(fabric),
        kinds["gpu"],
        kinds["leaf"],
        kinds["spine"],
        cables["nic", "leaf"] + cables["external", "leaf"],
        cables["leaf", "spine"],
    ) == row
    assert cables["external", "leaf"] == 4


@pytest.mark.parametrize("row", B200_TABLE, ids=lambda row: f"{row[0]}su")
def test_b200_superpods_have_the_published_counts(row: tuple[int, ...]) -> None:
    fabric, kinds, cables = built(f"superpod-b200-{row[0]}su")
    assert (
        row[0],
        nodes_with_gpus(fabric),
        kinds["gpu"],
        kinds["leaf"],
        kinds["spine"],
        kinds["core"],
        cables["nic", "leaf"],
        cables["leaf", "spine"],
        cables["spine", "core"],
    ) == row


@pytest.mark.parametrize("row", B300_TABLE, ids=lambda row: f"{row[0]}su")
def test_b300_superpods_have_the_published_counts(row: tuple[int, ...]) -> None:
    fabric, kinds, cables = built(f"superpod-b300-{row[0]}su")
    assert (
        row[0],
        nodes_with_gpus(fabric),
        kinds["gpu"],
        kinds["leaf"],
        kinds["spine"],
        cables["nic", "leaf"] / 2,
        cables["leaf", "spine"] / 2,
    ) == row


SUPERPODS = [
    *(f"superpod-h100-{row[0]}su" for row in H100_TABLE),
    *(f"superpod-b200-{row[0]}su" for row in B200_TABLE),
    *(f"superpod-b300-{row[0]}su" for row in B300_TABLE),
]


@pytest.mark.parametrize("name", SUPERPODS)
def test_every_link_has_its_way_back(name: str) -> None:
    """The cables are counted upwards; as many lead down."""
    fabric, _, _ = built(name)
    there = Counter({(k.src, k.dst): k.multiplicity for k in fabric.network_links})
    assert all(there[dst, src] == count for (src, dst), count in there.items())


@pytest.mark.parametrize("name", SUPERPODS)
def test_a_leaf_serves_one_rail_of_one_su(name: str) -> None:
    fabric, _, _ = built(name)
    per_su = 64 if "b300" in name else 32
    for leaf in fabric.of_kind("leaf"):
        below = [
            fabric.device(link.src)
            for link in fabric.links_to(leaf.name)
            if fabric.device(link.src).kind == "nic"
        ]
        assert {nic.rail for nic in below} == {leaf.rail}
        assert len({int(str(nic.host)[1:]) // per_su for nic in below}) == 1
        assert all(nic.role == "compute" for nic in below)


@pytest.mark.parametrize("su", [row[0] for row in H100_TABLE])
def test_spines_of_an_h100_superpod_see_every_leaf(su: int) -> None:
    """Rails are not networks of their own: traffic between rails traverses the spine layer."""
    fabric, kinds, _ = built(f"superpod-h100-{su}su")
    for spine in fabric.of_kind("spine"):
        assert len({link.src for link in fabric.links_to(spine.name)}) == kinds["leaf"]


def test_four_h100_su_have_two_cables_between_each_leaf_and_spine() -> None:
    fabric, _, _ = built("superpod-h100-4su")
    joined = [k for k in fabric.network_links if k.src.startswith("leaf") and "spine" in k.dst]
    assert {k.multiplicity for k in joined} == {2}


@pytest.mark.parametrize("su", [16, 32, 64])
def test_three_tiers_are_full_and_spine_rail_groups_meet_at_the_cores(su: int) -> None:
    fabric, _, _ = built(f"superpod-b200-{su}su")
    for spine in fabric.of_kind("spine"):
        below = [k for k in fabric.links_to(spine.name) if k.src.startswith("leaf")]
        above = [k for k in fabric.links_to(spine.name) if k.src.startswith("core")]
        assert sum(k.multiplicity for k in below) == sum(k.multiplicity for k in above) == 32
        assert len({fabric.device(k.src).rail for k in below}) == 1
    for core in fabric.of_kind("core"):
        below = list(fabric.links_to(core.name))
        assert sum(k.multiplicity for k in below) == 64
        assert {fabric.device(k.src).rail for k in below} == set(range(8))


@pytest.mark.parametrize("su", [row[0] for row in B300_TABLE])
def test_the_planes_of_a_b300_superpod_share_no_switch(su: int) -> None:
    fabric, _, _ = built(f"superpod-b300-{su}su")
    for link in fabric.network_links:
        planes = {d.plane for d in map(fabric.device, (link.src, link.dst)) if d.plane is not None}
        assert len(planes) == 1
    for nic in fabric.on_host("n0", "nic"):
        assert {fabric.device(k.dst).plane for k in fabric.links_from(nic.name)} >= {0, 1}
