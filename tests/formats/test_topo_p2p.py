"""The nvidia-smi topo -p2p matrices."""

from __future__ import annotations

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.formats.topo_p2p import parse_topo_p2p, recognise

TEXT = """$ nvidia-smi topo -p2p r
 \tGPU0\tGPU1\tGPU2\t
 GPU0\tX\tOK\tCNS\t
 GPU1\tOK\tX\tNS\t
 GPU2\tCNS\tNS\tX\t

Legend:

  X    = Self
  OK   = Status Ok
  CNS  = Chipset not supported
$ nvidia-smi topo -p2p w
 \tGPU0\tGPU1\tGPU2\t
 GPU0\tX\tOK\tOK\t
"""


def test_each_matrix_keeps_its_capability_and_its_rows() -> None:
    assert recognise(TEXT)
    read, write = parse_topo_p2p(TEXT, file="t")
    assert (read.capability, write.capability) == ("r", "w")
    assert read.status["GPU1"] == {"GPU0": "OK", "GPU2": "NS"}
    assert list(write.status) == ["GPU0"]
    assert write.line == 13


def test_a_row_whose_x_stands_elsewhere_is_unreadable() -> None:
    (matrix,) = parse_topo_p2p("GPU0 GPU1\nGPU0 OK X\nGPU1 NS X\n", file="t")
    assert matrix.status == {"GPU0": {"GPU1": None}, "GPU1": {"GPU0": "NS"}}


def test_a_machine_with_one_gpu_is_recognised_by_the_legend() -> None:
    text = "\tGPU0\nGPU0\tX\n\nLegend:\n  CNS  = Chipset not supported\n"
    assert recognise(text)
    assert parse_topo_p2p(text, file="t")[0].gpus == ("GPU0",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nothing", "t:1: no matrix"),
        ("GPU0 GPU1\n", "t:1: no matrix"),
        ("\nGPU0 GPU0\nGPU0 X OK\n", "t:2: a GPU twice in one header"),
        (" ".join(f"GPU{i}" for i in range(300)) + "\n", "t:1: 300 devices"),
    ],
)
def test_what_is_no_matrix_is_refused_with_its_line(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_topo_p2p(text, file="t")
    assert str(caught.value).startswith(said)


def test_a_file_that_holds_topo_m_too_is_left_to_topo_m() -> None:
    assert not recognise("  GPU0 GPU1\nGPU0 X NV4\nGPU1 NV4 X\n" + TEXT)
    assert not recognise("GPU0 X PIX\nGPU1 PIX X\n")
