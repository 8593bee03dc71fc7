"""A node, a network and Slurm's placement become one fabric; what does not fit is said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.core.findings import Severity
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.importing.imported import Imported
from clusterlab.topology.importing.merge import merge
from clusterlab.topology.parts import Device, Link


def both(a: str, b: str, link_class: str, GBps: float | None = None, n: int = 1) -> list[Link]:
    one = Link(a, b, link_class, GBps, multiplicity=n)  # type: ignore[arg-type]
    return [one, replace(one, src=b, dst=a)]


def node(kind: str = "topo_m", nics: int = 2) -> Imported:
    """Two GPUs with a NIC each on a PCIe switch of their own, NVLink between the GPUs."""
    devices = [Device("n0/cpu0", "cpu", host="n0", numa=0)]
    links = both("n0/gpu0", "n0/gpu1", "nvlink", n=18)
    for i in range(2):
        devices += [
            Device(f"n0/gpu{i}", "gpu", host="n0"),
            Device(f"n0/pcie{i}", "pcie_switch", host="n0"),
        ]
        links += both(f"n0/gpu{i}", f"n0/pcie{i}", "pcie") + both(f"n0/pcie{i}", "n0/cpu0", "pcie")
    for i in range(nics):
        name = f"n0/nic{i}"
        devices.append(Device(name, "nic", host="n0", numa=0, interface=f"mlx5_{i}"))
        links += both(name, f"n0/pcie{i % 2}", "pcie")
    return Imported(kind, Fabric("node", tuple(devices), tuple(links), origin="node.txt"))


def network(hosts: tuple[str, ...] = ("a1", "a2"), style: str = "mlx5_{}") -> Imported:
    """Every host's NIC i on leaf i (its rail), one spine."""
    devices = [
        Device("spine0", "spine"),
        *(Device(f"leaf{i}", "leaf", rail=i) for i in range(2)),
    ]
    links = both("leaf0", "spine0", "ib", 50.0) + both("leaf1", "spine0", "ib", 50.0)
    for host in hosts:
        for i in range(2):
            interface = style.format(i + style.startswith("HCA"))
            name = f"{host}/{interface}"
            devices.append(
                Device(name, "nic", host=host, rail=i, interface=interface, guid=f"{host}{i}")
            )
            links += both(name, f"leaf{i}", "ib", 50.0)
    return Imported("ibnetdiscover", Fabric("net", tuple(devices), tuple(links), origin="ib.out"))


def slurm(leaves: dict[str, list[str]]) -> Imported:
    devices = [Device(name, "leaf") for name in leaves]
    links = []
    for leaf, hosts in leaves.items():
        for host in hosts:
            devices.append(Device(host, "host", host=host))
            links += both(host, leaf, "network")
    fabric = Fabric("slurm", tuple(devices), tuple(links), origin="topology.conf")
    return Imported("slurm_topology", fabric)


def codes(imported: Imported) -> list[str]:
    return [f.code for f in imported.findings]


@pytest.mark.parametrize("style", ["mlx5_{}", "HCA-{}"])
def test_the_node_stands_in_every_host_of_the_network(style: str) -> None:
    fabric = merge([node(), network(style=style)]).fabric
    assert fabric.hosts == ("a1", "a2")
    assert len(fabric.of_kind("gpu")) == 4
    assert [d.rail for d in fabric.on_host("a2", "gpu")] == [0, 1]
    nic = fabric.device("a2/nic1")
    assert (nic.guid, nic.rail, nic.numa, nic.interface) == ("a21", 1, 0, "mlx5_1")
    assert {link.dst for link in fabric.links_from("a2/nic1")} == {"a2/pcie1", "leaf1"}


def test_the_far_side_that_only_the_node_knew_gives_way_to_the_switches() -> None:
    alone = node().fabric
    far = Device("network", "external")
    known = replace(
        alone,
        devices=(*alone.devices, far),
        links=(*alone.links, *both("n0/nic0", "network", "ib", 50.0)),
    )
    fabric = merge([Imported("nccl_xml", known), network()]).fabric
    assert not [d.name for d in fabric.devices if d.kind == "external"]
    assert {link.dst for link in fabric.links_from("a1/nic0")} == {"a1/pcie0", "leaf0"}


def test_a_guid_says_more_than_a_name() -> None:
    swapped = node()
    devices = tuple(
        replace(d, guid={"n0/nic0": "a11", "n0/nic1": "a10"}.get(d.name))
        for d in swapped.fabric.devices
    )
    fabric = merge(
        [replace(swapped, fabric=replace(swapped.fabric, devices=devices)), network(("a1",))]
    ).fabric
    assert fabric.device("a1/nic0").guid == "a11"
    assert "leaf1" in {link.dst for link in fabric.links_from("a1/nic0")}


def test_slurm_says_which_hosts_and_in_which_order() -> None:
    whole = merge([node(), network(("a1", "a2", "a3")), slurm({"s0": ["a3", "a1", "a9"]})])
    assert whole.fabric.hosts[:2] == ("a3", "a1")
    assert len(whole.fabric.of_kind("gpu")) == 4
    assert not whole.fabric.on_host("a2", "gpu")
    assert codes(whole) == ["host_not_in_network"]
    assert "a9" in whole.findings[0].evidence[0]


def test_slurms_leaf_that_no_cable_confirms_is_found() -> None:
    fabric = network().fabric
    apart = tuple(
        replace(link, src=link.src.replace("leaf", "leafB"), dst=link.dst.replace("leaf", "leafB"))
        if "a2/" in link.name
        else link
        for link in fabric.links
    )
    more = (*fabric.devices, Device("leafB0", "leaf"), Device("leafB1", "leaf"))
    changed = Imported("ibnetdiscover", replace(fabric, devices=more, links=apart))
    assert codes(merge([changed, slurm({"s0": ["a1", "a2"]})])) == ["slurm_topology_disagrees"]
    assert codes(merge([network(), slurm({"s0": ["a1", "a2"]})])) == []


def test_nics_on_one_side_only_are_said() -> None:
    merged = merge([node(nics=1), network()])
    assert codes(merged) == ["nic_not_in_node"]
    assert merged.findings[0].severity == Severity.WARNING  # the NIC is on a rail
    assert len(merged.fabric.of_kind("nic")) == 4
    plain = network().fabric
    devices = tuple(replace(d, rail=None, role=None) for d in plain.devices)
    merged = merge([node(nics=1), Imported("ibnetdiscover", replace(plain, devices=devices))])
    assert codes(merged) == ["nic_not_in_node"]
    assert merged.findings[0].severity == Severity.INFO
    lost = network().fabric
    links = tuple(link for link in lost.links if "a2/mlx5_1" not in link.name)
    devices = tuple(d for d in lost.devices if d.name != "a2/mlx5_1")
    cut = Imported("ibnetdiscover", replace(lost, devices=devices, links=links))
    merged = merge([node(), cut])
    assert codes(merged) == ["nic_not_in_network"]
    assert merged.findings[0].severity == Severity.WARNING
    assert merged.findings[0].evidence == ("nic1 on a2",)
    assert len(merged.fabric.of_kind("nic")) == 4


def test_nics_that_no_host_shows_are_one_quiet_finding() -> None:
    merged = merge([node(nics=4), network(tuple(f"a{i:02d}" for i in reversed(range(1, 13))))])
    (finding,) = merged.findings
    assert (finding.code, finding.severity) == ("nic_not_in_network", Severity.INFO)
    assert finding.evidence == ("nic2, nic3 on none of 12 hosts",)


def test_hosts_in_findings_are_in_order_and_folded() -> None:
    hosts = tuple(f"a{i:02d}" for i in reversed(range(1, 13)))
    fabric = network((*hosts, "b1", "b2")).fabric
    lost = {f"{host}/mlx5_1" for host in hosts[:5]}
    cut = replace(
        fabric,
        devices=tuple(d for d in fabric.devices if d.name not in lost),
        links=tuple(k for k in fabric.links if not {k.src, k.dst} & lost),
    )
    (finding,) = merge([node(), Imported("ibnetdiscover", cut)]).findings
    assert finding.evidence == ("nic1 on a[08-12]",)


def with_ports(imported: Imported, GBps: float, slot_GBps: float = 63.0) -> Imported:
    """The node where each NIC's port and PCIe link carry so much."""
    fabric = imported.fabric
    links = [
        replace(k, GBps=slot_GBps) if "nic" in k.name and k.link_class == "pcie" else k
        for k in fabric.links
    ]
    for nic in fabric.of_kind("nic"):
        links += both(nic.name, "network", "ib", GBps)
    devices = (*fabric.devices, Device("network", "external"))
    return replace(imported, fabric=replace(fabric, devices=devices, links=tuple(links)))


def test_a_node_of_another_generation_than_the_cables_is_said() -> None:
    merged = merge([with_ports(node("nccl_xml"), 25.0, 24.0), network(("a1", "a2", "a3"))])
    found = {f.code: f for f in merged.findings}
    assert set(found) == {"rates_disagree", "slot_slower_than_port"}
    assert found["rates_disagree"].severity == Severity.WARNING
    assert found["rates_disagree"].evidence == (
        "nic0: 25 GB/s in node.txt, 50 GB/s in ib.out on 3 of 3 hosts",
        "nic1: 25 GB/s in node.txt, 50 GB/s in ib.out on 3 of 3 hosts",
    )
    assert found["slot_slower_than_port"].evidence[0] == (
        "nic0: its PCIe link carries 24 GB/s, its port 50 GB/s on 3 of 3 hosts"
    )
    assert merge([with_ports(node("nccl_xml"), 50.0), network()]).findings == ()


def test_what_a_name_was_taken_to_mean_is_said() -> None:
    (finding,) = merge([node(), network(style="HCA-{}")]).findings
    assert (finding.code, finding.severity) == ("nic_names_assumed", Severity.INFO)
    assert finding.evidence[0] == "HCA-1 is the node's nic0 on 2 of 2 hosts"
    merged = merge([node(), network(style="HCA-{}")]).fabric
    assert {d.listed_as for d in merged.on_host("a1", "nic")} == {"HCA-1", "HCA-2"}
    assert {d.listed_as for d in merge([node(), network()]).fabric.of_kind("nic")} == {None}


def test_equal_guids_assume_nothing() -> None:
    known = node()
    devices = tuple(
        replace(d, guid={"n0/nic0": "a10", "n0/nic1": "a11"}.get(d.name))
        for d in known.fabric.devices
    )
    exact = replace(known, fabric=replace(known.fabric, devices=devices))
    assert codes(merge([exact, network(("a1",), style="HCA-{}")])) == []


def test_a_storage_nic_does_not_become_a_rail_in_silence() -> None:
    storage = node().fabric
    devices = tuple(
        replace(d, role="storage" if d.name == "n0/nic1" else "compute") if d.kind == "nic" else d
        for d in storage.devices
    )
    (told,) = merge([replace(node(), fabric=replace(storage, devices=devices)), network()]).findings
    assert (told.code, told.severity) == ("rail_on_other_nic", Severity.WARNING)
    assert told.evidence == ("nic1: on rail 1 of 2 hosts; it serves storage by the node's file",)


def test_a_nic_that_is_no_gpus_nearest_does_not_become_a_rail_in_silence() -> None:
    """The network's second rail is on mlx5_2, which hangs on the CPU: storage ports do."""
    known = node().fabric
    devices = (*known.devices, Device("n0/nic2", "nic", host="n0", numa=0, interface="mlx5_2"))
    links = (*known.links, *both("n0/nic2", "n0/cpu0", "pcie"))
    part = replace(node(), fabric=replace(known, devices=devices, links=links))
    moved = network().fabric
    second = tuple(
        replace(d, interface="mlx5_2") if d.interface == "mlx5_1" else d for d in moved.devices
    )
    merged = merge([part, Imported("ibnetdiscover", replace(moved, devices=second))])
    told = {f.code: f.evidence for f in merged.findings}
    assert "nic2: on rail 1 of 2 hosts; no GPU's nearest NIC" in told["rail_on_other_nic"][0]


@pytest.mark.parametrize("members", [None, ["a1", "login"]])
def test_a_host_with_few_of_the_nodes_nics_becomes_no_gpu_node(members: list[str] | None) -> None:
    """Unless Slurm names it: a login host has the same adapters, one of them."""
    fabric = network(("a1", "a2", "a3", "login")).fabric
    one = tuple(
        replace(d, role=None if d.host == "login" else "compute") if d.kind == "nic" else d
        for d in fabric.devices
        if d.name != "login/mlx5_1"
    )
    links = tuple(k for k in fabric.links if "login/mlx5_1" not in k.name)
    part = Imported("ibnetdiscover", replace(fabric, devices=one, links=links))
    parts = [node(), part, *([] if members is None else [slurm({"s": members})])]
    merged = merge(parts)
    assert bool(merged.fabric.on_host("login", "gpu")) == (members is not None)
    left_out = [f for f in merged.findings if f.code == "host_unlike_node"]
    assert len(left_out) == (members is None)
    if left_out:
        assert left_out[0].severity == Severity.WARNING
        assert left_out[0].evidence[0].startswith("login: 1 of the 2 NICs")


def test_slurm_and_a_node_without_a_network_join_by_locality() -> None:
    fabric = merge([node(), slurm({"s0": ["a1", "a2"]})]).fabric
    assert len(fabric.of_kind("gpu")) == 4
    up = [link for link in fabric.links_from("a1/nic0") if link.dst == "s0"]
    assert [(link.link_class, link.GBps) for link in up] == [("network", None)]


def test_nvlink_listings_give_the_rate_and_tell_missing_links() -> None:
    far = Device("n0/gpu0-nvlink", "external", host="n0")
    gpu = Device("n0/gpu0", "gpu", host="n0")
    one = Link(
        gpu.name, far.name, "nvlink", None, multiplicity=17, wire_GBps=26.562, wire_source="printed"
    )
    detail = Imported(
        "nvlink_s",
        Fabric("nv", (gpu, far), (one, replace(one, src=far.name, dst=gpu.name)), origin="nv.txt"),
    )
    merged = merge([node(), detail])
    rates = {link.wire_GBps for link in merged.fabric.links if link.link_class == "nvlink"}
    assert rates == {26.562}
    assert codes(merged) == ["nvlinks_inactive"]


def test_nodes_of_different_names_stand_side_by_side() -> None:
    other = node().fabric
    renamed = Fabric(
        "node",
        tuple(replace(d, name=d.name.replace("n0", "n1"), host="n1") for d in other.devices),
        tuple(
            replace(link, src=link.src.replace("n0", "n1"), dst=link.dst.replace("n0", "n1"))
            for link in other.links
        ),
        origin="other.txt",
    )
    assert merge([node(), Imported("topo_m", renamed)]).fabric.hosts == ("n0", "n1")


def test_two_descriptions_of_one_host_are_compared() -> None:
    small = node().fabric
    one = tuple(d for d in small.devices if d.name != "n0/gpu1")
    links = tuple(link for link in small.links if "gpu1" not in link.name)
    other = Imported("nccl_xml", replace(small, devices=one, links=links, origin="n.xml"))
    merged = merge([node(), other])
    assert codes(merged) == ["node_files_disagree"]
    assert len(merged.fabric.of_kind("gpu")) == 1


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([network(), network()], "two files of the same part"),
        ([node(nics=0), network()], "no NIC of the node"),
        ([node(), network(), slurm({"s": ["x1"]})], "share no name"),
        ([Imported("nvlink_s", node().fabric), network()], "details of a node without the node"),
    ],
)
def test_parts_that_cannot_belong_together_are_refused(parts: list[Imported], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        merge(parts)
