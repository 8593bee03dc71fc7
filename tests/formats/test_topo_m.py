"""The nvidia-smi topo -m matrix in the forms that drivers print and people paste."""

from __future__ import annotations

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.formats.topo_m import parse_topo_m, recognise

TABS = (
    "\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tNV12\tPXB\t0-55,112-167\t0\t\tN/A\n"
    "GPU1\tNV12\t X \tSYS\t\t1\t\tN/A\n"
    "NIC0\tPXB\tSYS\t X \t\t\t\t\n"
    "\nLegend:\n\n  X    = Self\n  PIX  = Connection traversing at most a single PCIe bridge\n"
    "\nNIC Legend:\n\n  NIC0: mlx5_0\n"
)


def test_tabs_escapes_and_an_empty_affinity_keep_their_places() -> None:
    matrix = parse_topo_m(TABS, file="t")
    assert matrix.columns == ("GPU0", "GPU1", "NIC0")
    assert matrix.rows["GPU0"].cells == ("X", "NV12", "PXB")
    assert (matrix.rows["GPU0"].cpus, matrix.rows["GPU0"].numa) == ("0-55,112-167", "0")
    assert (matrix.rows["GPU1"].cpus, matrix.rows["GPU1"].numa) == (None, "1")
    assert matrix.rows["GPU1"].gpu_numa == "N/A"
    assert matrix.nic_names == {"NIC0": "mlx5_0"}
    assert matrix.problems == ()


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.expandtabs(8),
        lambda t: "\n".join("#   " + line for line in t.split("\n")),
        lambda t: "\n".join("   " + line for line in t.split("\n")),
        lambda t: "\n".join("> " + line for line in t.split("\n")),
        lambda t: t.replace("\n", "\r\n"),
        lambda t: t.replace("\t", "\t\t"),
        lambda t: "\ufeff$ nvidia-smi topo -m\n" + t,
        lambda t: t.replace("CPU Affinity", "CPU    Affinity"),
        lambda t: t.replace("NUMA Affinity", "NUMA"),
        lambda t: t.lstrip(),
        lambda t: t.replace("GPU1\tNIC0", "GPU1NIC0").replace("NV12\tPXB", "NV12PXB"),
    ],
)
def test_pasted_forms_give_the_same_cells(change: object) -> None:
    text = change(TABS)  # type: ignore[operator]
    assert recognise(text)
    matrix = parse_topo_m(text, file="t")
    assert matrix.columns == ("GPU0", "GPU1", "NIC0")
    assert [r.cells for r in matrix.rows.values()] == [
        ("X", "NV12", "PXB"),
        ("NV12", "X", "SYS"),
        ("PXB", "SYS", "X"),
    ]
    assert matrix.rows["GPU0"].cpus == "0-55,112-167"


def test_rows_that_the_terminal_wrapped_are_joined() -> None:
    text = "GPU0 GPU1 GPU2 GPU3\nGPU0 X SYS\nSYS SYS\nGPU1 SYS X SYS SYS\n"
    matrix = parse_topo_m(text, file="t")
    assert matrix.rows["GPU0"].cells == ("X", "SYS", "SYS", "SYS")


def test_a_word_that_may_be_cpus_or_numa_is_not_guessed() -> None:
    text = "GPU0 GPU1 CPU Affinity NUMA Affinity GPU NUMA ID\nGPU0 X SYS 1 N/A\nGPU1 SYS X 64-127 N/A\n"
    matrix = parse_topo_m(text, file="t")
    assert (matrix.rows["GPU0"].cpus, matrix.rows["GPU0"].numa) == (None, None)
    assert [p.kind for p in matrix.problems] == ["affinity"]
    assert matrix.rows["GPU1"].cpus == "64-127"  # no NUMA node is called 127


def test_missing_rows_are_missing_and_a_second_matrix_is_counted() -> None:
    text = "  GPU0 GPU1 GPU2\nGPU0 X SYS PIX\nGPU2 PIX SYS X\n\nnode2:\n  GPU0 GPU1\nGPU0 X SYS\nGPU1 SYS X\n"
    matrix = parse_topo_m(text, file="t")
    assert list(matrix.rows) == ["GPU0", "GPU2"]
    assert matrix.cell("GPU1", "GPU0") is None
    assert matrix.cell("GPU0", "GPU1") == "SYS"
    assert matrix.more_matrices == 1


def test_without_a_header_the_x_of_each_row_names_its_column() -> None:
    text = "GPU0 X PHB SYS 0-31 0\nGPU1 PHB X SYS 0-31 0\n"
    matrix = parse_topo_m(text, file="t")
    assert not matrix.has_header
    assert matrix.columns == ("GPU0", "GPU1")
    assert matrix.cell("GPU0", "GPU1") == "PHB"


def test_a_row_whose_x_stands_elsewhere_loses_its_cells() -> None:
    text = "GPU0 GPU1 GPU2\nGPU0 X SYS PIX\nGPU1 X PIX SYS\nGPU2 PIX SYS X\n"
    matrix = parse_topo_m(text, file="t")
    assert matrix.rows["GPU1"].cells == (None, None, None)
    assert [(p.kind, p.line) for p in matrix.problems] == [("misaligned", 3)]


def test_unreadable_and_torn_cells_are_unknown_and_said() -> None:
    text = "GPU0 GPU1 GPU2\nGPU0 X P1X NV999\nGPU1 SYS X\nGPU2 SYS SYS X\n"
    matrix = parse_topo_m(text, file="t")
    assert matrix.rows["GPU0"].cells == ("X", None, None)
    assert matrix.rows["GPU1"].cells == ("SYS", "X", None)
    assert [p.kind for p in matrix.problems] == ["unreadable", "unreadable", "torn"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "t:1: no matrix of nvidia-smi topo -m"),
        ("GPU0 GPU1 CPU Affinity\n", "t:1: a header of nvidia-smi topo -m without a row"),
        ("GPU0 GPU1 GPU0\nGPU0 X SYS X\n", "t:1: two columns are called 'GPU0'"),
        (" ".join(f"GPU{i}" for i in range(300)) + "\nGPU0 X\n", "t:1: 300 devices"),
    ],
)
def test_what_is_no_matrix_is_refused_with_its_line(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_topo_m(text, file="t")
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n" * 100_000,
        "GPU0 GPU1\nGPU0 X OK\nGPU1 OK X\nLegend:\n  CNS  = Chipset not supported\n",
        "       GPU0  GPU1\nGPU0   0     15\nGPU1   15    0\n",
        "GPU 0: NVIDIA H100 (UUID: GPU-1)\n  Link 0: 26.562 GB/s\n",
        "#       size         count      type   redop    root     time   algbw   busbw\n",
        "GPU0 and GPU1 see each other as SYS; X marks the spot",
    ],
)
def test_other_files_are_not_claimed(text: str) -> None:
    assert not recognise(text)


def test_a_machine_with_one_gpu_is_recognised_by_its_affinity_column() -> None:
    assert recognise("\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-63\t0\n")
