"""AMD GPUs, their xGMI links and NUMA domains from rocm-smi --showtopo."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.topology.importing.rocm_smi import read_rocm_smi
from clusterlab.topology.matrix import topo_matrix
from tests.formats.test_rocm_smi import TEXT
from tests.topology.importing.mangled import mangled


def table(title: str, *rows: str) -> str:
    names = [f"GPU{i}" for i in range(len(rows))]
    lines = [f"{name} {row}" for name, row in zip(names, rows, strict=True)]
    return "\n".join([f"==== {title} between two GPUs ====", " ".join(names), *lines, ""])


def test_one_hop_of_xgmi_is_a_link_of_unknown_rate() -> None:
    imported = read_rocm_smi(TEXT, file="t")
    links = [k for k in imported.fabric.links if k.link_class == "xgmi"]
    assert [(k.src, k.dst, k.GBps, k.wire_GBps) for k in links] == [
        ("n0/gpu0", "n0/gpu1", None, None),
        ("n0/gpu1", "n0/gpu0", None, None),
    ]
    assert imported.fabric.device("n0/gpu0").numa == 1
    assert {f.code for f in imported.findings} == {"matrix_partial", "place_unknown"}


def test_two_hops_of_xgmi_are_no_link() -> None:
    """Hops say 1 for any way over xGMI; the weight counts 15 a hop."""
    text = table("Weight", "0 15 30", "15 0 15", "30 15 0") + table(
        "Hops", "0 1 1", "1 0 1", "1 1 0"
    )
    imported = read_rocm_smi(text, file="t")
    joined = {(k.src, k.dst) for k in imported.fabric.links if k.src < k.dst}
    assert joined == {("n0/gpu0", "n0/gpu1"), ("n0/gpu1", "n0/gpu2")}
    (finding,) = [f for f in imported.findings if f.code == "xgmi_not_direct"]
    assert finding.evidence[1] == "GPU0, GPU2: weight 30"


def test_hops_over_pcie_tell_the_numa_domain_and_no_more() -> None:
    text = table("Hops", "0 2 3 3", "2 0 3 3", "3 3 0 2", "3 3 2 0")
    fabric = read_rocm_smi(text, file="t").fabric
    assert Counter(d.kind for d in fabric.devices) == {"gpu": 4, "cpu": 2}
    cells = topo_matrix(fabric, "n0")
    assert cells.cell("GPU0", "GPU2") == "SYS"
    assert cells.cell("GPU0", "GPU1") == "PHB"  # they meet at the cpu; how near is not said


def test_gpus_beyond_each_other_hang_on_cpus_of_their_own() -> None:
    """Three hops each way: no two share a NUMA node, whose numbers nobody tells."""
    found = read_rocm_smi(table("Hops", "0 3 3", "3 0 3", "3 3 0"), file="t")
    assert Counter(d.kind for d in found.fabric.devices) == {"gpu": 3, "cpu": 3}
    assert {d.numa for d in found.fabric.devices} == {None}
    cells = topo_matrix(found.fabric, "n0")
    assert {cells.cell(a, b) for a, b in [("GPU0", "GPU1"), ("GPU1", "GPU2")]} == {"SYS"}
    assert [f.code for f in found.findings] == ["numa_numbers_unknown"]


def test_a_gpu_that_no_cell_places_is_said_to_be_without_a_place() -> None:
    text = table("Hops", "0 2 N/A", "2 0 N/A", "N/A N/A 0")
    found = {f.code: f.evidence for f in read_rocm_smi(text, file="t").findings}
    assert found["place_unknown"] == ("n0/gpu2: no NUMA node",)
    assert "numa_numbers_unknown" in found


def test_a_pair_of_a_hive_that_goes_over_pcie_is_named() -> None:
    text = table("Link Type", "0 XGMI XGMI", "XGMI 0 PCIE", "XGMI PCIE 0")
    found = {f.code: f.evidence for f in read_rocm_smi(text, file="t").findings}
    assert found["xgmi_missing"] == ("GPU1, GPU2: PCIE",)
    assert "xgmi_directness_unknown" in found


def test_cells_that_disagree_and_denied_access_are_said() -> None:
    text = table("Weight", "0 15", "40 0") + table("Link accessibility", "True False", "True True")
    found = {f.code: f.evidence for f in read_rocm_smi(text, file="t").findings}
    assert found["cells_asymmetric"] == ("weight: GPU0->GPU1 15, GPU1->GPU0 40",)
    assert found["p2p_denied"][1] == "GPU0->GPU1"


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_mangled_file_is_imported_or_refused(data: st.DataObject) -> None:
    try:
        read_rocm_smi(data.draw(mangled(TEXT)), file="t")
    except UsageError as error:
        assert str(error).startswith("t")
