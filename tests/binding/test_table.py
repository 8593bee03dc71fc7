"""The report people read."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.binding.diagnose import diagnose
from clusterlab.binding.filters import filter_lines, matches
from clusterlab.binding.records import NicRecord
from clusterlab.binding.table import WIDTH, record_lines
from tests.binding.machines import rank_record, record, uuid

HEALTHY = [rank_record(rank) for rank in range(8)]


def test_one_line_per_rank_from_host_to_nic() -> None:
    ranks = [replace(r, nearest_nics=("mlx5_0 PIX", "mlx5_1 PIX")) for r in HEALTHY]
    lines = record_lines(record(*ranks), [])
    assert lines[0] == "# clusterlab doctor: 8 ranks on 2 hosts (n[0-1]), identity from pmix"
    assert lines[1].split() == [
        "rank", "host", "local", "visible", "GPU", "NUMA", "cores", "NUMA", "NIC"
    ]  # fmt: skip
    assert lines[7].split() == [
        "5", "n1", "1", "0,1,2,3", "0000:20:00.0", "0", "4-7", "0", "mlx5_0,mlx5_1", "PIX"
    ]  # fmt: skip
    assert len(lines) == 11
    assert lines[-1] == "# no findings"


def test_findings_come_with_evidence_and_fix() -> None:
    joined = record(*HEALTHY[:7], missing=[7])
    text = "\n".join(record_lines(joined, diagnose(joined)))
    assert "7 ranks, 1 missing on 2 hosts" in text
    assert "fatal RANK_MISSING (rank 7)" in text
    assert "\n  fix: see what they printed" in text


def test_notes_are_said_once_with_their_ranks() -> None:
    ranks = [replace(r, notes=("half blind",) if r.rank != 2 else ()) for r in HEALTHY[:4]]
    lines = record_lines(record(*ranks), [])
    assert "# ranks [0-1,3]: half blind" in lines
    assert "# all ranks: SLURM_JOB_ID=7" not in lines
    assert "# all ranks: SLURM_JOB_ID=7" in record_lines(record(*ranks), [], environment=True)


@pytest.mark.parametrize(
    ("variable", "text", "expected"),
    [
        ("NCCL_IB_HCA", "mlx5", ["mlx5_1", "mlx5_10"]),
        ("NCCL_IB_HCA", "mlx5_1", ["mlx5_1", "mlx5_10"]),
        ("NCCL_IB_HCA", "=mlx5_1:1", ["mlx5_1"]),
        ("NCCL_IB_HCA", "^mlx5_1", ["bnxt_re0"]),
        ("NCCL_IB_HCA", "^=mlx5_1", ["mlx5_10", "bnxt_re0"]),
        ("GLOO_SOCKET_IFNAME", "mlx5", []),
        ("GLOO_SOCKET_IFNAME", "mlx5_1,bnxt_re0", ["mlx5_1", "bnxt_re0"]),
    ],
)
def test_filters_are_read_by_the_grammar_of_their_library(
    variable: str, text: str, expected: list[str]
) -> None:
    assert matches(variable, text, ["mlx5_1", "mlx5_10", "bnxt_re0"]) == expected


def test_what_a_filter_matches_is_said_of_the_hosts_own_devices() -> None:
    rank = replace(
        HEALTHY[0],
        env={"NCCL_IB_HCA": "mlx5", "NCCL_SOCKET_IFNAME": "ib"},
        interfaces=("lo", "eth0"),
    )
    joined = record(rank)
    nics = (NicRecord("mlx5_0"), NicRecord("eth0", kind="ethernet"))
    joined = replace(joined, nodes={"n0": replace(joined.nodes["n0"], nics=nics)})
    assert filter_lines(joined, rank) == [
        "NCCL_IB_HCA=mlx5 matches mlx5_0",
        "NCCL_SOCKET_IFNAME=ib matches nothing here (lo, eth0)",
    ]


@given(
    st.text("abc-.", min_size=1, max_size=120),
    st.frozensets(st.integers(0, 500), min_size=1),
    st.integers(0, 12),
    st.text("xyz ", max_size=300),
)
def test_no_line_is_wider_than_the_page(
    host: str, cores: frozenset[int], gpus: int, note: str
) -> None:
    wide = replace(
        HEALTHY[0],
        host=host,
        rank=131071,
        cpus=cores,
        env={"CUDA_VISIBLE_DEVICES": ",".join(uuid(i) for i in range(gpus))},
        nearest_nics=tuple(f"mlx5_bond_{i} NODE" for i in range(10)),
        notes=(note,),
    )
    joined = replace(record(HEALTHY[1]), ranks=(wide, HEALTHY[1]), missing_ranks=(2,))
    lines = record_lines(joined, diagnose(joined), environment=True)
    assert max(map(len, lines)) <= WIDTH
