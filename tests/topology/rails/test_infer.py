"""Rails inferred from cabling agree with the designs that declare them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clusterlab.topology.checks.cabling import cabling
from clusterlab.topology.design.load import load_fabric
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.failures.breaking import break_fabric
from clusterlab.topology.rails.classes import Attachment
from clusterlab.topology.rails.infer import infer_rails, rails_of, with_rails


def undeclared(fabric: Fabric) -> Fabric:
    """A fabric as a discovery finds it: nobody says what is on which rail."""
    return replace(
        fabric,
        devices=tuple(replace(d, rail=None) for d in fabric.devices),
        links=tuple(replace(k, rail=None) for k in fabric.links),
    )


@pytest.mark.parametrize("design", ["superpod-b200-2su", "superpod-gb200", "superpod-h100-1su"])
def test_designs_get_their_own_rails_back(design: str) -> None:
    fabric = load_fabric(design)
    found = with_rails(undeclared(fabric))
    pairs = {
        (leaf.rail, found.device(leaf.name).rail)
        for leaf in fabric.of_kind("leaf")
        if leaf.rail is not None
    }
    assert len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs}) > 1
    assert infer_rails(found).count == len(pairs)
    assert cabling(found) == []


def test_nics_and_their_cables_carry_their_leafs_rail() -> None:
    found = with_rails(undeclared(load_fabric("superpod-b200-2su")))
    for link in found.network_links:
        src, dst = found.device(link.src), found.device(link.dst)
        if dst.kind == "leaf" and src.kind == "nic":
            assert link.rail == src.rail == dst.rail is not None
        elif {src.kind, dst.kind} == {"leaf", "spine"}:
            assert link.rail is None


def test_a_broken_uplink_of_a_design_is_found() -> None:
    fabric = load_fabric("superpod-b200-2su")
    leaf = fabric.of_kind("leaf")[3].name
    up = next(k for k in fabric.links_from(leaf) if fabric.device(k.dst).kind == "spine")
    broken = break_fabric(fabric, [f"{leaf}/{up.dst}#1"])
    (finding,) = cabling(broken)
    assert finding.code == "uneven_parallel_links"
    assert f"{up.multiplicity - 1} of {up.multiplicity} cables to {up.dst}" in finding.evidence[0]
    assert finding.links == (f"{leaf}/{up.dst}",)


def test_a_leaf_cut_off_from_all_spines_is_found() -> None:
    fabric = load_fabric("superpod-b200-2su")
    leaf = fabric.of_kind("leaf")[3].name
    spines = [s.name for s in fabric.of_kind("spine")]
    (finding,) = cabling(break_fabric(fabric, [f"{leaf}/{s}" for s in spines]))
    assert finding.code == "missing_uplinks"
    assert len(finding.links) == len(spines)
    assert finding.evidence[0].startswith(f"{leaf}: 0 uplinks live")


def _cables(host: str, plugged: dict[str, str]) -> list[Attachment]:
    return [Attachment(f"{host}/{d}", host, d, leaf) for d, leaf in plugged.items()]


def test_numbers_of_devices_do_not_make_rails_across_kinds_of_hosts() -> None:
    """Two kinds of hosts on the same leaves: device 2 of one is on the rail of device 1 of the other."""
    cables: list[Attachment] = []
    for host in range(6):
        cables += _cables(f"a{host}", {"000": "x", "001": "y", "002": "z"})
        cables += _cables(f"b{host}", {"001": "x", "002": "y", "005": "z"})
    rails = rails_of(cables)
    assert rails.count == 3
    assert len({rails.of_leaf[leaf] for leaf in "xyz"}) == 3
    assert rails.strays == ()


def test_two_nics_to_each_leaf_are_one_rail() -> None:
    cables: list[Attachment] = []
    for host in range(6):
        cables += _cables(f"n{host}", {"000": "x", "001": "x", "002": "y", "003": "y"})
    rails = rails_of(cables)
    assert (rails.count, rails.groups) == (2, (("x", "y"),))


def test_both_cables_of_a_host_with_two_rails_can_be_swapped() -> None:
    cables: list[Attachment] = []
    for host in range(8):
        cables += _cables(
            f"n{host}", {"000": "x", "001": "y"} if host else {"000": "y", "001": "x"}
        )
    assert {(s.cable.host, s.cable.leaf, s.belongs_to) for s in rails_of(cables).strays} == {
        ("n0", "y", "x"),
        ("n0", "x", "y"),
    }
