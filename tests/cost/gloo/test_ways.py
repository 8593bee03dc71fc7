"""gloo's bytes take the cables that a lab's switches forward them by."""

from __future__ import annotations

import itertools

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.cost.flows.crossing import Routing
from clusterlab.cost.gloo.ways import gloo_ways
from clusterlab.lab.from_fabric import data_network
from clusterlab.lab.pair_paths import pair_paths
from clusterlab.topology.design.load import fabric_from_yaml
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.failures.breaking import break_fabric
from clusterlab.topology.opening import open_fabric
from clusterlab.topology.routing.fluid import ACCELERATOR_LINKS, route

TWO_CABLES = """
name: two-cables
links:
  eth: {class: ethernet, GBps: 0.02, GBps_source: test, latency_us: unknown}
  local: {class: pcie, GBps: unknown, latency_us: unknown}
hosts:
  count: 4
  devices:
    - {name: gpu0, kind: gpu, model: fake}
    - {name: nic0, kind: nic}
  links:
    - {from: gpu0, to: nic0, type: local}
network:
  devices:
    - {name: "leaf{i}", kind: leaf, count: 2}
    - {name: spine0, kind: spine}
  links:
    - {from: "n[0-1]/nic0", to: leaf0, type: eth}
    - {from: "n[2-3]/nic0", to: leaf1, type: eth}
    - {from: "leaf*", to: spine0, type: eth, multiplicity: 2}
"""

CASES = [
    ("lab-flat-4x2", ()),
    ("lab-flat-4x2", ("n1/nic0:half",)),
    ("lab-2x4", ()),
    ("lab-rails-4x2", ()),
    ("lab-rails-4x2", ("leaf0/spine0:half",)),
    ("lab-rails-4x2", ("leaf0/spine0",)),
    ("lab-rails-4x2", ("n1/nic0",)),
    ("lab-2to1-4x2", ()),
    ("lab-2to1-4x2", ("spine1",)),
    ("two cables", ()),
    ("two cables", ("leaf0/spine0#1",)),
]


def opened(name: str, broken: tuple[str, ...]) -> Fabric:
    if name == "two cables":
        whole = fabric_from_yaml(TWO_CABLES, file="test.yaml", default_name="two")
    else:
        whole = open_fabric(name)
    return break_fabric(whole, broken) if broken else whole


def pairs_of(fabric: Fabric) -> list[tuple[str, str]]:
    gpus = [gpu.name for host in fabric.hosts for gpu in fabric.on_host(host, "gpu")]
    return list(itertools.permutations(gpus, 2))


@pytest.mark.parametrize("routing", ["pinned", "hash"])
@pytest.mark.parametrize(("name", "broken"), CASES)
def test_the_way_of_two_ranks_is_that_of_their_nics_in_a_lab(
    name: str, broken: tuple[str, ...], routing: Routing
) -> None:
    fabric = opened(name, broken)
    data = data_network(fabric, routing)
    by_nics = {
        (f"{path.src.node}/{path.src.name}", f"{path.dst.node}/{path.dst.name}"): path
        for path in pair_paths(fabric, data, routing)
    }
    nic_of = {
        gpu.name: f"{host}/{nic}"
        for host in fabric.hosts
        for gpu, nic in zip(fabric.on_host(host, "gpu"), data.gpu_nics[host], strict=True)
    }
    ways = gloo_ways(fabric, pairs_of(fabric), routing)
    compared = 0
    for (src, dst), crossings in ways.items():
        if fabric.host_of(src) == fabric.host_of(dst):
            assert crossings == route(fabric, src, dst, avoid=ACCELERATOR_LINKS)
            continue
        path = by_nics[nic_of[src], nic_of[dst]]
        crossed = [c for c in crossings if c.link.link_class == "ethernet"]
        ends = [
            "/".join((c.link.src, c.link.dst) if up else (c.link.dst, c.link.src))
            for c, (_, up) in zip(crossed, path.cables, strict=True)
        ]
        assert ends == [cable.partition("#")[0] for cable, _ in path.cables]
        assert all(c.share == 1 for c in crossed)
        assert min(c.link.capacity_GBps or 0 for c in crossed) == pytest.approx(path.GBps)
        compared += 1
    assert compared


def test_parallel_cables_carry_their_own_flows_only() -> None:
    fabric = opened("two cables", ())
    ways = gloo_ways(fabric, pairs_of(fabric), "pinned")
    uplinks = {
        id(c.link): c.link
        for crossings in ways.values()
        for c in crossings
        if (c.link.src, c.link.dst) == ("leaf0", "spine0")
    }
    assert len(uplinks) == 2
    assert {link.capacity_GBps for link in uplinks.values()} == {0.02}


def test_adaptive_routing_spreads_between_the_same_nics() -> None:
    fabric = open_fabric("lab-rails-4x2")
    crossings = gloo_ways(fabric, [("n0/gpu0", "n2/gpu1")], "adaptive")["n0/gpu0", "n2/gpu1"]
    shares = {(c.link.src, c.link.dst): c.share for c in crossings}
    assert shares["n0/nic0", "leaf0"] == shares["leaf3", "n2/nic1"] == 1
    assert shares["leaf0", "spine0"] == shares["leaf0", "spine1"] == pytest.approx(0.5)


def test_nics_that_no_switch_joins_are_an_error_that_names_them() -> None:
    fabric = break_fabric(open_fabric("lab-rails-4x2"), ["spine0", "spine1"])
    with pytest.raises(UsageError, match="no path from n0/nic0 to n2/nic0"):
        gloo_ways(fabric, [("n0/gpu0", "n2/gpu0")], "pinned")
