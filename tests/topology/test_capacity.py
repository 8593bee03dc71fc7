from __future__ import annotations

from dataclasses import replace

import pytest

from clusterlab.topology.capacity import (
    leaf_capacities,
    most_oversubscribed_leaf,
    switch_capacities,
    worst_leaf,
)
from clusterlab.topology.design.load import load_fabric
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import Device, Link, Role


def network(uplinks: dict[str, int], hosts: int = 4, *, health: float = 1.0) -> Fabric:
    """Leaves with ``hosts`` NICs of 25 GB/s each and uplinks of 50 GB/s to one spine."""
    devices = [Device("spine", "spine")]
    links: list[Link] = []
    for leaf, count in uplinks.items():
        devices.append(Device(leaf, "leaf"))
        links.append(Link(leaf, "spine", "ib", 50.0, multiplicity=count, health=health))
        for host in range(hosts):
            nic = f"{leaf}h{host}/nic0"
            devices.append(Device(nic, "nic", host=f"{leaf}h{host}"))
            links.append(Link(leaf, nic, "ib", 25.0))
    back = [replace(link, src=link.dst, dst=link.src) for link in links]
    return Fabric("net", tuple(devices), (*links, *back))


def test_a_leaf_counts_links_and_gigabytes_down_and_up() -> None:
    (leaf,) = leaf_capacities(network({"leaf0": 2}))
    assert (leaf.down.links, leaf.down.GBps) == (4, 100.0)
    assert (leaf.up.links, leaf.up.GBps) == (2, 100.0)
    assert leaf.oversubscription == 1.0


def test_links_that_are_down_count_in_the_nominal_figures_only() -> None:
    (leaf,) = leaf_capacities(network({"leaf0": 2}, health=0.0))
    assert (leaf.up.links, leaf.up.GBps, leaf.nominal_up.links) == (0, 0, 2)
    assert leaf.oversubscription is None
    assert leaf.nominal_oversubscription == 1.0


def test_a_degraded_link_is_a_link_with_part_of_its_gigabytes() -> None:
    (leaf,) = leaf_capacities(network({"leaf0": 2}, health=0.5))
    assert (leaf.up.links, leaf.up.GBps, leaf.oversubscription) == (2, 50.0, 2.0)


def test_unknown_rates_leave_the_ratio_to_the_links() -> None:
    fabric = network({"leaf0": 2})
    blind = replace(fabric, links=tuple(replace(k, GBps=None) for k in fabric.links))
    (leaf,) = leaf_capacities(blind)
    assert (leaf.down.GBps, leaf.oversubscription) == (None, 2.0)


def test_the_worst_leaf_lost_most_uplinks_and_the_most_oversubscribed_need_not_be_it() -> None:
    fabric = network({"a": 4, "b": 4, "c": 3, "d": 4})
    busy = network({"e": 4}, hosts=9)
    both = Fabric("net", (*fabric.devices, *busy.devices[1:]), (*fabric.links, *busy.links))
    worst, busiest = worst_leaf(both), most_oversubscribed_leaf(both)
    assert worst is not None
    assert busiest is not None
    assert (worst.name, busiest.name) == ("c", "e")


def test_a_leaf_whose_uplinks_are_all_down_is_the_worst() -> None:
    fabric = network({"a": 4, "b": 4, "c": 4})
    cut = replace(
        fabric,
        links=tuple(
            replace(k, health=0.0) if k.src == "b" and k.dst == "spine" else k for k in fabric.links
        ),
    )
    worst = worst_leaf(cut)
    assert worst is not None
    assert worst.name == "b"


@pytest.mark.parametrize(
    ("role", "down", "beside"), [("storage", 3, 1), ("management", 3, 1), ("compute", 4, 0)]
)
def test_ports_of_other_networks_count_in_no_ratio(role: Role, down: int, beside: int) -> None:
    fabric = network({"leaf0": 4})
    (leaf,) = leaf_capacities(with_role(fabric, "leaf0h0/nic0", role))
    assert (leaf.down.links, leaf.beside.links, leaf.nominal_beside.links) == (down, beside, beside)
    assert leaf.oversubscription == down * 25.0 / 200.0


def test_a_leaf_of_the_storage_network_serves_storage() -> None:
    fabric = with_role(network({"leaf0": 4}), "leaf0", "storage")
    (leaf,) = leaf_capacities(with_role(fabric, "leaf0h0/nic0", "storage"))
    assert (leaf.down.links, leaf.beside.links) == (4, 0)


def with_role(fabric: Fabric, name: str, role: Role) -> Fabric:
    return replace(
        fabric,
        devices=tuple(replace(d, role=role) if d.name == name else d for d in fabric.devices),
    )


def test_spines_count_leaves_below_and_nothing_above() -> None:
    (spine,) = switch_capacities(network({"a": 2, "b": 3}), "spine")
    assert (spine.down.links, spine.up.links) == (5, 0)


@pytest.mark.parametrize(
    ("design", "down", "up"), [("superpod-b200-4su", 32, 32), ("superpod-gb200", 18, 18)]
)
def test_designs_have_the_published_ratio(design: str, down: int, up: int) -> None:
    leaves = [leaf for leaf in leaf_capacities(load_fabric(design)) if leaf.rail is not None]
    assert leaves
    assert {(leaf.down.links, leaf.up.links) for leaf in leaves} == {(down, up)}
