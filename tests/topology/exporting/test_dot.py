"""Graphviz text of fabrics."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace

import pytest

from clusterlab.topology.design.load import load_fabric
from clusterlab.topology.exporting.dot import dot
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import Device
from tests.topology.exporting.networks import both, rails


def nodes(text: str) -> set[str]:
    return set(re.findall(r'^\s*"((?:[^"\\]|\\.)*)" \[', text, re.MULTILINE))


def test_a_small_fabric_shows_every_device_and_each_cable_once() -> None:
    fabric = rails(units=1, hosts=2)
    text = dot(fabric)
    assert nodes(text) == {d.name for d in fabric.devices}
    assert text.count(" -- ") == len(fabric.links) // 2
    assert '"n0/gpu0" -- "n0/nvswitch0" [label="18 × nvlink 20 GB/s"];' in text
    assert text.count("subgraph cluster_") == 2


def test_a_large_fabric_shows_groups_with_their_cables() -> None:
    text = dot(load_fabric("superpod-h100-4su"))
    assert len(nodes(text)) < 20
    assert "32 × host" in text
    assert "256 GPUs" in text
    assert "8 × leaf" in text
    # 32 hosts with 8 NICs on the leaves of their unit.
    assert '"hosts 1" -- "leaf group 1" [label="256 × ib 48 GB/s"];' in text


def test_very_many_groups_become_kinds() -> None:
    text = dot(load_fabric("superpod-b200-64su"))
    assert nodes(text) == {"hosts", "leaf", "spine", "core"}
    assert '"core" -- "spine" [label="16384 × ib 48 GB/s"];' in text


def test_what_is_worn_or_down_is_dashed() -> None:
    fabric = rails(units=1, hosts=1)
    worn = {("n0/nic0", "leaf0"): 0.0, ("n0/nic1", "leaf1"): 0.5}
    worn |= {(b, a): health for (a, b), health in worn.items()}
    links = tuple(replace(x, health=worn.get((x.src, x.dst), 1.0)) for x in fabric.links)
    text = dot(replace(fabric, links=links))
    assert 'label="ib 50 down" style=dashed' in text
    assert 'label="ib 50 at 50%" style=dashed' in text


def test_a_link_of_one_direction_is_drawn_too() -> None:
    devices = (Device("a", "leaf"), Device("b", "leaf"))
    link = both("b", "a", "ib", None)[0]
    assert '"a" -- "b" [label="ib ?"];' in dot(Fabric("one", devices, (link,)))


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
@pytest.mark.parametrize("design", ["dgx-h100-2node", "superpod-h100-4su"])
def test_graphviz_takes_it(design: str) -> None:
    text = dot(load_fabric(design))
    found = subprocess.run(
        ["dot", "-Tplain"], input=text, capture_output=True, text=True, timeout=60, check=False
    )
    assert found.returncode == 0, found.stderr


def test_quotes_and_backslashes_in_names_are_escaped() -> None:
    name = 'a"b\\'
    assert nodes(dot(Fabric("odd", (Device(name, "leaf"),), ()))) == {'a\\"b\\\\'}
