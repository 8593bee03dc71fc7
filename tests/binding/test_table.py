"""The report people read."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from clusterlab.binding.look import Nic
from clusterlab.binding.rules import diagnose
from clusterlab.binding.table import WIDTH, core_list, report_lines, table_lines
from tests.binding.machines import look, uuid

NICS = (Nic("mlx5_0", 0, distance="PIX", near=True), Nic("mlx5_1", 1, distance="SYS"))


def test_one_line_per_rank_from_host_to_nic() -> None:
    looks = [look(rank, nics=NICS) for rank in range(8)]
    lines = table_lines(looks)
    assert lines[0].split() == [
        "rank", "host", "local", "visible", "GPU", "NUMA", "cores", "NUMA", "NICs"
    ]  # fmt: skip
    assert lines[6].split() == [
        "5",
        "n1",
        "1",
        "0,1,2,3",
        "0000:20:00.0",
        "0",
        "4-7",
        "0",
        "mlx5_0",
        "PIX",
    ]
    assert len(lines) == 9


def test_a_healthy_job_says_that_nothing_was_found() -> None:
    lines = report_lines([look(rank) for rank in range(8)], [], [])
    assert lines[0] == "# clusterlab doctor: 8 ranks on 2 hosts (n[0-1]), identity from pmix"
    assert lines[-1] == "# no findings"


def test_findings_come_with_evidence_and_fix() -> None:
    there = [look(rank) for rank in range(7)]
    text = "\n".join(report_lines(there, [7], diagnose(there, [7])))
    assert "7 of 8 ranks on 2 hosts" in text
    assert "fatal RANK_MISSING (rank 7)" in text
    assert "\n  rank 7 of 8 did not arrive\n" in text
    assert "\n  fix: see what the missing ranks printed" in text


def test_notes_are_said_once_with_their_ranks() -> None:
    looks = [look(rank, notes=("half blind",) if rank != 2 else ()) for rank in range(4)]
    assert "# ranks [0-1,3]: half blind" in report_lines(looks, [], [])
    assert "# all ranks: SLURM_JOB_ID=7" in report_lines(looks, [], [], environment=True)
    assert "# all ranks: SLURM_JOB_ID=7" not in report_lines(looks, [], [])


def test_what_is_unknown_unset_or_absent_is_told_apart() -> None:
    looks = [
        look(0, gpu=None, mask=None, visible_count=None),
        look(1, gpu=None, mask="", visible_count=0),
        look(2, gpu=None, problem="x"),
        look(3, gpu=None, nics=NICS[1:]),
    ]
    cells = [line.split() for line in table_lines(looks)[1:]]
    assert [c[3] for c in cells[:2]] == ["unset", '""']
    assert [c[4] for c in cells] == ["?", "-", "none", "?"]
    assert cells[3][-2:] == ["1", "here"]


@given(
    st.text("abc-.", min_size=1, max_size=120),
    st.lists(st.integers(0, 500), unique=True, min_size=1),
    st.integers(0, 12),
)
def test_no_line_is_wider_than_the_page(host: str, cores: list[int], gpus: int) -> None:
    wide = replace(
        look(0),
        host=host,
        rank=131071,
        cores=tuple(sorted(cores)),
        numa=tuple(range(0, 16, 2)),
        mask=",".join(uuid(i) for i in range(gpus)),
        nics=tuple(Nic(f"mlx5_bond_{i}", near=True, distance="NODE") for i in range(10)),
    )
    lines = report_lines([wide, look(1)], [2], diagnose([wide], [2]), environment=True)
    assert max(map(len, lines)) <= WIDTH


def test_core_lists_are_the_kernels() -> None:
    assert core_list((0, 1, 2, 3, 8)) == "0-3,8"
    assert core_list(()) == ""
