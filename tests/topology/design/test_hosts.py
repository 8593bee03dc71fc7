"""The hosts of a design: their names, and hosts like those of another design or of one's own file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.formats.hostlist import compress_hostlist
from clusterlab.topology.design.load import fabric_from_yaml, load_fabric
from clusterlab.topology.design.saving import fabric_to_yaml
from clusterlab.topology.fabric import Fabric, equal_hosts
from clusterlab.topology.opening import files_behind, open_fabric
from clusterlab.topology.parts import Device, Link

ONE = "  devices: [{name: gpu0, kind: gpu}]\n"


def hosts(text: str) -> tuple[str, ...]:
    return fabric_from_yaml(f"hosts:\n{text}{ONE}", file="my.yaml", default_name="my").hosts


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('  count: 3\n  name: "node{i:03d}"\n', ("node000", "node001", "node002")),
        ('  count: 3\n  name: "node{i:03d}"\n  start: 9\n', ("node009", "node010", "node011")),
        ('  count: 2\n  name: "r{i}-gpu"\n  start: 1\n', ("r1-gpu", "r2-gpu")),
        ("  count: 2\n  start: 1\n", ("n1", "n2")),
        ("  name: login\n", ("login",)),
        ("  names: node[001-003]\n", ("node001", "node002", "node003")),
        ('  names: "a[1-2],b7,c[09-11]x"\n', ("a1", "a2", "b7", "c09x", "c10x", "c11x")),
        ("  names: [b7, a1]\n", ("b7", "a1")),
        ("  names:\n    - a[1-2]\n    - b\n", ("a1", "a2", "b")),
        ("  names: solo\n", ("solo",)),
    ],
)
def test_hosts_are_called_as_the_design_says(text: str, names: tuple[str, ...]) -> None:
    assert hosts(text) == names


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("  count: 2\n  name: node\n", "hosts.name: 2 of them .*{i:03d}"),
        ('  count: 2\n  name: "node{i:3d}"\n', "hosts.name: the number in 'node{i:3d}'"),
        ('  count: 2\n  name: "node{i:x}"\n', "hosts.name: the number in"),
        ('  name: "node{index}"\n  count: 1\n', "hosts.name: the number in"),
        ("  count: 2\n  start: -1\n", "hosts.start: -1; expected the first host's number"),
        ("  count: 2\n  start: one\n", "hosts.start: 'one'"),
        ("  names: node[001-016\n", "hosts.names: .*brackets do not pair"),
        ("  names: node[5-1]\n", "hosts.names: .*runs backwards"),
        ("  names: node[1-99999999]\n", "hosts.names: 99999999 entries"),
        ("  names: []\n", "hosts.names: no names"),
        ("  names: 7\n", "hosts.names: 7 is not a list"),
        ("  names: [a, b, a]\n", "hosts.names: host 'a' 2 times"),
        ("  names: n[1-2],n2\n", "hosts.names: host 'n2' 2 times"),
        ("  names: n[1-2]\n  count: 2\n", "hosts.count: names and count"),
        ("  names: n[1-2]\n  start: 2\n", "hosts.start: names and start"),
        ('  names: n[1-2]\n  name: "n{i}"\n', "hosts.name: names and name"),
        ('  without: ["gpu0"]\n', "hosts.without: without, but like nothing"),
    ],
)
def test_names_that_cannot_be_are_refused_with_their_line(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=rf"my\.yaml:\d+: {message}"):
        hosts(text)


@given(
    st.lists(st.from_regex(r"[a-z]{1,3}-?[0-9]{0,4}", fullmatch=True), min_size=1, unique=True),
)
@settings(max_examples=100, deadline=None)
def test_a_hostlist_means_the_same_hosts_in_the_same_order(names: list[str]) -> None:
    assert hosts(f"  names: {compress_hostlist(names)!r}\n") == tuple(names)
    assert hosts(f"  names: {names}\n") == tuple(names)


@given(
    st.lists(
        st.text(st.sampled_from("ab01-_.[],: é"), min_size=1, max_size=6).filter(str.strip),
        min_size=1, unique=True,
    )
)  # fmt: skip
@settings(max_examples=100, deadline=None)
def test_odd_names_of_equal_hosts_are_read_back(names: list[str]) -> None:
    fabric = Fabric("odd", *equal_hosts(names, [Device("gpu0", "gpu")], []))
    back = fabric_from_yaml(fabric_to_yaml(fabric), file="back.yaml", default_name="back")
    assert sorted(back.hosts) == sorted(names)


def test_numbers_with_zeros_are_the_same_number_in_wiring() -> None:
    fabric = fabric_from_yaml(
        """\
links: {w: {class: ib, GBps: 48, GBps_source: here}}
hosts: {names: "node[08-11]", devices: [{name: "nic{i}", kind: nic, count: 2}]}
network:
  devices: [{name: "leaf{i:02d}", kind: leaf, count: 12}]
  links:
    - {from: "node{i}/nic0", to: "leaf{i}", type: w}
    - {from: "node[08-09]/nic1", to: leaf00, type: w}
""",
        file="my.yaml",
        default_name="my",
    )
    assert {k.src for k in fabric.links_to("leaf09")} == {"node09/nic0"}
    assert {k.src for k in fabric.links_to("leaf00")} == {"node08/nic1", "node09/nic1"}


def both(a: str, b: str, **more: object) -> list[Link]:
    one = Link(a, b, "pcie", 48.0, GBps_source="here", **more)  # type: ignore[arg-type]
    return [one, replace(one, src=b, dst=a)]


def found_host(name: str = "gn07") -> Fabric:
    """One host, every device written out, a NIC's cable leading to who knows where."""
    devices = [
        Device(f"{name}/gpu0", "gpu", host=name, model="H100", guid="GPU-1", numa=0),
        Device(f"{name}/nic0", "nic", host=name, guid="0xa", listed_as="HCA-1", interface="mlx5_2"),
        Device(f"{name}/pcie0", "pcie_switch", host=name, pci="0000:1a:00.0"),
        Device("network", "external"),
    ]
    links = both(f"{name}/gpu0", f"{name}/pcie0") + both(f"{name}/nic0", f"{name}/pcie0")
    links += both(f"{name}/nic0", "network", wire_GBps=50.0, wire_source="there")
    return Fabric("node", tuple(devices), tuple(links))


def like(folder: Path, other: Fabric | str, said: str = "node.yaml") -> Fabric:
    text = other if isinstance(other, str) else fabric_to_yaml(other)
    (folder / "node.yaml").write_text(text)
    (folder / "cluster.yaml").write_text(
        f"""\
links: {{w: {{class: ethernet, GBps: 48, GBps_source: here}}}}
hosts: {{like: {said}, names: "node[01-16]"}}
network:
  clos: [{{attach: "nic*", hosts_per_su: 4, spines: 2, uplinks: 2, links: {{leaf: w, spine: w}}}}]
"""
    )
    return open_fabric(str(folder / "cluster.yaml"))


def grouped(count: int) -> Fabric:
    """The same as equal hosts, whose NICs are written out one by one, as a network's listing has them."""
    names = [f"a{i}" for i in range(count)]
    one = found_host("x")
    inside = [replace(d, name=d.name[2:], host=None) for d in one.devices if "/" in d.name]
    kept = [d for d in inside if d.kind != "nic"]
    nics = [replace(inside[1], name=f"{n}/nic0", host=n, guid=f"0x{n}") for n in names]
    links = [k for n in names for k in both(f"{n}/nic0", f"{n}/pcie0") + both(f"{n}/nic0", "leaf")]
    everything = equal_hosts(
        names,
        kept,
        both("gpu0", "pcie0"),
        others=[*nics, Device("leaf", "leaf")],
        other_links=links,
    )
    return Fabric("many", *everything)


@pytest.mark.parametrize("other", [found_host(), grouped(1), grouped(3)], ids=["1", "g1", "g3"])
def test_hosts_like_those_of_ones_own_file(tmp_path: Path, other: Fabric) -> None:
    fabric = like(tmp_path, other)
    assert fabric.hosts == tuple(f"node{i:02d}" for i in range(1, 17))
    inside = fabric.on_host("node16")
    assert {(d.name, d.kind) for d in inside} == {
        ("node16/gpu0", "gpu"),
        ("node16/nic0", "nic"),
        ("node16/pcie0", "pcie_switch"),
    }
    gpu, nic = fabric.device("node16/gpu0"), fabric.device("node16/nic0")
    assert (gpu.model, gpu.numa, gpu.guid) == ("H100", 0, None)
    assert (nic.interface, nic.guid, nic.listed_as) == ("mlx5_2", None, None)
    assert {k.dst for k in fabric.links_from("node16/nic0")} == {"node16/pcie0", "leaf3"}
    assert {k.GBps for k in fabric.links_from("node16/gpu0")} == {48.0}
    assert len(fabric.equal_hosts) == 1


def test_a_design_of_ones_own_may_be_like_another(tmp_path: Path) -> None:
    own = "hosts: {like: dgx-h100, without: ['storage*']}\n"
    fabric = like(tmp_path, own, "./node.yaml")
    assert len(fabric.on_host("node01", "nic")) == 8
    assert (
        fabric.on_host("node01", "gpu")[0].model == load_fabric("dgx-h100").of_kind("gpu")[0].model
    )


def test_the_file_counts_as_read_and_changes_the_digest(tmp_path: Path) -> None:
    first = like(tmp_path, found_host())
    cluster = tmp_path / "cluster.yaml"
    assert files_behind(str(cluster)) == [cluster, tmp_path / "node.yaml"]
    changed = replace(found_host(), description="another")
    assert like(tmp_path, changed).digest != first.digest
    assert like(tmp_path, found_host()).digest == first.digest


@pytest.mark.parametrize(
    ("text", "said", "message"),
    [
        ("hosts: {like: cluster.yaml}\n", "node.yaml", "in a circle"),
        ("base: hgx-h100\nbroken: []\n", "node.yaml", "node.yaml: a fabric with failures"),
        ("network: {devices: [{name: leaf0, kind: leaf}]}\n", "node.yaml", "no hosts"),
        (
            "network: {devices: [{name: a/gpu0, kind: gpu, host: a}, {name: b/gpu0, kind: gpu, host: b}]}\n",
            "node.yaml",
            "2 hosts, none like another",
        ),
        ("\tGPU0\nGPU0\t X\n", "other.txt", "clusterlab topo import .*other.txt -o node.yaml"),
        ("", "missing.yaml", "missing.yaml: cannot be read: No such file"),
        ("hosts: {devises: []}\n", "node.yaml", r"node.yaml:1: hosts.devises: unknown key"),
    ],
)
def test_a_file_that_is_no_host_is_refused(
    tmp_path: Path, text: str, said: str, message: str
) -> None:
    (tmp_path / "other.txt").write_text(text)
    with pytest.raises(UsageError, match=message):
        like(tmp_path, text, said)


def test_without_takes_devices_and_connections_away() -> None:
    text = """\
hosts:
  like: hgx-h100
  without: ["gpu*/cpu*", "gpu[4-7]"]
"""
    fabric = fabric_from_yaml(text, file="my.yaml", default_name="my")
    assert [d.name for d in fabric.of_kind("gpu")] == [f"n0/gpu{i}" for i in range(4)]
    assert {k.link_class for k in fabric.links_from("n0/gpu0")} == {"nvlink"}
    assert {k.dst for k in fabric.links_from("n0/cpu0")} == {"n0/cpu1"}


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("nic*", r"hosts.without\[0\]: dangling link: no device matches 'nic\*'"),
        ("gpu*/nic*", r"hosts.without\[0\]: dangling link: no device matches 'nic\*'"),
        ("gpu0/gpu1", r"hosts.without\[0\]: no link between 'gpu0' and 'gpu1'"),
    ],
)
def test_without_names_what_is_there(pattern: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        fabric_from_yaml(
            f"hosts: {{like: hgx-h100, without: ['{pattern}']}}\n", file="my.yaml", default_name="m"
        )
