"""Slurm's topology files as fabrics, with what is wrong with them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.findings import Severity
from clusterlab.topology.checks.all_checks import check
from clusterlab.topology.host_groups import host_groups
from clusterlab.topology.importing.imported import Imported, NotAFabricError
from clusterlab.topology.importing.slurm_topology import read_slurm_topology
from clusterlab.topology.summary import summary
from tests.support import shared_dir


def read(text: str) -> Imported:
    return read_slurm_topology(text, file="topology.conf")


def kinds(found: Imported) -> dict[str, str]:
    return {d.name: d.kind for d in found.fabric.devices}


def codes(found: Imported) -> list[str]:
    return [f.code for f in found.findings]


def test_tiers_are_heights_and_links_have_no_rate() -> None:
    found = read(
        "SwitchName=root Switches=mid,leaf3\nSwitchName=mid Switches=leaf[1-2]\n"
        "SwitchName=leaf1 Nodes=n[1-2]\nSwitchName=leaf2 Nodes=n3\nSwitchName=leaf3 Nodes=n4\n"
    )
    assert kinds(found) == {
        **dict.fromkeys(["n1", "n2", "n3", "n4"], "host"),
        **dict.fromkeys(["leaf1", "leaf2", "leaf3"], "leaf"),
        "mid": "spine",
        "root": "core",
    }
    links = {(x.src, x.dst, x.link_class, x.GBps, x.multiplicity) for x in found.fabric.links}
    assert ("leaf1", "mid", "network", None, 1) in links
    assert len(links) == 2 * (4 + 4)
    assert found.fabric.hosts == ("n1", "n2", "n3", "n4")
    assert found.findings == ()


def test_a_forest_is_legal_and_said() -> None:
    found = read("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2\n")
    assert codes(found) == ["several_roots"]
    assert found.findings[0].severity is Severity.INFO


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("SwitchName=a Switches=b\nSwitchName=b Switches=a\n", "switch_loop"),
        ("SwitchName=a Switches=a Nodes=n1\n", "switch_loop"),
        ("SwitchName=a Switches=zz\n", "unknown_switch"),
        ("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n1\n", "node_in_two_leaves"),
        ("SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2\n", "switch_twice"),
        (
            "SwitchName=a Switches=c\nSwitchName=b Switches=c\nSwitchName=c Nodes=n\n",
            "switch_below_several",
        ),
        ("SwitchName=a Nodes=n1 Switches=b\nSwitchName=b Nodes=n2\n", "nodes_and_switches"),
        ("SwitchName=a Nodes=n1\nSwitchName=b LinkSpeed=1\n", "empty_switch"),
        ("BlockName=a Nodes=n[1-2]\nBlockSizes=3\n", "block_below_base_size"),
        ("BlockName=a Nodes=n[1-9]\nBlockSizes=3,9\n", "block_sizes_not_powers"),
        ("BlockName=a Nodes=n1\nBlockName=b Nodes=n1\nBlockSizes=1\n", "node_in_two_blocks"),
        ("RingName=a Nodes=n[1-17]\n", "ring_too_long"),
    ],
)
def test_what_is_wrong_is_found(text: str, code: str) -> None:
    found = read(text)
    assert code in codes(found)
    finding = next(f for f in found.findings if f.code == code)
    assert finding.evidence[0].startswith("topology.conf")
    assert finding.fix


def test_a_list_of_neighbours_is_a_loop_and_still_has_tiers() -> None:
    found = read(
        "SwitchName=top Switches=a,b\nSwitchName=a Switches=l1,top\nSwitchName=b Switches=l2,top\n"
        "SwitchName=l1 Nodes=n1\nSwitchName=l2 Nodes=n2\n"
    )
    assert "switch_loop" in codes(found)
    assert [kinds(found)[name] for name in ("l1", "a", "b", "top")] == [
        "leaf",
        "spine",
        "spine",
        "core",
    ]


def test_a_node_called_as_a_switch_stays_apart() -> None:
    found = read("SwitchName=a Nodes=a\n")
    assert kinds(found) == {"a": "host", "switch:a": "leaf"}


def test_blocks_and_rings_are_localities_in_facts() -> None:
    found = read(
        "# r1=nvl-1\nBlockName=r1 Nodes=n[1-2]\nBlockName=r2 Nodes=n[3-4]\nBlockSizes=2,4\n"
        "RingName=x Nodes=m[1-3]\n"
    )
    assert kinds(found) == {
        **dict.fromkeys(["n1", "n2", "n3", "n4", "m1", "m2", "m3"], "host"),
        **dict.fromkeys(["r1", "r2", "x"], "external"),
    }
    assert [(g.name, g.kind, g.hosts, g.sizes) for g in host_groups(found.fabric)] == [
        ("r1", "block", ("n1", "n2"), (2, 4)),
        ("r2", "block", ("n3", "n4"), (2, 4)),
        ("x", "ring", ("m1", "m2", "m3"), ()),
    ]
    counted = summary(found.fabric)
    assert (counted["hosts"], counted["host_groups"]) == (7, {"block": 2, "ring": 1})
    assert (counted["devices"], counted["links"], counted["tiers"]) == ({"host": 7}, [], [])
    assert check(found.fabric) == []
    assert found.facts["blocks"] == 2
    assert found.facts["rings"] == 1
    assert found.facts["block_sizes"] == [2, 4]
    assert found.facts["block_nodes"] == {"r1": "n[1-2]", "r2": "n[3-4]"}
    assert found.facts["block_aliases"] == {"r1": "nvl-1"}


def test_a_group_called_as_something_else_stays_apart() -> None:
    found = read("BlockName=n1 Nodes=n[1-2]\nBlockSizes=2\n")
    assert kinds(found) == {"n1": "host", "n2": "host", "block:n1": "external"}
    blocks = "  block:\n    block_sizes: [1]\n    blocks:\n    - {block: b, nodes: 'n[1-2]'}\n"
    found = read(f"- topology: a\n{blocks}- topology: c\n{blocks}")
    assert [g.name for g in host_groups(found.fabric)] == ["a/b", "c/b"]


def test_topologies_of_one_yaml_file_keep_their_switches_apart() -> None:
    tree = "  tree:\n    switches:\n    - {switch: s, nodes: 'n[1-2]'}\n"
    found = read(f"- topology: a\n{tree}- topology: b\n  cluster_default: true\n{tree}")
    assert kinds(found) == {"n1": "host", "n2": "host", "a/s": "leaf", "b/s": "leaf"}
    assert found.facts["topologies"] == 2
    assert found.facts["default"] == "b"


def test_a_flat_topology_has_no_devices() -> None:
    found = read("- topology: rest\n  flat: true\n")
    assert len(found.fabric.devices) == 0
    assert found.facts["topology_kinds"] == {"rest": "flat"}


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("SwitchName={{ name }} Nodes=n1\n", "template"),
        ("#SwitchName=a Nodes=n1\nBlockSizes=1\n", "1 are commented out"),
        ("# nothing\n", "no switch"),
    ],
)
def test_no_topology_is_refused(text: str, what: str) -> None:
    with pytest.raises(NotAFabricError, match=what) as caught:
        read(text)
    assert caught.value.kind == "slurm_topology"


def test_a_real_list_of_neighbours_is_seen() -> None:
    path = shared_dir() / "samples" / "slurm_topology" / "azure_cyclecloud_topology.txt"
    found = read(path.read_text())
    counts = [list(kinds(found).values()).count(kind) for kind in ("leaf", "spine", "core")]
    assert counts == [40, 8, 1]
    assert "switch_loop" in codes(found)


@given(st.lists(st.integers(0, 60), min_size=1, max_size=60))
def test_any_tree_is_read_whole_and_without_findings(parents: Sequence[int]) -> None:
    # Switch i hangs below switch parents[i] % i: always a tree with root 0.
    children: dict[int, list[int]] = {i: [] for i in range(len(parents))}
    for i in range(1, len(parents)):
        children[parents[i] % i].append(i)
    lines = [
        f"SwitchName=s{i} "
        + (f"Switches={','.join(f's{c}' for c in below)}" if below else f"Nodes=n{i}")
        for i, below in children.items()
    ]
    found = read("\n".join(reversed(lines)))
    switch_links = [x for x in found.fabric.links if x.src[0] == x.dst[0] == "s"]
    assert len(switch_links) == 2 * (len(parents) - 1)
    assert found.findings == ()
