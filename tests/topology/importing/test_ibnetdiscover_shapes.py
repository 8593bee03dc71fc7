"""Healthy networks of many shapes: sensible tiers, the rails there are, and no false alarm."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.topology.capacity import leaf_capacities
from clusterlab.topology.importing.ibnetdiscover import read_ibnetdiscover
from clusterlab.topology.importing.imported import Imported
from tests.topology.importing.ib_sites import Builder, blocks


def read(site: Builder) -> Imported:
    return read_ibnetdiscover(blocks(site.site()), file="site.out")


def codes(found: Imported) -> list[str]:
    return [f.code for f in found.findings]


def kinds(found: Imported) -> dict[str, str]:
    return {d.name: d.kind for d in found.fabric.devices if d.kind in ("leaf", "spine", "core")}


def fat_tree(
    site: Builder, leaves: int, spines: int, cables: int = 1
) -> tuple[list[str], list[str]]:
    lower, upper = site.switches("leaf", leaves), site.switches("spine", spines)
    for one in lower:
        for other in upper:
            site.join(one, other, cables)
    return lower, upper


@settings(max_examples=60, deadline=None)
@given(
    leaves=st.sampled_from([2, 4, 6, 8, 12]),
    nics=st.integers(1, 4),
    hosts=st.integers(1, 60),
    how=st.sampled_from(["any", "any again", "one leaf", "pairs", "alternating pairs"]),
    seed=st.integers(0, 2**20),
)
def test_hosts_plugged_in_without_rails_show_none(
    leaves: int, nics: int, hosts: int, how: str, seed: int
) -> None:
    chance = random.Random(seed)
    site = Builder()
    lower, _ = fat_tree(site, leaves, 3)
    for host in range(hosts):
        pair, turn = 2 * (host % (leaves // 2)), host // (leaves // 2)
        chosen = {
            "any": lambda: chance.sample(lower, min(nics, leaves)),
            "any again": lambda: [chance.choice(lower) for _ in range(nics)],
            "one leaf": lambda: [lower[host % leaves]] * nics,  # noqa: B023
            "pairs": lambda: [lower[pair + i % 2] for i in range(nics)],  # noqa: B023
            "alternating pairs": lambda: [lower[pair + (i + turn) % 2] for i in range(nics)],  # noqa: B023
        }[how]()
        for number, leaf in enumerate(chosen):
            site.nic(f"node{host:03d} mlx5_{number}", leaf)
    found = read(site)
    assert codes(found) == []
    if how == "one leaf":
        assert found.facts["rails"] == 1


def test_file_servers_on_spines_leave_them_spines() -> None:
    site = Builder()
    lower, upper = fat_tree(site, 6, 2, cables=4)
    for number, leaf in enumerate(lower):
        for host in range(20):
            site.nic(f"stage{number * 20 + host} mlx4_0", leaf, "4xQDR")
    for server in range(3):
        site.nic(f"oss{server} mlx4_0", upper[0], "4xQDR")
    found = read(site)
    assert Counter(kinds(found).values()) == {"leaf": 6, "spine": 2}
    assert found.facts["rails"] == 1
    assert codes(found) == []
    assert {d.role for d in found.fabric.of_kind("nic") if d.host == "oss1"} == {"storage"}


def test_switches_of_equal_rank_around_a_ring_are_leaves() -> None:
    site = Builder()
    ring = site.switches("sw", 4)
    for one, other in zip(ring, [*ring[1:], ring[0]], strict=True):
        site.join(one, other, 2)
    for number, leaf in enumerate(ring):
        for host in range(1 + 4 * number):
            site.nic(f"n{number}-{host} HCA-1", leaf)
    assert set(kinds(read(site)).values()) == {"leaf"}
    assert codes(read(site)) == []


def test_a_single_switch_is_a_leaf_without_uplinks() -> None:
    site = Builder()
    only = site.switch("ib1")
    for host in range(12):
        for device in range(2):
            site.nic(f"node{host} mlx5_{device}", only)
    found = read(site)
    assert kinds(found) == {"ib1": "leaf"}
    assert found.facts["rails"] == 1
    assert "worst_leaf" not in found.facts
    assert codes(found) == []


def test_a_director_is_leaves_and_spines_with_the_hosts_on_its_line_boards() -> None:
    site = Builder()
    lines = [site.switch(f"big:MSX6536/L{i:02d}/U1") for i in range(1, 7)]
    boards = [site.switch(f"big:MSX6536/S{i:02d}/U1") for i in range(1, 4)]
    for line in lines:
        for board in boards:
            site.join(line, board, 6)
        for host in range(14):
            site.nic(f"c{lines.index(line)}-{host} mlx4_0", line)
    found = read(site)
    assert kinds(found) == {
        **{f"big.L{i:02d}": "leaf" for i in range(1, 7)},
        **{f"big.S{i:02d}": "spine" for i in range(1, 4)},
    }
    assert codes(found) == []


def test_leaf_switches_below_a_director_make_it_spine_and_core() -> None:
    site = Builder()
    lines = [site.switch(f"big:MCS8500/L{i:02d}/U1") for i in range(1, 5)]
    boards = [site.switch(f"big:MCS8500/S{i:02d}/U1") for i in range(1, 3)]
    for line in lines:
        for board in boards:
            site.join(line, board, 4)
    for number in range(8):
        leaf = site.switch(f"edge{number}")
        site.join(leaf, lines[number % 4], 4)
        for host in range(8):
            site.nic(f"e{number}-{host} ibp11s0f0", leaf)
    found = read(site)
    assert Counter(kinds(found).values()) == {"leaf": 8, "spine": 4, "core": 2}
    assert codes(found) == []


def test_three_tiers_of_pods_with_rails_are_told_apart() -> None:
    site = Builder()
    cores = site.switches("core", 4)
    for pod in range(4):
        leaves = [site.switch(f"p{pod}-leaf{r}") for r in range(4)]
        spines = [site.switch(f"p{pod}-spine{r}") for r in range(4)]
        for leaf in leaves:
            for spine in spines:
                site.join(leaf, spine, 2, "4xHDR")
        for spine in spines:
            for core in cores:
                site.join(spine, core, 2, "4xHDR")
        for host in range(8):
            for rail in range(4):
                site.nic(f"p{pod}n{host} mlx5_{rail * 3}", leaves[rail], "4xHDR")
    found = read(site)
    assert Counter(kinds(found).values()) == {"leaf": 16, "spine": 16, "core": 4}
    assert (found.facts["rails"], found.facts["racks"]) == (4, 4)
    assert codes(found) == []


def test_groups_joined_spine_to_spine_are_two_tiers() -> None:
    """Dragonfly+: leaves and spines in each group, spines of different groups cabled to each other."""
    site = Builder()
    spines = []
    for group in range(3):
        leaves = site.switches(f"g{group}leaf", 4)
        own = site.switches(f"g{group}spine", 4)
        for number, leaf in enumerate(leaves):
            for spine in own:
                site.join(leaf, spine, 2, "4xHDR")
            for host in range(6):
                site.nic(f"lrdn{group}{number}{host} mlx5_0", leaf, "2xHDR")
                site.nic(f"lrdn{group}{number}{host} mlx5_1", leaf, "2xHDR")
        spines.append(own)
    for a in range(3):
        for b in range(a + 1, 3):
            for one, other in zip(spines[a], spines[b], strict=True):
                site.join(one, other, 1, "4xHDR")
    found = read(site)
    assert Counter(kinds(found).values()) == {"leaf": 12, "spine": 12}
    assert found.facts["rails"] == 1
    assert codes(found) == []


def test_older_switches_and_adapters_are_not_degraded() -> None:
    site = Builder()
    lower, upper = site.switches("leaf", 6), site.switches("spine", 4)
    for one in lower:
        for other in upper:
            old = one == lower[0] or other == upper[0]
            site.join(one, other, 2, "4xEDR" if old else "4xHDR")
    for number, leaf in enumerate(lower):
        for host in range(10):
            slow = number == 0 or host < 3
            name = f"old{number}x{host}" if slow else f"new{number}x{host}"
            site.nic(f"{name} mlx5_0", leaf, "4xEDR" if slow else "4xHDR")
    assert codes(read(site)) == []


def test_uplinks_that_do_not_divide_evenly_are_no_fault() -> None:
    site = Builder()
    lower, upper = site.switches("leaf", 8), site.switches("spine", 4)
    for number, one in enumerate(lower):
        for place, other in enumerate(upper):
            site.join(one, other, 5 if (number + place) % 2 else 4)
        for host in range(18):
            site.nic(f"n{number}x{host} mlx4_0", one)
    small = site.switch("service")
    for other in upper:
        site.join(small, other, 1)
    site.nic("login1 mlx4_0", small)
    found = read(site)
    assert codes(found) == []
    assert {leaf.up.links for leaf in leaf_capacities(found.fabric)} == {18, 4}


def test_hosts_spread_over_several_leaves_of_each_rail_have_rails_but_no_racks() -> None:
    site = Builder()
    chance = random.Random(5)
    lower, _ = fat_tree(site, 12, 4)
    for host in range(40):
        for rail in range(4):
            leaf = chance.choice([lower[3 * rail + i] for i in range(3)])
            site.nic(f"n{host} mlx5_{2 * rail}", leaf)
    found = read(site)
    assert found.facts["rails"] == 4
    assert "racks" not in found.facts
    assert codes(found) == []


def test_the_storage_network_in_the_same_subnet_is_no_rail() -> None:
    site = Builder()
    upper = site.switches("spine", 4)
    store = site.switches("store", 2)
    for rack in range(4):
        leaves = site.switches(f"r{rack}leaf", 4)
        for leaf in leaves:
            for spine in upper:
                site.join(leaf, spine, 2)
        for host in range(6):
            for rail in range(4):
                site.nic(f"r{rack}n{host} mlx5_{rail}", leaves[rail])
            for device in range(2):
                site.nic(f"r{rack}n{host} mlx5_{4 + device}", store[device])
    for number, leaf in enumerate(store):
        for server in range(4):
            site.nic(f"oss{server} mlx5_{number}", leaf)
    found = read(site)
    assert (found.facts["rails"], found.facts["racks"]) == (4, 4)
    assert found.facts["leaves_expected"] == found.facts["leaves"] == 18
    assert codes(found) == []


def test_storage_on_compute_leaves_is_found_in_a_network_with_rails() -> None:
    site = Builder()
    upper = site.switches("spine", 4)
    for rack in range(3):
        leaves = site.switches(f"r{rack}leaf", 4)
        for leaf in leaves:
            for spine in upper:
                site.join(leaf, spine)
        for host in range(6):
            for rail in range(4):
                site.nic(f"r{rack}n{host} mlx5_{rail}", leaves[rail])
        if rack == 1:
            site.nic("lustre-oss1 mlx5_0", leaves[2])
    found = read(site)
    assert codes(found) == ["storage_among_compute"]
    assert "lustre-oss1/mlx5_0" in found.findings[0].evidence[0]


@pytest.mark.parametrize("rate", ["4xSDR", "4xQDR", "4xFDR10", "4xFDR", "4xEDR", "2xHDR", "4xXDR"])
def test_gigabytes_are_what_width_and_speed_carry(rate: str) -> None:
    expected = {
        "4xSDR": (1.0, 1.25),
        "4xQDR": (4.0, 5.0),
        "4xFDR10": (5.0, 5.15625),
        "4xFDR": (6.818, 7.03125),
        "4xEDR": (12.5, 12.5),
        "2xHDR": (12.5, 12.5),
        "4xXDR": (100.0, 100.0),
    }[rate]
    site = Builder()
    site.nic("n0 mlx5_0", site.switch("ib"), rate)
    (link, back) = read(site).fabric.links
    assert (link.GBps, link.wire_GBps) == pytest.approx(expected, abs=5e-4)
    assert link.latency_us is None
    assert (back.src, back.dst, back.GBps) == (link.dst, link.src, link.GBps)
