"""The tables of rocm-smi --showtopo."""

from __future__ import annotations

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.formats.rocm_smi import parse_rocm_smi, recognise

TEXT = """
======================= ROCm System Management Interface =======================
=========================== Weight between two GPUs ============================
       GPU0         GPU1
GPU0   0            15
GPU1   15           0

============================ Hops between two GPUs =============================
       GPU0         GPU1
GPU0   0            1
GPU1   1
========================== Link Type between two GPUs ==========================
       GPU0         GPU1
GPU0   0            XGMI
GPU1   XGMI         0
================================== Numa Nodes ==================================
GPU[0]\t\t: (Topology) Numa Node: 1
GPU[0]\t\t: (Topology) Numa Affinity: 3
GPU 1          : (Topology) Numa Affinity: -1
============================= End of ROCm SMI Log ==============================
"""


def test_tables_numa_nodes_and_torn_rows() -> None:
    assert recognise(TEXT)
    found = parse_rocm_smi(TEXT, file="t")
    assert found.gpus == (0, 1)
    assert found.tables["weight"] == {(0, 1): "15", (1, 0): "15"}
    assert found.tables["hops"] == {(0, 1): "1"}
    assert found.tables["link_type"][1, 0] == "XGMI"
    assert found.numa == {0: 1, 1: None}
    assert found.torn == (11,)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "t:1: no GPU of rocm-smi --showtopo"),
        ("== Hops between two GPUs ==\nGPU0 GPU0\n", "t:2: a GPU twice in one header"),
    ],
)
def test_what_is_no_table_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_rocm_smi(text, file="t")
    assert str(caught.value).startswith(said)


def test_other_files_are_not_claimed() -> None:
    assert not recognise("  GPU0 GPU1\nGPU0 X PIX\nGPU1 PIX X\n")
