"""topology.conf and topology.yaml as plain data."""

from __future__ import annotations

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.formats.slurm_topology import (
    SlurmTopology,
    parse_slurm_topology,
    recognise,
    template_line,
)
from clusterlab.formats.slurm_topology_yaml import parse_slurm_topology_yaml


def conf(text: str) -> SlurmTopology:
    return parse_slurm_topology(text, file="topology.conf")


def test_keys_in_any_case_continuation_lines_and_comments() -> None:
    found = conf(
        "# top\nswitchname = s1 NODES=n[1-2,7] LinkSpeed=100 # the first\n"
        "SwitchName=s0 \\\n   Switches=s[1-2]\n"
    )
    assert [(s.name, s.switches, s.nodes, s.line) for s in found.switches] == [
        ("s1", (), ("n1", "n2", "n7"), 2),
        ("s0", ("s1", "s2"), (), 3),
    ]
    assert found.kinds == ("tree",)
    assert found.findings == ()


def test_blocks_keep_the_names_that_comments_give_them() -> None:
    found = conf(
        "# rack11=nvl-1-1\nBlockName=rack11 Nodes=n[1-2]\n"
        "# ClusterUUID and CliqueID: 5e-7f\nBlockName=b2 Nodes=n[3-4]\n"
        "# other=x\nBlockName=b3 Nodes=n5\nBlockSizes=2,4\n"
    )
    assert [(b.name, b.alias) for b in found.blocks] == [
        ("rack11", "nvl-1-1"),
        ("b2", "5e-7f"),
        ("b3", None),
    ]
    assert found.block_sizes == (2, 4)


def test_commented_out_records_are_counted() -> None:
    found = conf("#BlockName=b1 Nodes=n1\n# SwitchName=s Nodes=n2\n# words\nBlockSizes=20\n")
    assert (found.kinds, found.commented) == ((), 2)


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("SwitchName=s Nodes=n1\nSwitchName=s2 Nodes=n[1-\n", 2, "brackets do not pair"),
        ("SwitchName=s Nodes=n1 junk\n", 1, "no Key=value"),
        ("SwitchName=s Nodes=n1 Nodes=n2\n", 1, "twice"),
        ("SwitchName= Nodes=n1\n", 1, "no Key=value"),
        ('SwitchName="" Nodes=n1\n', 1, "without a name"),
        ("\n\nSwitchName=s Nodes=n[1-999999999]\n", 3, "entries"),
        ("BlockSizes=x\n", 1, "BlockSizes"),
        ("BlockSizes=18,0\n", 1, "BlockSizes"),
    ],
)
def test_broken_lines_are_named(text: str, line: int, what: str) -> None:
    with pytest.raises(UsageError) as caught:
        conf(text)
    assert caught.value.where == f"topology.conf:{line}"
    assert what in caught.value.message


def test_many_lines_cannot_ask_for_more_names_than_a_file_may() -> None:
    lines = [f"SwitchName=s{i} Nodes=n{i}-[1-65536]" for i in range(5)]
    with pytest.raises(UsageError, match="more than 262144 names"):
        conf("\n".join(lines))


def test_what_cannot_be_followed_is_noted() -> None:
    found = conf("Include /etc/slurm/more.conf\nSwitchName=s Nodes=ALL Colour=red\nBandwidth=7\n")
    assert [f.code for f in found.findings] == [
        "include_not_read",
        "unknown_key",
        "nodes_all",
        "unknown_key",
    ]


def test_a_template_shows_its_line() -> None:
    assert template_line("# {{ comment }}\nSwitchName=s Nodes={{ nodes }}\n") == 2
    assert template_line("SwitchName=s Nodes=n1 # {% no %}\n") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SwitchName=s Nodes=n1", True),
        ("#BlockName=b Nodes=n1", True),
        ("- topology: t\n  flat: true\n", True),
        ("topology: [ Ring ]\nnpus_count: [ 4 ]\n", False),
        ("switches:\n- name: s\n", False),
        ("vswitchname = x", False),
    ],
)
def test_only_slurms_files_are_recognised(text: str, expected: bool) -> None:
    assert recognise(text) is expected


YAML = """
- topology: gpu
  cluster_default: true
  tree:
    switches:
      - {switch: spine, children: "leaf[1-2]"}
      - {switch: leaf1, nodes: "n[1-2]"}
      - {switch: leaf2, nodes: [n3, "n[4-5]"]}
- topology: nvl
  block:
    block_sizes: [2, 4]
    blocks:
      - {block: b1, nodes: "n[1-2]"}
- topology: rest
  flat: {alpha_step_rank: true}
- topology: cube
  torus3d:
    toruses:
      - name: pod1
        dims: {x: 2, y: 1, z: 1}
        nodes: n[1-2]
"""


def test_a_yaml_file_holds_several_topologies() -> None:
    gpu, nvl, rest, cube = parse_slurm_topology_yaml(YAML, file="topology.yaml")
    assert (gpu.name, gpu.kinds, gpu.default) == ("gpu", ("tree",), True)
    assert gpu.switches[0].switches == ("leaf1", "leaf2")
    assert gpu.switches[2].nodes == ("n3", "n4", "n5")
    assert (nvl.block_sizes, nvl.blocks[0].nodes) == ((2, 4), ("n1", "n2"))
    assert rest.kinds == ("flat",)
    assert cube.toruses[0].nodes == ("n1", "n2")


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("- topology: a\n  tree: {}\n  flat: true\n", "t.yaml:1"),
        (
            "- topology: a\n  ring:\n    rings:\n    - nodes: n1\n",
            "t.yaml:4: [0].ring.rings[0].ring",
        ),
        ("- topology: a\n  flat: true\n- topology: a\n  flat: true\n", "t.yaml:3"),
        ("topology: a\n", "t.yaml:1"),
        ("- topology: a\n  tree:\n    switches:\n    - {switch: s, nodes: 'n['}\n", "t.yaml:4"),
    ],
)
def test_yaml_errors_name_line_and_field(text: str, where: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_slurm_topology_yaml(text, file="t.yaml")
    assert (caught.value.where or "").startswith(where)
