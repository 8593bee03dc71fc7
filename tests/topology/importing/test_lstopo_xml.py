"""Fabrics from hwloc's XML: what is a GPU, what is a NIC, where PCI puts them."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.topology.importing.imported import Imported
from clusterlab.topology.importing.lstopo_xml import read_lstopo_xml
from clusterlab.topology.matrix import topo_matrix
from tests.topology.importing.mangled import mangled


def card(gp: int, *os_devices: str, pci_class: str = "0302", speed: float = 15.75) -> str:
    return (
        f'<object type="PCIDev" gp_index="{gp}" pci_busid="0000:{gp:02x}:00.0" '
        f'pci_type="{pci_class} [10de:1db8] [10de:131d] a1" pci_link_speed="{speed}">'
        + "".join(os_devices)
        + "</object>"
    )


def gpu(number: int, gp: int, backend: str = "nvml", model: str = "Tesla V100-SXM2-32GB") -> str:
    return (
        f'<object type="OSDev" gp_index="{gp}" name="{backend}{number}" osdev_type="1">'
        f'<info name="GPUModel" value="{model}"/><info name="NVIDIAUUID" value="GPU-{number}"/></object>'
    )


def rdma(name: str) -> str:
    return f'<object type="OSDev" name="{name}" osdev_type="3"/>'


def ethernet(name: str) -> str:
    return f'<object type="OSDev" name="{name}" osdev_type="2"/>'


def bridge(*inside: str) -> str:
    return (
        '<object type="Bridge" bridge_type="1-1" pci_link_speed="7.88">'
        + "".join(inside)
        + "</object>"
    )


def host_bridge(*inside: str) -> str:
    return '<object type="Bridge" bridge_type="0-1">' + "".join(inside) + "</object>"


def package(number: int, *inside: str, nodes: str | None = None) -> str:
    bits = 1 << number
    return (
        f'<object type="Package" os_index="{number}" gp_index="{900 + number}" cpuset="0x{bits:x}" '
        f'nodeset="{nodes or hex(bits)}">'
        f'<object type="NUMANode" os_index="{number}" cpuset="0x{bits:x}" nodeset="0x{bits:x}" '
        f'local_memory="1024"/><object type="Core" cpuset="0x{bits:x}"/>{"".join(inside)}</object>'
    )


def topology(*packages: str, after: str = "") -> str:
    return (
        '<topology version="2.0"><object type="Machine" cpuset="0x3" nodeset="0x3">'
        f'<info name="HostName" value="a01"/>{"".join(packages)}</object>{after}</topology>'
    )


def matrix(name: str, objects: list[str], values: list[int]) -> str:
    return (
        f'<distances2hetero nbobjs="{len(objects)}" name="{name}">'
        f"<indexes>{' '.join(objects)}</indexes>"
        f"<u64values>{' '.join(map(str, values))}</u64values></distances2hetero>"
    )


SWITCHED = topology(
    package(
        0,
        host_bridge(bridge(bridge(bridge(card(1, gpu(0, 11))), bridge(card(2, rdma("mlx5_0")))))),
        host_bridge(bridge(card(3, gpu(1, 12))), bridge(card(4, rdma("mlx5_1"), ethernet("ib1")))),
    ),
    package(1, host_bridge(bridge(card(5, rdma("mlx5_2")), card(6, rdma("mlx5_3"), speed=7.88)))),
)


def codes(imported: Imported) -> list[str]:
    return [f.code for f in imported.findings]


def test_ports_are_no_switches_and_levels_come_out_right() -> None:
    imported = read_lstopo_xml(SWITCHED, file="t")
    assert imported.fabric.name == "a01"
    kinds = Counter(d.kind for d in imported.fabric.devices)
    assert kinds == {"gpu": 2, "nic": 4, "cpu": 2, "host_bridge": 3, "pcie_switch": 2}
    cells = topo_matrix(imported.fabric, "a01")
    assert cells.cell("GPU0", "NIC0") == "PIX"
    assert cells.cell("GPU1", "NIC1") == "PHB"
    assert cells.cell("GPU0", "GPU1") == "NODE"
    assert cells.cell("NIC2", "NIC3") == "PIX"  # two functions below one root port
    assert cells.cell("GPU0", "NIC2") == "SYS"


def test_devices_carry_what_the_file_says() -> None:
    fabric = read_lstopo_xml(SWITCHED, file="t").fabric
    gpu0, nic0, cpu1 = (fabric.device(f"a01/{n}") for n in ("gpu0", "nic0", "cpu1"))
    assert (gpu0.model, gpu0.guid, gpu0.pci, gpu0.numa) == (
        "Tesla V100-SXM2-32GB",
        "GPU-0",
        "0000:01:00.0",
        0,
    )
    assert nic0.interface == "mlx5_0"
    assert (cpu1.numa, cpu1.cores, cpu1.memory_bytes) == (1, 1, 1024)
    (link,) = fabric.links_from("a01/gpu0")
    assert (link.wire_GBps, link.GBps) == (15.75, None)


def test_a_backend_shows_each_gpu_once_and_its_numbers_are_kept() -> None:
    twice = topology(package(0, host_bridge(bridge(card(1, gpu(0, 2, "cuda"), gpu(4, 3, "nvml"))))))
    fabric = read_lstopo_xml(twice, file="t").fabric
    assert [(d.name, d.interface) for d in fabric.of_kind("gpu")] == [("a01/gpu4", "nvml4")]
    only_cuda = topology(package(0, host_bridge(bridge(card(1, gpu(0, 2, "cuda"))))))
    assert len(read_lstopo_xml(only_cuda, file="t").fabric.of_kind("gpu")) == 1


def test_what_is_not_counted_is_said() -> None:
    text = topology(
        package(
            0, host_bridge(bridge(card(1)), bridge(card(2, ethernet("eth0"), pci_class="0200")))
        )
    )
    imported = read_lstopo_xml(text, file="t")
    assert imported.fabric.of_kind("gpu") == imported.fabric.of_kind("nic") == ()
    assert codes(imported) == ["gpu_not_counted", "network_without_rdma"]
    assert codes(read_lstopo_xml(topology(package(0)), file="t")) == ["no_io_devices"]


def test_devices_on_several_numa_nodes_stay_without_one() -> None:
    text = topology(package(0), package(1), host_bridge(bridge(card(1, gpu(0, 2)))))
    imported = read_lstopo_xml(text, file="t")
    assert imported.fabric.device("a01/gpu0").numa is None
    assert codes(imported) == ["numa_unknown"]


def nvlinked(values: list[int], *, model: str = "Tesla V100-SXM2-32GB") -> Imported:
    """Two GPUs, an NVSwitch and package 0."""
    switch = card(3, pci_class="0680").replace("<object ", '<object subtype="NVSwitch" ', 1)
    pci = host_bridge(
        *(bridge(card(i, gpu(i, 10 + i, model=model))) for i in range(2)), bridge(switch)
    )
    objects = ["OSDev:10", "OSDev:11", "PCIDev:3", "Package:900"]
    return read_lstopo_xml(
        topology(package(0, pci), after=matrix("NVLinkBandwidth", objects, values)), file="t"
    )


@pytest.mark.parametrize(
    ("model", "total", "links"),
    [("Tesla P100-SXM2-16GB", 40_000, 2), ("NVIDIA H200", 100_000, 4), ("NVIDIA B200", 100_000, 2)],
)
def test_nvlinks_are_counted_by_the_models_rate(model: str, total: int, links: int) -> None:
    big = 1_000_000
    values = [big, total, 0, 0, total, big, 0, 0, 0, 0, big, 0, 0, 0, 0, big]
    imported = nvlinked(values, model=model)
    (out, _) = (k for k in imported.fabric.links if k.link_class == "nvlink")
    assert (out.src, out.dst, out.multiplicity) == ("a01/gpu0", "a01/gpu1", links)
    assert out.wire_capacity_GBps == total / 1000
    assert topo_matrix(imported.fabric, "a01").cell("GPU0", "GPU1") == f"NV{links}"


def test_nvlinks_lead_to_switches_and_cpus_too() -> None:
    values = [0, 0, 150_000, 0, 0, 0, 150_000, 50_000, 150_000, 150_000, 0, 0, 0, 50_000, 0, 0]
    imported = nvlinked(values)
    ends = {
        (k.src, k.dst, k.multiplicity) for k in imported.fabric.links if k.link_class == "nvlink"
    }
    assert ("a01/gpu0", "a01/nvswitch0", 6) in ends
    assert ("a01/gpu1", "a01/cpu0", 2) in ends
    assert topo_matrix(imported.fabric, "a01").cell("GPU0", "GPU1") == "NV6"


def xgmi(bandwidth: list[int], hops: list[int]) -> Imported:
    cards = [bridge(card(i, gpu(i, 10 + i, "rsmi"))) for i in range(2)]
    objects = ["OSDev:10", "OSDev:11"]
    after = matrix("XGMIBandwidth", objects, bandwidth) + matrix("XGMIHops", objects, hops)
    return read_lstopo_xml(topology(package(0, host_bridge(*cards)), after=after), file="t")


def test_hwlocs_xgmi_constant_is_no_rate_and_two_hops_are_no_link() -> None:
    constant = xgmi([1_000_000, 100_000, 100_000, 1_000_000], [0, 1, 1, 0])
    links = [k for k in constant.fabric.links if k.link_class == "xgmi"]
    assert [(k.wire_GBps, k.GBps) for k in links] == [(None, None)] * 2
    assert codes(constant) == ["xgmi_rate_unknown"]
    said = xgmi([0, 50_000, 50_000, 0], [0, 1, 1, 0])
    assert [k.wire_GBps for k in said.fabric.links if k.link_class == "xgmi"] == [50.0, 50.0]
    assert not any(k.link_class == "xgmi" for k in xgmi([0, 5, 5, 0], [0, 2, 2, 0]).fabric.links)


def test_a_gpu_on_a_slower_pci_link_than_its_siblings_is_named() -> None:
    cards = [bridge(card(i, gpu(i, 10 + i), speed=15.75 if i else 7.88)) for i in range(3)]
    imported = read_lstopo_xml(topology(package(0, host_bridge(*cards))), file="t")
    (finding,) = imported.findings
    assert finding.code == "pcie_link_slower"
    assert finding.evidence[1] == "a01/gpu0: 7.9 of 15.8 GB/s"


def test_hwloc_1_files_nest_sockets_in_numa_nodes() -> None:
    text = (
        '<topology><object type="Machine" cpuset="0x3" nodeset="0x3">'
        '<object type="NUMANode" os_index="1" cpuset="0x2" nodeset="0x2" local_memory="5">'
        '<object type="Socket" cpuset="0x2" nodeset="0x2"><object type="Core" cpuset="0x2"/></object>'
        + host_bridge(bridge(card(1, rdma("mlx4_0"))))
        + "</object></object></topology>"
    )
    fabric = read_lstopo_xml(text, file="t").fabric
    assert fabric.device("n0/nic0").numa == 1
    assert fabric.device("n0/cpu1").cores == 1


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_mangled_file_is_imported_or_refused(data: st.DataObject) -> None:
    text = SWITCHED.replace(">", ">\n")
    try:
        imported = read_lstopo_xml(data.draw(mangled(text)), file="t")
    except UsageError as error:
        assert str(error).startswith("t")
    else:
        topo_matrix(imported.fabric, imported.fabric.name)
