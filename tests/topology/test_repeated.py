"""Equal hosts kept once look exactly like the same hosts written out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.topology.fabric import Fabric, equal_hosts
from clusterlab.topology.parts import Device, Link

TEMPLATE = (Device("gpu0", "gpu", host=""), Device("nic0", "nic", host="", rail=0))
INSIDE = (Link("gpu0", "nic0", "pcie", 24.0), Link("nic0", "gpu0", "pcie", 24.0))
LEAF = Device("leaf0", "leaf", rail=0)
HOSTS = ("a", "b", "c")
UP = tuple(Link(f"{h}/nic0", "leaf0", "ib", 50.0, rail=0) for h in HOSTS)
DOWN = tuple(replace(link, src=link.dst, dst=link.src) for link in UP)


def compact() -> Fabric:
    devices, links = equal_hosts(HOSTS, TEMPLATE, INSIDE, others=[LEAF], other_links=[*UP, *DOWN])
    return Fabric("f", devices, links)


def written_out() -> Fabric:
    fabric = compact()
    return replace(fabric, devices=tuple(fabric.devices), links=tuple(fabric.links))


def test_both_forms_are_equal_and_answer_alike() -> None:
    a, b = compact(), written_out()
    assert a == b
    assert a.hosts == b.hosts == HOSTS
    assert [d.name for d in a.devices] == [
        "a/gpu0",
        "a/nic0",
        "b/gpu0",
        "b/nic0",
        "c/gpu0",
        "c/nic0",
        "leaf0",
    ]
    assert a.of_kind("nic") == b.of_kind("nic")
    assert a.on_host("b") == b.on_host("b")
    assert a.on_host("b", "gpu") == b.on_host("b", "gpu")
    for d in b.devices:
        assert a.device(d.name) == d
        assert a.host_of(d.name) == d.host
        assert set(a.links_from(d.name)) == set(b.links_from(d.name))
        assert set(a.links_to(d.name)) == set(b.links_to(d.name))
    assert a.network_devices == b.network_devices == (LEAF,)
    assert set(a.network_links) == set(b.network_links) == {*UP, *DOWN}


@pytest.mark.parametrize("index", [0, 3, 5, 6, -1, -7])
def test_items_are_found_by_position(index: int) -> None:
    assert compact().devices[index] == written_out().devices[index]
    assert compact().devices[1:6:2] == written_out().devices[1:6:2]


def test_a_position_beyond_the_end_is_an_index_error() -> None:
    with pytest.raises(IndexError):
        compact().devices[7]


def test_a_changed_link_leaves_the_other_hosts_repeated() -> None:
    fabric = compact()
    hurt = next(link for link in fabric.links if link.src == "b/gpu0")
    broken = fabric.with_links(
        {(hurt.src, hurt.dst): [replace(hurt, health=0.0)], (UP[0].src, UP[0].dst): []}
    )
    assert [link.health for link in broken.links if link.src == "b/gpu0"] == [0.0]
    assert UP[0] not in broken.links
    assert len(broken.links) == len(fabric.links) - 1
    assert broken.links.groups[0].hosts == ("a", "c")  # type: ignore[attr-defined]
    assert broken.hosts == HOSTS


def test_a_loose_end_inside_a_host_is_named() -> None:
    bad = (Link("gpu0", "nic9", "pcie", 1.0),)
    devices, links = equal_hosts(HOSTS, TEMPLATE, bad)
    with pytest.raises(UsageError, match=r"no device '\w/nic9'"):
        Fabric("f", devices, links)


def test_a_single_device_may_not_take_the_name_of_a_repeated_one() -> None:
    devices, links = equal_hosts(HOSTS, TEMPLATE, INSIDE, others=[Device("b/nic0", "nic")])
    with pytest.raises(UsageError, match="two devices are called 'b/nic0'"):
        Fabric("f", devices, links)


def test_links_of_hosts_that_hold_other_devices_are_refused() -> None:
    devices, _ = equal_hosts(HOSTS[:2], TEMPLATE, INSIDE)
    _, links = equal_hosts(HOSTS, TEMPLATE, INSIDE)
    with pytest.raises(UsageError, match="no device 'c/"):
        Fabric("f", devices, links)
