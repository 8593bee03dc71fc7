"""topograph's files as fabrics."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from clusterlab.topology.importing.imported import NotAFabricError
from clusterlab.topology.importing.topograph import read_topograph
from tests.formats.test_topograph import BY_NAME, GRAPH


def test_a_model_is_hosts_below_switches() -> None:
    found = read_topograph(BY_NAME, file="m.yaml")
    kinds = Counter(d.kind for d in found.fabric.devices)
    assert kinds == {"host": 6, "leaf": 2, "spine": 1}
    assert found.facts["accelerator_domains"] == {"nvl-1": "n[1-2,7]", "nvl-2": "[1101-1102]"}
    assert [f.code for f in found.findings] == ["host_without_switch"]
    assert {x.dst for x in found.fabric.links_from("n7")} == {"leaf-1"}


def test_compute_nodes_have_gpus_and_no_wiring() -> None:
    text = json.dumps(
        [
            {"Name": "a", "GpuIDList": ["1", "2"], "DomainUUID": "d"},
            {"Name": "b", "GpuIDList": ["3"], "DomainUUID": "d"},
        ]
    )
    found = read_topograph(text, file="n.json")
    assert [d.name for d in found.fabric.of_kind("gpu")] == ["a/gpu0", "a/gpu1", "b/gpu0"]
    assert len(found.fabric.links) == 0
    assert found.facts["accelerator_domains"] == {"d": ["a", "b"]}


def test_interfaces_of_hosts_are_nics_and_cables_are_counted() -> None:
    graph = json.loads(json.dumps(GRAPH))
    graph[0]["nodes"][0]["compounded_nodes"].append(
        {"id": "3", "name": "spine", "device_type": "switch", "tier": 2}
    )
    cable = {"interfaces": [{"node": "1", "interface": "a"}, {"node": "3", "interface": "b"}]}
    graph[0]["links"] += [cable, cable]
    found = read_topograph(json.dumps(graph), file="g.json")
    assert {d.name: (d.kind, d.host, d.interface) for d in found.fabric.devices} == {
        "leaf": ("leaf", None, None),
        "spine": ("spine", None, None),
        "h/eth0": ("nic", "h", "eth0"),
    }
    up = next(x for x in found.fabric.links if (x.src, x.dst) == ("leaf", "spine"))
    assert (up.multiplicity, up.link_class, up.GBps) == (2, "ethernet", None)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("http: {port: 1}\nrequestAggregationDelay: 2s\n", "a service configuration"),
        ('{"provider": {"name": "a"}, "engine": {"name": "b"}}', "an API request payload"),
    ],
)
def test_what_holds_no_topology_is_refused_as_what_it_is(text: str, what: str) -> None:
    with pytest.raises(NotAFabricError, match=what) as caught:
        read_topograph(text, file="x")
    assert (caught.value.kind, caught.value.refused) == ("topograph", "not_a_fabric")
