"""The report people read."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.binding.diagnose import diagnose
from clusterlab.binding.filters import filter_lines, matches
from clusterlab.binding.records import NicRecord
from clusterlab.binding.table import WIDTH, finding_lines, record_lines
from clusterlab.binding.table_hosts import short_hosts
from clusterlab.core.findings import Finding, Severity
from tests.binding.machines import rank_record, record, uuid
from tests.binding.pages import too_wide

HEALTHY = [rank_record(rank) for rank in range(8)]


def test_one_line_per_rank_from_host_to_nic() -> None:
    ranks = [replace(r, nearest_nics=("mlx5_0 PIX", "mlx5_1 PIX")) for r in HEALTHY]
    lines = record_lines(record(*ranks), [])
    assert lines[0] == "# clusterlab doctor: 8 ranks on 2 hosts (n[0-1]), identity from pmix"
    assert lines[1].split() == [
        "rank", "host", "local", "visible", "GPU", "GPU", "NUMA", "cores", "core", "NUMA", "NIC"
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
    assert "\n  fix:\n" in text
    assert "\n# hosts with fewer ranks than others: n1 (3 of 4)\n" in text


def test_the_commands_of_a_fix_are_not_broken_and_its_prose_is_wrapped() -> None:
    command = "srun --cpu-bind=mask_cpu:" + ",".join(["0xffff000000000000"] * 12) + " ./train"
    prose = "16 cores for each task " * 9
    fix = f"unset CUDA_VISIBLE_DEVICES\n{command}\n# {prose}"
    lines = finding_lines([Finding("CPU_SINGLE_CORE", Severity.ERROR, (), fix, ranks=(0,))])
    assert lines[0].startswith("error CPU_SINGLE_CORE")
    assert lines[1:4] == ["  fix:", "    unset CUDA_VISIBLE_DEVICES", f"    {command}"]
    assert len(lines) > 5
    assert all(line.startswith("    # ") and len(line) <= WIDTH for line in lines[4:])


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        (["n0", "n1"], ["n0", "n1"]),
        (
            ["gpu-0017.cluster.example.com", "gpu-0018.cluster.example.com"],
            ["gpu-0017", "gpu-0018"],
        ),
        (["supercomputer-rack1-node097", "supercomputer-rack1-node104"], ["…097", "…104"]),
        (["supercomputer-rack1-node097"], ["sup…node097"]),
        (
            ["abcdefghijklmnop1", "qrstuvwxyzabcdef2"],
            ["abc…klmnop1", "qrs…abcdef2"],
        ),
    ],
)
def test_long_hosts_keep_what_tells_them_apart(hosts: list[str], expected: list[str]) -> None:
    assert short_hosts(hosts, 11) == expected


def test_a_long_list_of_hosts_is_not_broken_inside_a_name() -> None:
    ranks = [replace(HEALTHY[0], rank=i, host=f"worker-{'abcdefgh'[i]}") for i in range(8)]
    lines = record_lines(replace(record(HEALTHY[0]), ranks=tuple(ranks)), [])
    text = " ".join(line for line in lines if line.startswith("# "))
    assert all(rank.host in text for rank in ranks)


def test_notes_are_said_once_with_their_ranks() -> None:
    ranks = [replace(r, notes=("half blind",) if r.rank != 2 else ()) for r in HEALTHY[:4]]
    lines = record_lines(record(*ranks), [])
    assert "# ranks [0-1,3]: half blind" in lines


def test_variables_that_decide_are_said_once_in_groups() -> None:
    ranks = [
        replace(r, env={"SLURM_PROCID": str(r.rank), "OMP_NUM_THREADS": "4", "SLURM_JOB_ID": "7"})
        for r in HEALTHY[:4]
    ]
    ranks[3] = replace(ranks[3], env={**ranks[3].env, "NCCL_DEBUG": "INFO", "OMP_NUM_THREADS": "1"})
    lines = record_lines(record(*ranks), [], environment=True)
    shown = [line for line in lines if line.startswith("#")][1:-1]
    assert shown == [
        "# identity:",
        "#   SLURM_PROCID=the rank",
        "# cores:",
        "#   OMP_NUM_THREADS=4 (ranks [0-2]), 1 (rank 3)",
        "# network:",
        "#   NCCL_DEBUG=INFO (rank 3)",
    ]


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
    assert too_wide(lines, WIDTH) == []
