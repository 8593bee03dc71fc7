"""topograph's models, answers and inputs as plain data."""

from __future__ import annotations

import json

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.formats.topograph import Model, NetworkGraph, parse_topograph, recognise

BY_NAME = """
switches:
  core: {switches: [leaf-1, leaf-2]}
blocks:
- switch: leaf-1
  nodes: ["n[1-2]", n7]
  annotations: {accelerator.topology.test/domain: nvl-1, accelerator.topology.test/sub-domain: rack1}
- switch: leaf-2
  nodes: ["[1101-1102]"]
  labels: {network.topology.nvidia.com/accelerator: nvl-2}
- nodes: [cpu1]
"""

LISTED = """
topology: "topology/tree"
switches:
- name: core
  switches: [leaf]
- name: leaf
  capacity_blocks: [cb1]
capacity_blocks:
- {name: cb0, type: H100, nodes: [x1]}
- {name: cb1, type: H100, nvlink: nv1, nodes: [n1, n2]}
"""


def model(text: str) -> Model:
    found = parse_topograph(text, file="m.yaml")
    assert isinstance(found, Model)
    return found


def test_switches_are_all_that_are_named() -> None:
    found = model(BY_NAME)
    assert {s.name: (s.switches, s.nodes) for s in found.switches} == {
        "core": (("leaf-1", "leaf-2"), ()),
        "leaf-1": ((), ("n1", "n2", "n7")),
        "leaf-2": ((), ("1101", "1102")),
    }
    assert {d.name: d.nodes for d in found.domains} == {
        "nvl-1": ("n1", "n2", "n7"),
        "nvl-2": ("1101", "1102"),
    }
    assert found.loose == ("cpu1",)


def test_the_older_lists_say_the_same() -> None:
    found = model(LISTED)
    assert {s.name: s.nodes for s in found.switches} == {"core": (), "leaf": ("n1", "n2")}
    assert [d.name for d in found.domains] == ["nv1"]
    assert found.loose == ("x1",)


def test_nodes_may_stand_below_their_switch() -> None:
    found = model(
        json.dumps(
            {
                "switches": {
                    "S1": {"switches": ["S2"]},
                    "S2": {"nodes": [{"node_id": "I1", "accelerated_network_id": "nv"}]},
                }
            }
        )
    )
    assert {s.name: s.nodes for s in found.switches} == {"S1": (), "S2": ("I1",)}
    assert found.domains[0].nodes == ("I1",)


def test_compute_nodes_and_graphs_of_netq() -> None:
    nodes = parse_topograph(
        json.dumps([{"Name": "a", "GpuIDList": ["1", "2"], "DomainUUID": "d"}]), file="n.json"
    )
    assert isinstance(nodes, tuple)
    assert (nodes[0].name, nodes[0].gpus, nodes[0].domain) == ("a", ("1", "2"), "d")
    graph = parse_topograph(json.dumps(GRAPH), file="g.json")
    assert isinstance(graph, NetworkGraph)
    assert [(n.name, n.tier) for n in graph.nodes] == [("leaf", 1), ("h", None)]
    assert graph.links[0].nodes == ("leaf", "h")
    assert graph.links[0].interfaces == ("swp1", "eth0")


GRAPH = [
    {
        "nodes": [
            {
                "id": "tier-1",
                "name": "tier-1",
                "compounded_nodes": [
                    {"id": "1", "name": "leaf", "device_type": "switch", "tier": 1},
                    {"id": "2", "name": "h", "device_type": "discovered_via_lldp", "tier": -1},
                ],
            }
        ],
        "links": [
            {
                "compounded_links": [
                    {
                        "interfaces": [
                            {"node": "1", "interface": "swp1"},
                            {"node": "2", "interface": "eth0"},
                        ]
                    }
                ]
            }
        ],
    }
]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("http: {port: 1}\nrequestAggregationDelay: 2s\n", "service configuration"),
        ('{"provider": {"name": "test"}, "engine": {"name": "slurm"}}', "API request payload"),
    ],
)
def test_what_holds_no_topology_says_what_it_is(text: str, what: str) -> None:
    assert recognise(text)
    assert parse_topograph(text, file="x") == what


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("switches:\n  a: 7\nblocks: []\n", "x:2: switches.a"),
        ("switches:\n  a: {}\nblocks:\n- {switch: a, nodes: ['n[']}\n", "x:4: blocks[0].nodes[0]"),
        ("switches: [{switches: []}]\nblocks: []\n", "x:1: switches[0].name"),
        ('[{"nodes": [], "links": [{"interfaces": [{"node": "z"}, {"node": "z"}]}]}]', "x:1"),
    ],
)
def test_errors_name_line_and_field(text: str, where: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_topograph(text, file="x")
    assert (caught.value.where or "").startswith(where)
