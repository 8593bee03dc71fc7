"""Distances between devices to a PCI tree."""

from __future__ import annotations

from collections import Counter

from clusterlab.topology.importing.pci_tree import NODE, PHB, PIX, PXB, SYS, build_pci_tree


def kinds(tree_devices: object) -> Counter[str]:
    return Counter(d.kind for d in tree_devices)  # type: ignore[attr-defined]


def test_each_level_has_its_device() -> None:
    numa: dict[str, int | None] = {"a": 0, "b": None, "c": None, "d": None, "e": None, "f": 1}
    levels = {("a", "b"): PIX, ("a", "c"): PXB, ("a", "d"): PHB, ("a", "e"): NODE, ("a", "f"): SYS}
    tree = build_pci_tree("h", numa, levels)
    assert kinds(tree.devices) == {"cpu": 2, "host_bridge": 2, "pcie_switch": 3}
    assert tree.numa == {"a": 0, "b": 0, "c": 0, "d": 0, "e": 0, "f": 1}
    assert tree.contradictions == ()
    assert tree.numa_conflicts == ()
    assert all(link.GBps is None for link in tree.links)


def test_what_nothing_tells_hangs_on_its_cpu_without_a_host_bridge() -> None:
    tree = build_pci_tree("h", {"a": 0, "b": 0, "c": None}, {})
    assert kinds(tree.devices) == {"cpu": 1}
    assert tree.unplaced == ("c",)
    assert {(k.src, k.dst) for k in tree.links if k.src in "ab"} == {
        ("a", "h/cpu0"),
        ("b", "h/cpu0"),
    }


def test_coarse_levels_tell_only_the_numa_domain() -> None:
    levels = {("a", "b"): NODE, ("a", "c"): SYS, ("b", "c"): SYS, ("c", "d"): NODE}
    tree = build_pci_tree("h", dict.fromkeys("abcd"), levels, host_bridges=False)
    assert kinds(tree.devices) == {"cpu": 2}
    assert tree.unplaced == ()


def test_three_distances_that_make_no_tree_are_reported_as_placed() -> None:
    levels = {("a", "b"): PIX, ("b", "c"): NODE, ("a", "c"): SYS}
    tree = build_pci_tree("h", dict.fromkeys("abc"), levels)
    (found,) = tree.contradictions
    assert (found.pair, found.said, found.placed) == (("a", "c"), SYS, NODE)


def test_numa_numbers_that_contradict_the_levels_make_the_domain_unknown() -> None:
    near = build_pci_tree("h", {"a": 0, "b": 1}, {("a", "b"): PIX})
    assert [d.numa for d in near.devices if d.kind == "cpu"] == [None]
    assert near.numa_conflicts == ("a, b: nearer than NODE across NUMA nodes 0, 1",)
    far = build_pci_tree("h", {"a": 0, "b": 0}, {("a", "b"): SYS})
    assert [d.numa for d in far.devices if d.kind == "cpu"] == [None, None]
    assert far.numa_conflicts == ("a, b: SYS within NUMA node 0",)
