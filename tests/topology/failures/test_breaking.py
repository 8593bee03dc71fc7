import pytest

from clusterlab.core.errors import UsageError
from clusterlab.formats.strict_yaml import read_yaml
from clusterlab.topology.design.load import load_fabric
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.failures.breaking import break_fabric, broken_yaml
from clusterlab.topology.failures.connected import reach
from clusterlab.topology.failures.faults import find_faults
from clusterlab.topology.parts import Device, Link
from tests.topology.clusters import small, superpod


def health(fabric: Fabric, a: str, b: str) -> list[tuple[int, float]]:
    return [(k.multiplicity, k.health) for k in fabric.links_from(a) if k.dst == b]


def both(fabric: Fabric, a: str, b: str) -> list[tuple[int, float]]:
    assert health(fabric, a, b) == health(fabric, b, a)
    return health(fabric, a, b)


def test_one_cable_of_a_connection_goes_down_and_keeps_its_number() -> None:
    fabric = superpod(31, 4)
    once = break_fabric(fabric, ["leaf3/spine2#1"])
    assert both(once, "leaf3", "spine2") == [(1, 1.0), (1, 0.0), (6, 1.0)]
    assert both(once, "leaf3", "spine1") == [(8, 1.0)]
    assert both(break_fabric(once, ["leaf3/spine2#1"]), "leaf3", "spine2") == both(
        once, "leaf3", "spine2"
    )
    twice = break_fabric(once, ["spine2/leaf3#2"])
    assert both(twice, "leaf3", "spine2") == [(1, 1.0), (2, 0.0), (5, 1.0)]


def test_a_whole_connection_or_a_share_of_it() -> None:
    fabric = break_fabric(small(), ["leaf0/spine0", "n3/gpu1/pcie1:half", "n0/nic0/leaf0:0.25"])
    assert both(fabric, "leaf0", "spine0") == [(2, 0.0)]
    assert both(fabric, "n3/gpu1", "n3/pcie1") == [(1, 0.5)]
    assert both(fabric, "n0/nic0", "leaf0") == [(1, 0.25)]
    assert {c.name for c in find_faults(fabric).connections} == {
        "n0/nic0/leaf0",
        "leaf0/spine0",
        "n3/gpu1/pcie1",
    }


@pytest.mark.parametrize(
    ("what", "devices", "hosts"),
    [
        ("n2/nic1", ["n2/nic1"], ()),
        ("leaf7", ["leaf7"], ()),
        ("spine0", ["spine0"], ()),
        ("n0/nvswitch1", ["n0/nvswitch1"], ()),
        ("n[1,3]/nvswitch1", ["n1/nvswitch1", "n3/nvswitch1"], ()),
        ("n3", [], ("n3",)),
        ("n*", [], ("n0", "n1", "n2", "n3")),
        ("osfp0@n1", ["n1/nic0", "n1/nic1"], ()),
        ("osfp*@n[0-1]", ["n0/nic0", "n0/nic1", "n1/nic0", "n1/nic1"], ()),
    ],
)
def test_a_device_a_host_or_a_cage_takes_all_its_links_down(
    what: str, devices: list[str], hosts: tuple[str, ...]
) -> None:
    faults = find_faults(break_fabric(small(), [what]))
    assert [d.name for d in faults.devices] == devices
    assert faults.hosts == hosts
    assert faults.connections == ()


def test_a_plane_is_its_switches_and_links() -> None:
    fabric = break_fabric(small(), ["plane1"])
    for link in fabric.network_links:
        assert link.health == (0.0 if link.plane == 1 else 1.0)
    assert reach(fabric).pairs == reach(small()).pairs


def test_what_is_down_stays_down_and_the_smaller_share_wins() -> None:
    fabric = break_fabric(small(), ["leaf0/spine0", "leaf0/spine0:half", "leaf0:0.75"])
    assert both(fabric, "leaf0", "spine0") == [(2, 0.0)]
    assert both(fabric, "leaf0", "spine1") == [(2, 0.75)]


@pytest.mark.parametrize(
    ("what", "fix"),
    [
        ("leef3", "leaf3"),
        ("n2/nik1", "n2/nic1"),
        ("n22", "n2"),
        ("osfp9@n1", "osfp0"),
        ("leaf3/spin2", "leaf3/spine2"),
        ("nvswitch1", "n0/nvswitch1"),  # of every host: the first one's
        ("gpu0", "n0/gpu0"),
        ("nvswich1", "n0/nvswitch1"),
    ],
)
def test_an_unknown_name_comes_with_the_nearest(what: str, fix: str) -> None:
    with pytest.raises(UsageError, match=f"did you mean '{fix}'"):
        break_fabric(small(), [what])


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("leaf0/leaf1", "not connected"),
        ("leaf0/spine0#2", "#0 to #1"),
        ("leaf0#1", "not a connection"),
        ("zzz*", "nothing"),
        ("osfp0@zzz", "a host's name"),
    ],
)
def test_what_is_not_there_is_refused(what: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        break_fabric(small(), [what])


def test_nothing_to_break_changes_nothing_and_the_healthy_fabric_is_left_alone() -> None:
    assert break_fabric(small(), []) == small()
    broken = break_fabric(small(), ["leaf0"])
    assert broken.digest != small().digest
    assert all(k.health == 1 for k in small().links)


def test_the_file_by_reference_reads_back() -> None:
    what = ["leaf3/spine2#1", 'a "quoted" name: é']
    document = read_yaml(broken_yaml("superpod-h100-4su", "ab12", what), file="b.yaml")
    assert document.data == {"base": "superpod-h100-4su", "digest": "ab12", "broken": what}


def test_only_hosts_with_a_change_inside_are_written_out() -> None:
    broken = break_fabric(superpod(31, 4), ["n5/nic3", "leaf0", "n7/gpu0/pcie0:half"])
    (group,) = broken.links.groups  # type: ignore[attr-defined]
    assert set(superpod(31, 4).hosts) - set(group.hosts) == {"n5", "n7"}


def test_what_is_not_connected_comes_with_what_is() -> None:
    with pytest.raises(UsageError, match=r"expected one of spine0, spine1$"):
        break_fabric(small(), ["leaf0/spine3"])


def test_a_cable_that_is_down_keeps_its_own_ports() -> None:
    there = Link("leaf0", "spine0", "ib", 50.0, multiplicity=3, ports=(31, 32, 33))
    back = Link("spine0", "leaf0", "ib", 50.0, multiplicity=3, ports=(7, 9, 8))
    fabric = Fabric("f", (Device("leaf0", "leaf"), Device("spine0", "spine")), (there, back))
    broken = break_fabric(fabric, ["leaf0/spine0#1"])
    found = {(k.src, k.ports, k.health) for k in broken.links}
    assert found >= {("leaf0", (32,), 0.0), ("spine0", (9,), 0.0)}
    assert sorted(p for k in broken.links_from("leaf0") for p in k.ports) == [31, 32, 33]


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("plane7", "no plane 7; expected one of its rails 0-1 and planes 0-1"),
        ("rail2", "no rail 2; expected one of its rails 0-1 and planes 0-1"),
    ],
)
def test_a_rail_or_plane_that_is_not_there_comes_with_those_that_are(what: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        break_fabric(small(), [what])
    assert str(caught.value) == f"{what}: {says}"


def test_a_fabric_without_planes_says_so() -> None:
    with pytest.raises(
        UsageError, match="no plane 1: this fabric has no planes; expected one of its rails 0-7"
    ):
        break_fabric(superpod(31, 4), ["plane1"])
    with pytest.raises(UsageError, match="no rail 0: this fabric has no rails; expected a device"):
        break_fabric(load_fabric("hgx-h100"), ["rail0"])
