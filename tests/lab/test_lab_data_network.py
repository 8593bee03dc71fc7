"""The data network made of a fabric: its switches forward as the fabric routes, whatever is broken."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.lab import data_lines
from clusterlab.lab.fabric_of_lab import LabFabric, open_lab_fabric
from clusterlab.lab.from_fabric import data_network
from clusterlab.lab.pair_paths import PairPath, pair_paths, rounds
from clusterlab.lab.wires import DataNetwork
from clusterlab.topology.design.load import fabric_from_yaml
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.failures.breaking import break_fabric
from clusterlab.topology.routing.network import network_of
from clusterlab.topology.routing.policy import policy_named
from clusterlab.topology.routing.updown import route_pairs

LABS = ("lab-2x4", "lab-flat-4x2", "lab-rails-4x2", "lab-2to1-4x2")
ROUTINGS = ("pinned", "hash")

DESIGN = """
name: own
links:
  cable: {class: ethernet, GBps: 0.02, GBps_source: test, wire_GBps: 0.025, wire_source: test}
  pcie: {class: pcie, GBps: unknown}
hosts:
  count: 2
  devices:
    - {name: "gpu{i}", kind: gpu, count: 2}
    - {name: cpu0, kind: cpu, cores: 4}
    - {name: nic0, kind: nic}
  links:
    - {from: "gpu*", to: cpu0, type: pcie}
    - {from: cpu0, to: nic0, type: pcie}
network:
  devices: [{name: leaf0, kind: leaf}]
  links: [{from: "n*/nic0", to: leaf0, type: cable}]
"""


def own(*changes: tuple[str, str]) -> Fabric:
    text = DESIGN
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return fabric_from_yaml(text, file="own.yaml", default_name="own")


@cache
def whole(name: str) -> Fabric:
    return open_lab_fabric(name, "pinned").fabric


@st.composite
def broken_labs(draw: st.DrawFn) -> tuple[Fabric, str]:
    """A lab design with some of its cables down or degraded, and a routing."""
    fabric = whole(draw(st.sampled_from(LABS)))
    network = network_of(fabric)
    cables = st.integers(0, len(network.low) - 1).map(network.cable_name)
    left = st.sampled_from(["", ":half", ":10%"])
    what = draw(st.lists(st.tuples(cables, left).map("".join), max_size=5))
    return break_fabric(fabric, what), draw(st.sampled_from(ROUTINGS))


def followed(network: DataNetwork, path: PairPath) -> list[str] | None:
    """The cables that a packet crosses by the switches' entries; None where one has no way."""
    entries = {(e.switch, e.to, e.source): e for e in network.entries}
    ends = {(p.host, p.name): w for w in network.wires for p in w.ports}
    wire = ends[path.src.node, path.src.name]
    cables, at = [wire.cable], path.src.leaf
    if not wire.up:
        return None
    while at != path.dst.node:
        entry = entries[at, path.dst.address, path.src.address if network.by_source else ""]
        if not entry.port:
            return None
        wire = ends[at, entry.port]
        assert wire.up
        at = wire.high.host if wire.low.host == at else wire.low.host
        assert entry.via == network.switches.get(at, "")
        cables.append(wire.cable)
        assert len(cables) <= 6, "a loop"
    return cables


@settings(deadline=None, max_examples=40)
@given(broken_labs())
def test_switches_forward_as_the_fabric_routes(case: tuple[Fabric, str]) -> None:
    fabric, routing = case
    data, network = data_network(fabric, routing), network_of(fabric)
    for path in pair_paths(fabric, data, routing):
        ends = [np.array([network.node(f"{n.node}/{n.name}")]) for n in (path.src, path.dst)]
        routes = route_pairs(network, *ends, policy_named(routing))
        expected = [network.cable_name(int(c)) for c in routes.cables[0] if c >= 0]
        assert [name for name, _ in path.cables] == expected
        assert (followed(data, path) or []) == expected


@settings(deadline=None, max_examples=40)
@given(broken_labs())
def test_a_data_network_survives_its_file(case: tuple[Fabric, str]) -> None:
    network = data_network(*case, broken=("leaf0/spine0",))
    assert DataNetwork.from_json(json.loads(json.dumps(network.to_json()))) == network


@settings(deadline=None, max_examples=40)
@given(broken_labs())
def test_both_ends_of_a_wire_send_what_is_left_of_its_signalling_rate(
    case: tuple[Fabric, str],
) -> None:
    fabric, routing = case
    network = network_of(fabric)
    for cable, wire in enumerate(data_network(fabric, routing).wires):
        left = 200e6 * network.health[cable]
        assert wire.low.bit_s == wire.high.bit_s == round(left)
        assert wire.up == (left > 0)


@settings(deadline=None, max_examples=40)
@given(broken_labs())
def test_pinned_routes_ask_for_the_destination_only(case: tuple[Fabric, str]) -> None:
    assert not data_network(case[0], "pinned").by_source


@settings(deadline=None, max_examples=40)
@given(broken_labs())
def test_pairs_measured_together_share_no_cable_and_none_is_left_out(
    case: tuple[Fabric, str],
) -> None:
    fabric, routing = case
    paths = pair_paths(fabric, data_network(fabric, routing), routing)
    turns = rounds(paths)
    assert sorted(p.name for turn in turns for p in turn) == sorted(p.name for p in paths)
    for turn in turns:
        used = [cable for path in turn for cable in path.cables]
        assert len(used) == len(set(used))
    assert all(bool(path.GBps) == bool(path.cables) for path in paths)


def test_a_pair_expects_the_least_that_software_gets_on_its_way() -> None:
    fabric = break_fabric(whole("lab-rails-4x2"), ["leaf0/spine0:half"])
    data = data_network(fabric, "pinned")
    found = {path.GBps for path in pair_paths(fabric, data, "pinned")}
    assert sorted(found) == pytest.approx([0.01225, 0.0245])


def test_a_gpu_whose_nic_is_down_takes_the_hosts_other_one() -> None:
    fabric = whole("lab-rails-4x2")
    assert data_network(fabric, "pinned").gpu_nics["n1"] == ("nic0", "nic1")
    broken = data_network(break_fabric(fabric, ["n1/nic0"]), "pinned")
    assert broken.gpu_nics["n1"] == ("nic1", "nic1")
    cut = data_network(break_fabric(fabric, ["n1/nic0", "n1/nic1"]), "pinned")
    assert cut.gpu_nics["n1"] == ("nic0", "nic1"), "no other network is taken instead"


def lines_of(network: DataNetwork) -> Iterator[tuple[str, list[str]]]:
    every = {wire.cable for wire in network.wires}
    for host in (*network.switches, *network.gpu_nics):
        start = data_lines.switch_start if host in network.switches else data_lines.node_start
        yield (
            host,
            [
                *start(network, host),
                *data_lines.links(network, host, every),
                *data_lines.shapes(network, host, every),
                *data_lines.routes(network, host, every),
            ],
        )


@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize("name", LABS)
def test_lines_name_only_what_the_host_has(name: str, routing: str) -> None:
    network = data_network(whole(name), routing)
    for host, lines in lines_of(network):
        mine = {port.name for _, port in network.wires_of(host)} | {"lo"}
        words = [line.split() for line in lines]
        used = {w[w.index("dev") + 1] for w in words if "dev" in w}
        used |= {w[2] for w in words if w[:2] == ["link", "set"]}
        assert used <= mine
        assert {port.name for _, port in network.wires_of(host)} <= used


def test_nothing_is_said_of_wires_that_are_not_there_or_down() -> None:
    network = data_network(break_fabric(whole("lab-flat-4x2"), ["n1/nic0"]), "pinned")
    present = {"n0/nic0/leaf0", "n1/nic0/leaf0"}
    assert [line.split()[-1] for line in data_lines.links(network, "leaf0", present)] == [
        "up",
        "down",
    ]
    assert len(data_lines.shapes(network, "leaf0", present)) == 1
    routes = data_lines.routes(network, "leaf0", present)
    assert [line.split()[2] == "unreachable" for line in routes] == [False, True, True, True]
    assert data_lines.routes(network, "n1", present) == []


@settings(deadline=None)
@given(st.integers(80_000, 10**10))
def test_a_bucket_takes_a_whole_packet_and_a_tick(bit_s: int) -> None:
    network = data_network(whole("lab-flat-4x2"), "pinned")
    wire = network.wires[0]
    port = type(wire.low)("n0", "nic0", bit_s)
    one = type(network)(
        network.switches, (type(wire)("c", port, wire.high, True),), (), (), network.gpu_nics
    )
    words = data_lines.shapes(one, "n0", {"c"})[0].split()
    burst, limit = (int(words[words.index(word) + 1]) for word in ("burst", "limit"))
    assert burst >= max(65_536 + 9_000, bit_s / 8 * 0.004)
    assert limit > burst
    assert words[words.index("rate") + 1] == f"{bit_s}bit"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("superpod-h100-4su", r"127 hosts \(1016 GPUs\); expected at most 16 in a lab"),
        ("nvlink-pod-256", r"32 hosts \(256 GPUs\)"),
        (
            "dgx-h100-2node",
            r"its NICs carry 800 GB/s together \(16 of up to 50\); expected at most 0.4",
        ),
        ("hgx-h100", "no network to route on"),
        ("host", "no network to route on"),
        ("no-such", "unknown fabric 'no-such'"),
    ],
)
def test_a_shipped_design_that_cannot_be_a_lab_says_which_limit(name: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        open_lab_fabric(name, "pinned")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([("count: 2\n", "names: [a1, b7]\n"), ("n*/nic0", "*/nic0")], "a1, b7; expected n0, n1"),
        ([("GBps: 0.02, GBps_source: test, wire_GBps: 0.025, wire_source: test", "GBps: unknown")],
         "rate of n0/nic0->leaf0 is unknown"),
        ([("nic0", "interface-of-nic0")], "a NIC called 'interface-of-nic0'"),
        ([('    - {name: "gpu{i}", kind: gpu, count: 2}\n', ""),
          ('    - {from: "gpu*", to: cpu0, type: pcie}\n', "")], "hosts without GPUs"),
        ([("[{name: leaf0, kind: leaf}]", '[{name: "leaf{i}", kind: leaf, count: 2}]'),
          ("to: leaf0", 'to: "leaf*"')], "n0/nic0 has 2 cables"),
        ([("{name: leaf0, kind: leaf}", "{name: leaf0, kind: leaf}, {name: x, kind: external}"),
          ("type: cable}]", "type: cable}, {from: x, to: leaf0, type: cable}]")],
         "x on a switch is not a host's NIC"),
        ([('from: "n*/nic0"', "from: n0/nic0")], "n1 has no NIC on a switch"),
        ([('    - {from: "gpu*", to: cpu0, type: pcie}\n', "")], "n0/gpu0 reaches no NIC"),
        ([("type: cable}]", "type: cable}, {from: n0/nic0, to: n1/nic0, type: cable}]")],
         "joins hosts without a switch"),
    ],
)  # fmt: skip
def test_a_design_of_ones_own_that_cannot_be_a_lab_says_why(
    changes: list[tuple[str, str]], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        data_network(own(*changes), "pinned")


def test_a_design_of_ones_own_can_be_a_lab_and_says_its_shape() -> None:
    fabric = LabFabric(own(), "own.yaml", "pinned")
    assert fabric.shape == {"nodes": 2, "gpus": 2, "cpus": 4, "sockets": 1}
    assert not fabric.several_nics
    assert [wire.cable for wire in fabric.network().wires] == ["n0/nic0/leaf0", "n1/nic0/leaf0"]
