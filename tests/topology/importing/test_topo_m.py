"""Fabrics from nvidia-smi topo -m: what it says is kept, what it does not say stays unknown."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.formats.topo_m import parse_topo_m
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.importing.imported import Imported
from clusterlab.topology.importing.topo_m import read_topo_m
from clusterlab.topology.matrix import render, topo_matrix
from tests.topology.importing.hosts import hosts
from tests.topology.importing.mangled import mangled

DGX = """        GPU0 GPU1 GPU2 GPU3 NIC0 NIC1 CPU Affinity NUMA Affinity
GPU0     X  NV18 NV18 NV18 PXB  SYS  0-55,112-167    0
GPU1    NV18  X  NV18 NV18 NODE SYS  0-55,112-167    0
GPU2    NV18 NV18  X  NV18 SYS  PIX  56-111,168-223  1
GPU3    NV18 NV18 NV18  X  SYS  PHB  56-111,168-223  1
NIC0    PXB  NODE SYS  SYS  X   SYS
NIC1    SYS  SYS  PIX  PHB  SYS  X

NIC Legend:

  NIC0: mlx5_3
  NIC1: mlx5_0
"""


def codes(imported: Imported) -> list[str]:
    return [f.code for f in imported.findings]


def said(text: str, imported: Imported) -> list[str]:
    """Cells of the text that the fabric's own matrix does not repeat (SOC is SYS)."""
    source = parse_topo_m(text, file="t")
    back = topo_matrix(imported.fabric, "n0")
    place = {d.name: i for i, d in enumerate(back.devices)}
    nics = [c for c in source.columns if not c.startswith("GPU")]
    name = {c: f"n0/nic{nics.index(c)}" if c in nics else f"n0/{c.lower()}" for c in source.columns}
    return [
        f"{a},{b}: {cell}"
        for a in source.columns
        for b in source.columns
        if (cell := source.cell(a, b)) is not None
        and cell.replace("SOC", "SYS") != back.cells[place[name[a]]][place[name[b]]]
    ]


def test_a_switched_machine_has_one_switch_with_each_gpus_bundle() -> None:
    imported = read_topo_m(DGX, file="t")
    fabric = imported.fabric
    kinds = Counter(d.kind for d in fabric.devices)
    assert (kinds["gpu"], kinds["nic"], kinds["nvswitch"], kinds["cpu"]) == (4, 2, 1, 2)
    to_switch = [k for k in fabric.links if k.dst == "n0/nvswitch0"]
    assert [k.multiplicity for k in to_switch] == [18] * 4
    assert {k.GBps for k in fabric.links} == {None}
    assert fabric.device("n0/nic0").interface == "mlx5_3"
    assert fabric.device("n0/nic0").numa == 0  # it shares a switch with a GPU of NUMA node 0
    assert said(DGX, imported) == []
    assert codes(imported) == []
    assert imported.facts["cpu_affinity"]["GPU2"] == "56-111,168-223"


def test_separate_bundles_stay_separate() -> None:
    text = " GPU0 GPU1 GPU2 GPU3\n" + "".join(
        f"GPU{i} " + " ".join("X" if i == j else "NV4" for j in range(4)) + "\n" for i in range(4)
    )
    fabric = read_topo_m(text, file="t").fabric
    assert fabric.of_kind("nvswitch") == ()
    assert [k.multiplicity for k in fabric.links] == [4] * 12


def test_a_full_bundle_between_two_gpus_is_said_to_be_undecided() -> None:
    text = " GPU0 GPU1 CPU Affinity NUMA Affinity\nGPU0 X NV18 0-63 0\nGPU1 NV18 X 0-63 0\n"
    imported = read_topo_m(text, file="t")
    assert codes(imported) == ["nvlink_wiring_undecided"]
    assert imported.fabric.of_kind("nvswitch") == ()


def test_gpus_with_fewer_links_to_the_switch_are_named() -> None:
    imported = read_topo_m(DGX.replace("GPU1    NV18  X ", "GPU1    NV17  X ").replace(
        "X  NV18 NV18 NV18 PXB", "X  NV17 NV18 NV18 PXB").replace(
        "NV18  X  NV18 NV18 NODE", "NV17  X  NV17 NV17 NODE").replace(
        "NV17  X  NV18 NV18 NODE", "NV17  X  NV17 NV17 NODE").replace(
        "GPU2    NV18 NV18", "GPU2    NV18 NV17").replace(
        "GPU3    NV18 NV18", "GPU3    NV18 NV17"), file="t")  # fmt: skip
    (finding,) = imported.findings
    assert finding.code == "nvlink_counts_uneven"
    assert finding.evidence == ("n0/gpu1: 17 of 18 links",)


def test_a_partial_matrix_imports_what_is_there() -> None:
    lines = DGX.splitlines(keepends=True)
    imported = read_topo_m("".join(lines[:3]), file="t")
    assert len(imported.fabric.of_kind("gpu")) == 4
    assert len(imported.fabric.of_kind("nic")) == 2
    assert codes(imported) == ["matrix_partial", "place_unknown"]
    assert imported.facts["missing_rows"] == ["GPU2", "GPU3", "NIC0", "NIC1"]
    assert said("".join(lines[:3]), imported) == []


def test_cells_that_disagree_leave_the_pair_unknown() -> None:
    imported = read_topo_m(" GPU0 GPU1 NIC0\nGPU0 X PIX SYS\nGPU1 SYS X SYS\n", file="t")
    finding = next(f for f in imported.findings if f.code == "cells_asymmetric")
    assert finding.evidence == ("GPU0 to GPU1 PIX, GPU1 to GPU0 SYS",)
    assert not any(k.link_class == "nvlink" for k in imported.fabric.links)


def test_one_wrong_cell_is_outvoted_and_named() -> None:
    """GPU0 and GPU4 of two sockets said to share a switch: only that cell is contradicted."""

    def cell(i: int, j: int) -> str:
        if i == j:
            return "X"
        if {i, j} == {0, 4}:
            return "PIX"
        return "NODE" if i // 4 == j // 4 else "SYS"

    rows = [f"GPU{i} " + " ".join(cell(i, j) for j in range(8)) for i in range(8)]
    text = " ".join(f"GPU{i}" for i in range(8)) + "\n" + "\n".join(rows)
    imported = read_topo_m(text, file="t")
    finding = next(f for f in imported.findings if f.code == "levels_not_a_tree")
    assert finding.evidence[1:] == ("n0/gpu0, n0/gpu4: PIX, placed at SYS",)
    assert said(text, imported) == ["GPU0,GPU4: PIX", "GPU4,GPU0: PIX"]


def test_sys_within_a_numa_node_keeps_the_distance_and_is_said() -> None:
    text = " GPU0 GPU1 CPU Affinity NUMA Affinity\nGPU0 X SYS 0-127 0\nGPU1 SYS X 0-127 0\n"
    imported = read_topo_m(text, file="t")
    assert "numa_contradicts_level" in codes(imported)
    assert said(text, imported) == []
    assert {d.numa for d in imported.fabric.of_kind("cpu")} == {None}


def test_unknown_places_are_not_invented() -> None:
    text = " GPU0 GPU1 CPU Affinity NUMA Affinity\nGPU0 X NV2 0-23 N/A\nGPU1 NV2 X 0-23 N/A\n"
    imported = read_topo_m(text, file="t")
    assert {d.kind for d in imported.fabric.devices} == {"gpu"}
    assert codes(imported) == ["place_unknown"]


@pytest.mark.parametrize("affinity", ["3 2", "0-15 2"])
def test_one_cpu_for_all_gpus_is_a_cpuset(affinity: str) -> None:
    text = f" GPU0 GPU1 CPU Affinity NUMA Affinity\nGPU0 X PHB {affinity}\nGPU1 PHB X {affinity}\n"
    assert ("affinity_restricted" in codes(read_topo_m(text, file="t"))) == (affinity == "3 2")


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(hosts())
def test_what_a_host_prints_imports_to_the_same_matrix(host: Fabric) -> None:
    if not (host.of_kind("gpu")):
        return
    cells = topo_matrix(host, "n0")
    imported = read_topo_m(render(cells), file="t")
    assert topo_matrix(imported.fabric, "n0").cells == cells.cells
    serious = {"nvlink_wiring_undecided", "place_unknown", "nvlink_absent", "gpu_nic_all_sys"}
    assert set(codes(imported)) <= serious | {"nvlink_counts_uneven", "affinity_restricted"}


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_mangled_matrix_is_imported_or_refused(data: st.DataObject) -> None:
    try:
        imported = read_topo_m(data.draw(mangled(DGX)), file="t")
    except UsageError as error:
        assert str(error).startswith("t")
    else:
        topo_matrix(imported.fabric, "n0")


def test_what_nics_say_of_each_other_yields_to_the_gpus_rows() -> None:
    """NIC-NIC cells NODE across sockets, as a flattened PCI tree prints them."""
    columns = [f"GPU{i}" for i in range(8)] + [f"NIC{i}" for i in range(8)]

    def cell(a: str, b: str) -> str:
        i, j = int(a[3:]), int(b[3:])
        if a == b:
            return "X"
        if a[:3] == b[:3]:
            return "NV18" if a[0] == "G" else "NODE"
        return "PXB" if i == j else "NODE" if i // 4 == j // 4 else "SYS"

    head = " ".join(columns) + " CPU Affinity NUMA Affinity\n"
    rows = []
    for a in columns:
        socket = int(a[3:]) // 4
        affinity = f" {socket * 56}-{socket * 56 + 55} {socket}" if a[0] == "G" else ""
        rows.append(f"{a} " + " ".join(cell(a, b) for b in columns) + affinity)
    text = head + "\n".join(rows) + "\n"
    imported = read_topo_m(text, file="t")
    assert {d.numa for d in imported.fabric.of_kind("cpu")} == {0, 1}
    assert codes(imported) == ["levels_not_a_tree"]
    across = {f"NIC{i},NIC{j}: NODE" for i in range(8) for j in range(8) if i // 4 != j // 4}
    assert set(said(text, imported)) == across
