"""Faults put into healthy made-up sites are found, and nothing else is."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.core.findings import Finding, Severity
from clusterlab.topology.checks.all_checks import check
from clusterlab.topology.design.load import fabric_from_yaml
from clusterlab.topology.design.saving import fabric_to_yaml
from clusterlab.topology.importing.ibnetdiscover import read_ibnetdiscover
from clusterlab.topology.importing.imported import Imported
from clusterlab.topology.summary import summary
from tests.topology.importing.ib_sites import (
    Builder,
    Site,
    Wire,
    Written,
    at_rate,
    blocks,
    described,
    exchanged,
    port_lines,
    rewired,
    sites,
    without_node,
    without_wires,
)


def read(site: Site, how: Written | None = None) -> Imported:
    return read_ibnetdiscover(blocks(site, how), file="site.out")


def codes(found: Imported) -> Counter[str]:
    return Counter(f.code for f in found.findings)


def said(found: Imported, code: str) -> str:
    return "\n".join(line for f in found.findings if f.code == code for line in f.evidence)


def called(site: Site, node: str) -> str:
    """What the import calls a node of the site."""
    text = site.nodes[node]
    return text.split(";")[1].split(":")[0] if ";" in text else text.replace(" ", "/")


def pick(data: st.DataObject, site: Site) -> tuple[int, int, int]:
    return data.draw(st.sampled_from(sorted(site.nic)))


def checked(found: Imported) -> list[Finding]:
    """What is found in the fabric once it was saved and read again; made-up spines may hold too much."""
    saved = fabric_to_yaml(found.fabric)
    fabric = fabric_from_yaml(saved, file="saved.yaml", default_name="site")
    return [f for f in check(fabric) if f.code != "port_overflow"]


few = settings(max_examples=25, deadline=None)


@few
@given(sites(), st.booleans(), st.booleans())
def test_a_healthy_site_has_its_rails_and_racks_and_no_finding(
    site: Site, full: bool, chassis: bool
) -> None:
    found = read(site, Written(full=full, chassis=chassis))
    assert codes(found) == Counter()
    racks = 1 + max(rack for rack, _ in site.leaf)
    assert found.facts["rails"] == site.rails
    assert found.facts["racks"] == racks
    assert found.facts["leaves"] == found.facts["leaves_expected"] == racks * site.rails
    assert found.facts["spines"] == len(site.spines)
    rail = {d.name: d.rail for d in found.fabric.devices}
    for (rack, number), leaf in site.leaf.items():
        assert rail[called(site, leaf)] == rail[called(site, site.leaf[0, number])], rack
    for (_, _, number), nic in site.nic.items():
        assert rail[called(site, nic)] == rail[called(site, site.leaf[0, number])]
    assert len({rail[called(site, site.leaf[0, r])] for r in range(site.rails)}) == site.rails


@few
@given(sites())
def test_the_line_by_line_form_says_the_same(site: Site) -> None:
    whole, lines = read(site), read_ibnetdiscover(port_lines(site), file="site.out")
    assert codes(lines) == Counter()
    assert {k: v for k, v in whole.facts.items() if "leaf" not in k} == {
        k: v for k, v in lines.facts.items() if "leaf" not in k
    }
    assert {(k.src, k.dst, k.multiplicity, k.GBps) for k in whole.fabric.links} == {
        (k.src, k.dst, k.multiplicity, k.GBps) for k in lines.fabric.links
    }


@few
@given(sites(), st.data())
def test_cables_exchanged_within_a_rack_are_one_finding_with_both(
    site: Site, data: st.DataObject
) -> None:
    rack, host, rail = pick(data, site)
    others = [(r, h, n) for (r, h, n) in site.nic if r == rack and n != rail]
    other = data.draw(st.sampled_from(sorted(others)))
    one, two = site.nic[rack, host, rail], site.nic[other]
    found = read(exchanged(site, one, two))
    assert codes(found) == Counter(["cross_wired_rails"])
    text = said(found, "cross_wired_rails")
    for nic, wrong in ((one, two), (two, one)):
        at = site.wire_of(wrong).a
        assert f"{called(site, at[0])} port {at[1]} – host {site.nodes[nic].split()[0]}" in text
        assert f"guid 0x{nic[2:]}" in text
    assert found.facts["rails"] == site.rails
    assert checked(found) == list(found.findings)


@few
@given(sites(), st.data())
def test_a_leaf_without_power_is_found_missing(site: Site, data: st.DataObject) -> None:
    rack, rail = data.draw(st.sampled_from(sorted(site.leaf)))
    leaf = site.leaf[rack, rail]
    found = read(without_node(site, leaf))
    assert codes(found) == Counter(["missing_leaf"])
    assert found.facts["leaves_expected"] == found.facts["leaves"] + 1 == len(site.leaf)
    siblings = [called(site, site.leaf[rack, r]) for r in range(site.rails) if r != rail]
    assert all(s in said(found, "missing_leaf") for s in siblings)
    if called(site, leaf).startswith("leaf-"):
        assert f"it would be {called(site, leaf)}" in said(found, "missing_leaf")


@few
@given(sites(), st.data())
def test_uplinks_that_are_gone_are_counted(site: Site, data: st.DataObject) -> None:
    leaf = data.draw(st.sampled_from(sorted(site.leaf.values())))
    spine = data.draw(st.sampled_from(site.spines))
    wires = site.uplinks(leaf, spine)
    gone = data.draw(st.integers(1, len(wires)))
    found = read(without_wires(site, wires[:gone]))
    code = "missing_uplinks" if gone == len(wires) else "uneven_parallel_links"
    assert codes(found) == Counter([code])
    assert f"{len(wires) - gone} of {len(wires)} cables to {called(site, spine)}" in said(
        found, code
    )
    assert found.facts["worst_leaf"]["name"] == called(site, leaf)
    assert found.facts["worst_leaf"]["up"] == len(site.spines) * len(wires) - gone
    assert checked(found) == list(found.findings)


@few
@given(sites(), st.data())
def test_many_leaves_without_uplinks_are_a_line_each(site: Site, data: st.DataObject) -> None:
    """A leaf that lacks one spine whole and another in part has one line too."""
    leaves = sorted(site.leaf.values())
    hurt = data.draw(st.lists(st.sampled_from(leaves), min_size=1, unique=True))
    hurt = hurt[: (len(leaves) - 1) // 3]
    gone = []
    for leaf in hurt:
        spines = data.draw(st.lists(st.sampled_from(site.spines), min_size=1, unique=True))[:2]
        for spine in spines[: len(site.spines) - 1]:
            wires = site.uplinks(leaf, spine)
            gone += wires[: data.draw(st.integers(1, len(wires)))]
    found = read(without_wires(site, gone))
    assert set(codes(found)) <= {"missing_uplinks", "uneven_parallel_links"}
    assert all(count == 1 for count in codes(found).values())
    lines = [line for f in found.findings for line in f.evidence]
    for leaf in hurt:
        assert sum(line.startswith(f"{called(site, leaf)}: ") for line in lines) <= 1
    assert len(lines) <= len(hurt)


@few
@given(sites(), st.data())
def test_an_unplugged_host_port_is_found(site: Site, data: st.DataObject) -> None:
    key = pick(data, site)
    nic = site.nic[key]
    found = read(without_wires(site, [site.wire_of(nic)]))
    assert codes(found) == Counter(["host_missing_a_rail"])
    assert site.nodes[nic].split()[0] in said(found, "host_missing_a_rail")
    assert called(site, site.leaf[key[0], key[2]]) in said(found, "host_missing_a_rail")


@few
@given(sites(), st.data(), st.sampled_from(["1xNDR", "4xEDR", "2xNDR"]))
def test_a_link_slower_than_its_siblings_is_found(
    site: Site, data: st.DataObject, rate: str
) -> None:
    wires = [w for w in site.wires if w.a[1] != 65]
    wire = data.draw(st.sampled_from(wires))
    found = read(at_rate(site, wire, rate))
    uplinks = len(site.spines) * len(site.uplinks(site.leaf[0, 0], site.spines[0]))
    if wire.b[0] in site.spines and uplinks < 3:
        return  # one of two is no majority
    assert codes(found) == Counter(["degraded_links"])
    assert called(site, wire.a[0]) in said(found, "degraded_links")
    assert rate in said(found, "degraded_links")


@few
@given(sites(), st.data())
def test_adapters_without_a_host_are_named_by_guid(site: Site, data: st.DataObject) -> None:
    rack, host, _ = pick(data, site)
    mine = [n for (r, h, _), n in site.nic.items() if (r, h) == (rack, host)]
    for i, nic in enumerate(mine):
        text = "MT4129 ConnectX7   Mellanox Technologies" if i % 2 else f"localhost HCA-{i}"
        site = described(site, nic, text)
    found = read(site)
    assert codes(found) == Counter(["ports_without_host"])
    assert f"{len(mine)} adapters" in said(found, "ports_without_host")
    nics = {d.guid: d for d in found.fabric.of_kind("nic")}
    assert all(nics[f"0x{n[2:]}"].host is None for n in mine)
    assert all(nics[f"0x{n[2:]}"].rail is not None for n in mine)


@few
@given(sites(), st.data())
def test_a_link_that_one_end_lists_is_a_link(site: Site, data: st.DataObject) -> None:
    wire = data.draw(st.sampled_from(site.wires))
    found = read(site, Written(one_sided={data.draw(st.sampled_from([wire.a, wire.b]))}))
    assert codes(found) == Counter(["one_sided_links"])
    assert set(found.fabric.links) == set(read(site).fabric.links)


@few
@given(sites(), st.data())
def test_management_hosts_on_some_rails_are_no_fault(site: Site, data: st.DataObject) -> None:
    """Two NICs on two rails, in whatever order: such hosts do not follow the compute hosts' pattern."""
    nodes, wires = dict(site.nodes), list(site.wires)
    rack = data.draw(st.integers(0, 2))
    for number, name in enumerate(["ufm-01", "ubuntu", "head"]):
        for device in range(2):
            nic = f"H-00000000000f{number:02x}{device:02x}"
            nodes[nic] = f"{name} mlx5_{device}"
            leaf = site.leaf[rack, (device + 1) % site.rails]
            wires.append(type(wires[0])((leaf, 50 + number), (nic, 1)))
    found = read(Site(nodes, tuple(wires), site.leaf, site.nic, site.spines, site.rails))
    assert codes(found) == Counter()
    roles = {d.host: d.role for d in found.fabric.of_kind("nic")}
    assert roles["ufm-01"] == roles["head"] == "management"
    assert roles["ubuntu"] is None
    assert roles["r0-node00"] == "compute"


@few
@given(sites(), st.data())
def test_a_leaf_without_any_uplink_is_an_error(site: Site, data: st.DataObject) -> None:
    leaf = data.draw(st.sampled_from(sorted(site.leaf.values())))
    gone = [w for spine in site.spines for w in site.uplinks(leaf, spine)]
    found = read(without_wires(site, gone))
    assert codes(found) == Counter(["leaf_isolated"])
    assert found.findings[0].severity == Severity.ERROR
    assert called(site, leaf) in said(found, "leaf_isolated")
    assert found.facts["worst_leaf"]["name"] == called(site, leaf)
    assert found.facts["worst_leaf"]["up"] == 0
    ratio = summary(found.fabric)["oversubscription"]
    assert (ratio["worst_leaf"], ratio["leaves_without_uplink"]) == (called(site, leaf), 1)
    assert checked(found) == list(found.findings)


@few
@given(sites(), st.data())
def test_leaves_of_a_rack_without_power_are_leaves(site: Site, data: st.DataObject) -> None:
    rack = data.draw(st.sampled_from(sorted({r for r, _ in site.leaf})))
    off = [n for (r, _, _), n in site.nic.items() if r == rack]
    for nic in off:
        site = without_node(site, nic)
    found = read(site)
    assert codes(found) == Counter()
    assert (found.facts["leaves"], found.facts["cores"]) == (len(site.leaf), 0)


@few
@given(sites(), st.data())
def test_a_leaf_that_is_up_and_has_no_host_is_not_called_missing(
    site: Site, data: st.DataObject
) -> None:
    rack, rail = data.draw(st.sampled_from(sorted(site.leaf)))
    leaf = site.leaf[rack, rail]
    for (r, _, n), nic in list(site.nic.items()):
        if (r, n) == (rack, rail):
            site = without_node(site, nic)
    found = read(site)
    assert codes(found) == Counter(["leaf_without_hosts"])
    assert found.findings[0].severity == Severity.ERROR
    assert called(site, leaf) in said(found, "leaf_without_hosts")
    assert "bring the switch up" not in found.findings[0].fix
    assert found.facts["leaves_expected"] == found.facts["leaves"] == len(site.leaf)
    assert found.facts["cores"] == 0


def all_at(site: Site, switch: str, rate: str) -> Site:
    """Every cable between ``switch`` and other switches at ``rate``."""
    own = [w for w in site.wires if switch in (w.a[0], w.b[0]) and w.b[0] in site.spines]
    for wire in own:
        site = at_rate(site, wire, rate)
    return site


@few
@given(sites(), st.data())
def test_a_leaf_with_slow_uplinks_only_is_found_beside_its_equals(
    site: Site, data: st.DataObject
) -> None:
    leaf = data.draw(st.sampled_from(sorted(site.leaf.values())))
    found = read(all_at(site, leaf, "4xHDR"))
    assert codes(found) == Counter(["slow_switch"])
    assert said(found, "slow_switch").startswith(f"{called(site, leaf)}: all")


@few
@given(sites(), st.data())
def test_a_slow_spine_is_found_where_there_are_equals(site: Site, data: st.DataObject) -> None:
    spine = data.draw(st.sampled_from(site.spines))
    found = read(all_at(site, spine, "2xNDR"))
    expected = ["slow_switch"] if len(site.spines) > 3 else []
    assert codes(found) == Counter(expected)
    assert called(site, spine) in said(found, "slow_switch") or not expected


@few
@given(sites())
def test_half_of_the_spines_at_another_speed_is_a_design(site: Site) -> None:
    for spine in site.spines[: len(site.spines) // 2]:
        site = all_at(site, spine, "4xHDR")
    assert codes(read(site)) == Counter()


@few
@given(sites(), st.data())
def test_a_cable_between_two_leaves_is_found(site: Site, data: st.DataObject) -> None:
    pair = data.draw(
        st.lists(st.sampled_from(sorted(site.leaf.values())), min_size=2, max_size=2, unique=True)
    )
    wire = Wire((pair[0], 61), (pair[1], 62))
    found = read(replace(site, wires=(*site.wires, wire)))
    assert codes(found) == Counter(["leaf_to_leaf_link"])
    text = said(found, "leaf_to_leaf_link")
    assert f"{called(site, pair[0])} port 61" in text
    assert f"{called(site, pair[1])} port 62" in text


@few
@given(sites(), st.data())
def test_a_host_plugged_into_a_spine_is_told_where_it_is(site: Site, data: st.DataObject) -> None:
    key = pick(data, site)
    nic, spine = site.nic[key], data.draw(st.sampled_from(site.spines))
    gone = without_wires(site, [site.wire_of(nic)])
    found = read(replace(gone, wires=(*gone.wires, Wire((spine, 250), (nic, 1)))))
    assert codes(found) == Counter(["host_on_spine"])
    text = said(found, "host_on_spine")
    assert f"{called(site, spine)} port 250 – host {site.nodes[nic].split()[0]}" in text
    assert called(site, site.leaf[key[0], key[2]]) in text


@few
@given(sites(), st.data())
def test_uplinks_exchanged_between_two_leaves_are_found(site: Site, data: st.DataObject) -> None:
    leaves = data.draw(
        st.lists(st.sampled_from(sorted(site.leaf.values())), min_size=2, max_size=2, unique=True)
    )
    one, two = (site.uplinks(leaf, site.spines[i])[0] for i, leaf in enumerate(leaves))
    found = read(rewired(site, one, two))
    if len(site.leaf) < 12:
        return  # two of so few are no small part
    assert codes(found) == Counter(["exchanged_uplinks"])
    for leaf in leaves:
        assert called(site, leaf) in said(found, "exchanged_uplinks")


@few
@given(sites(), st.data())
def test_cables_exchanged_between_racks_on_one_rail_are_found(
    site: Site, data: st.DataObject
) -> None:
    rack, host, rail = pick(data, site)
    other = data.draw(st.sampled_from(sorted(k for k in site.nic if k[0] != rack and k[2] == rail)))
    one, two = site.nic[rack, host, rail], site.nic[other]
    found = read(exchanged(site, one, two))
    assert codes(found) == Counter(["cross_wired_racks"])
    text = said(found, "cross_wired_racks")
    for nic in (one, two):
        assert f"host {site.nodes[nic].split()[0]} device" in text
    assert found.facts["rails"] == site.rails
    assert checked(found) == list(found.findings)


@few
@given(sites(), st.data())
def test_rails_exchanged_for_a_whole_rack_are_told_by_the_leaves_names(
    site: Site, data: st.DataObject
) -> None:
    rack = data.draw(st.sampled_from(sorted({r for r, _ in site.leaf})))
    rails = st.lists(st.integers(0, site.rails - 1), min_size=2, max_size=2, unique=True)
    one, two = data.draw(rails)
    for r, host, rail in list(site.nic):
        if (r, rail) == (rack, one):
            site = exchanged(site, site.nic[rack, host, one], site.nic[rack, host, two])
    found = read(site)
    named = site.nodes[site.leaf[0, 0]].startswith("MF0;leaf")
    assert codes(found) == Counter(["exchanged_rails"] if named else [])
    assert not named or all(
        f"{called(site, site.leaf[rack, rail])}: " in said(found, "exchanged_rails")
        for rail in (one, two)
    )


@pytest.mark.parametrize("rails", [4, 8])
def test_a_swap_among_three_hosts_is_found_where_the_leaves_names_tell_the_rails(
    rails: int,
) -> None:
    site = Builder()
    leaves, spines = site.switches("pod1-leaf", rails), site.switches("spine", 2)
    for leaf in leaves:
        for spine in spines:
            site.join(leaf, spine, 2)
    for host in range(3):
        for rail in range(rails):
            swapped = 1 - rail if host == 0 and rail < 2 else rail
            site.nic(f"n{host} mlx5_{rail}", leaves[swapped])
    found = read(site.site())
    assert codes(found) == Counter(["cross_wired_rails"])
    assert "host n0 device" in said(found, "cross_wired_rails")
    assert found.facts["rails"] == rails
