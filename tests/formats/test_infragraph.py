"""InfraGraph files of all versions as plain data."""

from __future__ import annotations

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.formats.infragraph import parse_infragraph, recognise
from clusterlab.formats.infragraph_model import Slice

NOW = """
infrastructure:
  name: two
  devices:
  - name: server
    components:
    - {name: xpu, count: 4, choice: xpu}
    - {name: mgmt, count: 1, choice: custom, custom: {type: mgmt-nic}}
    links: [{name: pcie, physical: {bandwidth: {choice: gigabits_per_second, gigabits_per_second: 512},
                                    latency: {choice: ns, ns: 500}}}]
    edges:
    - {ep1: {component: "xpu[0:2]"}, ep2: {component: "mgmt[0]"}, scheme: many2many, link: pcie}
  instances: [{name: n, device: server, count: 2}]
  links: [{name: eth, physical: {bandwidth: {gigabytes_per_second: 12.5}}}]
  edges:
  - {ep1: {instance: "n[0]", component: xpu}, ep2: {instance: "n[1]", component: "xpu[0:4:2]"},
     scheme: one2one, link: eth}
"""
BEFORE = """
devices:
- name: server
  components: [{name: npu, type: npu, count: 2}, {name: nic, type: nic, external: true}]
  links: [{name: pcie, bandwidth: {choice: giga_transfers_per_second, giga_transfers_per_second: 8}}]
  connections: [npu.0.pcie.nic.3]
instances: [{name: n, device: server}]
links: [{name: eth, bandwidth: {g_bits_per_second: 100}}]
connections: [n.0.nic.0.eth.n.1.nic.2]
"""


def test_the_schema_of_today() -> None:
    found = parse_infragraph(NOW, file="x")
    (server,) = found.templates
    assert [(c.name, c.choice, c.count) for c in server.components] == [
        ("xpu", "xpu", 4),
        ("mgmt", "mgmt-nic", 1),
    ]
    assert (server.links[0].GBps, server.links[0].latency_us) == (64.0, 0.5)
    assert server.edges[0].a.path == (Slice("xpu", 0, 2),)
    assert (found.links[0].GBps, found.links[0].unit) == (12.5, "gigabytes_per_second")
    edge = found.edges[0]
    assert (edge.a.instance, edge.a.path) == (Slice("n", 0, 1), (Slice("xpu"),))
    assert list(edge.b.path[0].indices(4)) == [0, 2]


def test_the_schemas_before_it() -> None:
    found = parse_infragraph(BEFORE, file="x")
    (server,) = found.templates
    assert [(c.name, c.choice, c.count) for c in server.components] == [
        ("npu", "npu", 2),
        ("nic", "nic", None),
    ]
    assert (server.links[0].GBps, server.links[0].gigatransfers) == (None, 8.0)
    assert server.edges[0].b.path[0].most == 3
    assert found.links[0].GBps == 12.5
    assert found.edges[0].b.instance == Slice("n", 1, 2)


def test_nested_components_multiply() -> None:
    found = parse_infragraph(
        "device:\n- name: gh\n  components:\n  - name: chip\n    type: xpu\n    count: 2\n"
        "    components: [{name: hopper, type: xpu, count: 1}, {name: grace, type: cpu, count: 1}]\n",
        file="x",
    )
    assert [(c.name, c.count, c.within) for c in found.templates[0].components] == [
        ("chip", 2, None),
        ("hopper", 2, "chip"),
        ("grace", 2, "chip"),
    ]


@pytest.mark.parametrize(
    ("indices", "count", "expected", "exceeds"),
    [
        (Slice("a"), 3, [0, 1, 2], False),
        (Slice("a", 1, 9), 3, [1, 2], True),
        (Slice("a", 5, 6), 3, [], True),
        (Slice("a", 0, None, 2), 3, [0, 2], False),
        (Slice("a", 0, 999_999_999), 2, [0, 1], True),
    ],
)
def test_slices_stay_within_a_count(
    indices: Slice, count: int, expected: list[int], exceeds: bool
) -> None:
    assert list(indices.indices(count)) == expected
    assert indices.exceeds(count) is exceeds


def test_json_and_templates_alone_are_recognised() -> None:
    assert recognise(NOW)
    assert recognise(BEFORE)
    assert recognise('{"devices": [{"name": "a", "components": []}]}')
    assert not recognise("switches: {}\nblocks: []\n")


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("devices: [{name: a, components: [{name: x, count: -1}]}]\n", "x:1: devices[0].components"),
        ("devices: [{name: a, components: [{name: x, count: 999999999}]}]\n", "x:1"),
        ("devices:\n- {name: a, components: []}\n- {name: a, components: []}\n", "x:1"),
        ("devices:\n- name: a\n  components: []\n  connections: [b.0.c]\n", "x:4"),
        ("devices:\n- name: a\n  links: [{name: l, bandwidth: {knots: 3}}]\n", "x:3"),
        ("devices:\n- name: a\n  edges: [{ep1: {component: 'x['}, ep2: {component: y},"
         " scheme: one2one}]\n", "x:3"),
        ("instances: []\ncomponents_: 1\n", "x:1"),
    ],
)  # fmt: skip
def test_errors_name_line_and_field(text: str, where: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_infragraph(text, file="x")
    assert (caught.value.where or "").startswith(where)
