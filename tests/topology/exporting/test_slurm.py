"""Slurm's topology files of fabrics, read back."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given

from clusterlab.core.errors import UsageError
from clusterlab.topology.design.load import fabric_from_yaml, list_designs, load_fabric
from clusterlab.topology.design.saving import fabric_to_yaml
from clusterlab.topology.exporting.slurm import slurm_block, slurm_tree, slurm_yaml
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.importing.imported import Imported
from clusterlab.topology.importing.slurm_topology import read_slurm_topology
from clusterlab.topology.network_groups import network_of
from clusterlab.topology.parts import Device
from tests.topology.exporting.networks import both, rails, trees


def back(text: str) -> Imported:
    return read_slurm_topology(text, file="topology")


def edges(fabric: Fabric) -> set[tuple[str, str]]:
    return {(x.src, x.dst) for x in fabric.links}


def test_a_rail_fabric_is_its_scalable_units() -> None:
    lines = slurm_tree(rails(units=2, hosts=3, gpus=2)).splitlines()
    assert [line for line in lines if not line.startswith("#")] == [
        "SwitchName=su1 Nodes=n[0-2]",
        "SwitchName=su2 Nodes=n[3-5]",
        "SwitchName=spine1 Switches=su[1-2]",
    ]
    assert "# su1 is leaf0, leaf1: every node hangs on all of them" in lines


BLOCKS = "BlockName={} Nodes=n[1-4]\nBlockName=r2 Nodes=n[5-9]\nBlockSizes={}\n"


@pytest.mark.parametrize("sizes", ["2", "4,8", "4,16", "30,120", "3,9"])
def test_blocks_of_a_saved_import_come_back_as_they_were(sizes: str) -> None:
    """Sizes that Slurm would refuse come back too: the import tells of them."""
    text = BLOCKS.format("rack-1", sizes)
    saved = fabric_to_yaml(back(text).fabric)
    fabric = fabric_from_yaml(saved, file="blk.yaml", default_name="blk")
    lines = [line for line in slurm_block(fabric).splitlines() if not line.startswith("#")]
    assert lines == text.splitlines()
    again = back(slurm_yaml(fabric))
    assert again.facts["block_nodes"] == back(text).facts["block_nodes"]
    assert again.facts["block_sizes"] == back(text).facts["block_sizes"]
    assert slurm_block(fabric, [2, 4]).splitlines()[-1] == "BlockSizes=2,4"


def test_blocks_are_no_switches_and_rings_no_blocks() -> None:
    with pytest.raises(UsageError, match=r"hosts are in blocks.*--to slurm-block"):
        slurm_tree(back(BLOCKS.format("r1", "4")).fabric)
    rings = back("RingName=r1 Nodes=n[1-4]\nRingName=r2 Nodes=n[5-9]\n").fabric
    for write in (slurm_block, slurm_yaml):
        with pytest.raises(UsageError, match="hosts are in rings"):
            write(rings)


@given(trees())
def test_a_tree_comes_back_with_hosts_switches_and_edges(tree: Fabric) -> None:
    for text in (slurm_tree(tree), slurm_yaml(tree, ["tree"])):
        found = back(text)
        assert {d.name for d in found.fabric.devices} == {d.name for d in tree.devices}
        assert edges(found.fabric) == edges(tree)
        assert {f.code for f in found.findings} <= {"several_roots"}


@pytest.mark.parametrize("design", [d for d in list_designs() if d != "host"])
def test_every_shipped_network_gives_files_that_read_back_clean(design: str) -> None:
    fabric = load_fabric(design)
    network = network_of(fabric)
    if not network.tiers:
        with pytest.raises(UsageError, match="no host hangs on a network switch"):
            slurm_tree(fabric)
        return
    placed = [host for host in fabric.hosts if host in network.host_switches]
    for text in (slurm_tree(fabric), slurm_block(fabric), slurm_yaml(fabric)):
        found = back(text)
        assert Counter(d.name for d in found.fabric.of_kind("host")) == Counter(placed)
        assert found.findings == ()


def test_three_tiers_group_pods() -> None:
    text = slurm_tree(load_fabric("superpod-b200-16su"))
    found = back(text).fabric
    counts = Counter(d.kind for d in found.devices)
    assert counts["leaf"] == 16
    assert counts["core"] == 1
    assert counts["host"] == 512


def test_switches_with_no_node_below_are_left_out() -> None:
    devices = (
        Device("h", "host", host="h"),
        *(Device(name, "leaf") for name in ("leaf0", "leaf1")),
        *(Device(name, "core") for name in ("a", "b", "c")),
    )
    links = [*both("h", "leaf0", "ib", None), *both("leaf0", "a", "ib", None)]
    links += [*both("leaf1", "a", "ib", None), *both("b", "c", "ib", None)]
    found = back(slurm_tree(Fabric("f", devices, tuple(links))))
    assert {d.name for d in found.fabric.devices} == {"h", "leaf0", "a"}
    assert found.findings == ()


def test_nodes_right_on_a_spine_get_a_leaf_of_their_own() -> None:
    devices = (
        *(Device(f"h{i}", "host", host=f"h{i}") for i in (0, 1)),
        Device("leaf0", "leaf"),
        Device("spine0", "spine"),
    )
    links = [*both("h0", "leaf0", "ib", None), *both("h1", "spine0", "ib", None)]
    links += both("leaf0", "spine0", "ib", None)
    found = back(slurm_tree(Fabric("f", devices, tuple(links))))
    assert {d.name: d.kind for d in found.fabric.devices if d.kind != "host"} == {
        "leaf0": "leaf",
        "spine0-nodes": "leaf",
        "spine0": "spine",
    }
    assert found.findings == ()


def test_a_lost_leaf_cable_keeps_a_host_in_its_unit() -> None:
    fabric = rails(units=2, hosts=2)
    lost = {("n0/nic0", "leaf0"), ("leaf0", "n0/nic0")}
    broken = replace(fabric, links=tuple(x for x in fabric.links if (x.src, x.dst) not in lost))
    assert "SwitchName=su1 Nodes=n[0-1]" in slurm_tree(broken)


def test_hosts_without_any_cable_are_left_out_and_said() -> None:
    fabric = rails(units=1, hosts=2)
    cut = replace(
        fabric,
        links=tuple(
            replace(x, health=0.0) if {x.src, x.dst} & {"n1/nic0", "n1/nic1"} else x
            for x in fabric.links
        ),
    )
    text = slurm_tree(cut)
    assert "# left out, as nothing places it: n1" in text
    assert {d.name for d in back(text).fabric.of_kind("host")} == {"n0"}


def test_storage_networks_do_not_count() -> None:
    fabric = rails(units=2, hosts=1)
    storage = (
        Device("store", "leaf", role="storage"),
        *(Device(f"n{i}/st", "nic", host=f"n{i}", role="storage") for i in (0, 1)),
    )
    links = [x for i in (0, 1) for x in both(f"n{i}/st", "store", "ib", 50.0)]
    more = replace(fabric, devices=(*fabric.devices, *storage), links=(*fabric.links, *links))
    assert slurm_tree(more) == slurm_tree(fabric)


def test_names_that_slurm_cannot_hold_are_changed_and_said() -> None:
    devices = (
        Device("n0", "host", host="n0"),
        Device("n1", "host", host="n1"),
        Device("MF0;LEAF 01/U1", "leaf"),
        Device("MF0;LEAF-01/U1", "leaf"),
    )
    links = both("n0", devices[2].name, "ib", None) + both("n1", devices[3].name, "ib", None)
    text = slurm_tree(Fabric("odd", devices, tuple(links)))
    names = {d.name for d in back(text).fabric.of_kind("leaf")}
    assert names == {"MF0_LEAF_01_U1", "MF0_LEAF-01_U1"}
    assert "# MF0;LEAF 01/U1 in the fabric" in text


def test_hosts_that_slurm_cannot_hold_are_refused() -> None:
    devices = (Device("a b", "host", host="a b"), Device("leaf", "leaf"))
    with pytest.raises(UsageError, match="a host called 'a b'"):
        slurm_tree(Fabric("odd", devices, tuple(both("a b", "leaf", "ib", None))))


def test_blocks_are_racks_of_nvlink_where_there_are_some() -> None:
    found = back(slurm_block(load_fabric("superpod-gb200")))
    assert found.facts["blocks"] == 8
    assert found.facts["block_nodes"]["block1"] == "n[0-17]"
    assert found.facts["block_sizes"] == [18, 36, 72, 144]
    assert back(slurm_yaml(load_fabric("gb200-nvl72"))).facts["topology_kinds"] == {
        "block": "block"
    }


def test_block_sizes_of_ones_own_are_checked() -> None:
    fabric = rails(units=4, hosts=4)
    assert slurm_block(fabric, [2, 8]).splitlines()[-1] == "BlockSizes=2,8"
    for wrong in ([5], [], [0], [2, 6], [4, 4]):
        with pytest.raises(UsageError, match="block size"):
            slurm_block(fabric, wrong)


def test_an_unknown_kind_of_yaml_topology_is_refused() -> None:
    with pytest.raises(UsageError, match="torus3d"):
        slurm_yaml(rails(), ["torus3d"])
