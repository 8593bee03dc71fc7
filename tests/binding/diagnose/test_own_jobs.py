"""Fixes for jobs as people start them: their own options stay, no line leads into the next fault."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from clusterlab.binding.diagnose.absent import with_absent_ranks
from clusterlab.binding.records import Container, load_record, read_record
from clusterlab.core.errors import UsageError
from tests.binding.diagnose.jobs import codes, job

CVD = "CUDA_VISIBLE_DEVICES"


def slurm(rank: int, local: int, **more: str) -> dict[str, str]:
    own = {"SLURM_PROCID": str(rank), "SLURM_LOCALID": str(local), "SLURM_STEP_NUM_TASKS": "4"}
    return own | {"SLURM_STEP_ID": "0"} | more


def test_closest_is_replaced_by_a_map_in_the_order_of_the_tasks_cpus() -> None:
    first, second = job().ranks[0].visible[:2], job().ranks[0].visible[2:]  # type: ignore[index]
    record = job(
        slurm,
        launcher="srun -n4 -c7 --gpu-bind=closest",
        change=lambda r: replace(
            r,
            visible=second if (r.local_rank or 0) % 2 == 0 else first,
            cpus=frozenset(range(16, 32) if (r.local_rank or 0) % 2 == 0 else range(16)),
            selected_device=0,
        ),
    )
    fix = codes(record)["GPU_BIND_CLOSEST_MULTI"].fix.splitlines()[0]
    assert "map_gpu:2,0,3,1" in fix and "single" not in fix and "--cpus-per-task=7" in fix


def test_one_mask_for_all_ranks_is_unset_and_no_rank_is_told_to_take_ordinal_0() -> None:
    record = job(
        lambda rank, local: slurm(rank, local, **{CVD: "0"}),
        change=lambda r: replace(
            r,
            visible=(r.visible or ())[:1],
            selected_device=r.local_rank,
            parent_env={CVD: "0"},
        ),
    )
    found = codes(record)["CVD_LOCAL_RANK_MISMATCH"]
    assert found.fix.startswith(f"unset {CVD}\nsrun") and "set_device(0)" not in found.fix
    assert f"ranks 0-3: {CVD}=0 is inherited from the launching shell" in found.evidence


def test_masks_of_cores_cover_the_step_and_every_local_rank_or_are_not_given() -> None:
    far = job(slurm, change=lambda r: replace(r, cpus=frozenset({(r.local_rank or 0) ^ 31})))
    fix = codes(far)["CPU_NUMA_REMOTE"].fix
    assert "--cpus-per-task=8 --exclusive" in fix and fix.count("0x") == 4
    less = replace(far, ranks=(*far.ranks[:1], *far.ranks[2:]))
    fix = codes(less)["CPU_NUMA_REMOTE"].fix
    assert "mask_cpu" not in fix and "local rank 1" in fix


def test_a_list_of_cores_of_the_step_itself_is_not_called_inherited() -> None:
    record = job(
        lambda r, local: slurm(r, local, SLURM_CPU_BIND="quiet,map_cpu:0", SLURM_CPUS_PER_TASK="2"),
        change=lambda r: replace(r, cpus=frozenset({0})),
    )
    found = codes(record)
    assert "CPU_MASK_INHERITED" not in found
    fix = found["CPU_SINGLE_CORE"].fix
    assert "without --cpu-bind=map_cpu:0" in fix and "--cpus-per-task=2 " in fix


@pytest.mark.parametrize(
    ("runtime", "words"),
    [("apptainer", "--nv"), ("docker", "--gpus all"), ("podman", "nvidia.com/gpu=all")],
)
def test_a_container_without_gpus_is_given_them(runtime: str, words: str) -> None:
    record = job(
        lambda rank, local: slurm(rank, local, **{CVD: "0,1,2,3"}),
        change=lambda r: replace(
            r, visible=(), openable=(), selected_device=None, container=Container(runtime)
        ),
    )
    found = codes(record)
    assert words in found["CVD_STALE_INDEX_SPACE"].fix and words in found["CVD_EMPTY"].fix


def test_ranks_that_the_launcher_counted_and_the_record_lacks_are_missing() -> None:
    whole = job(slurm)
    assert with_absent_ranks(whole) == whole
    part = replace(whole, ranks=(*whole.ranks[:2], whole.ranks[3]))
    assert with_absent_ranks(part).missing_ranks == (2,)
    said = replace(part, missing_ranks=(7,))
    assert with_absent_ranks(said) == said
    exported = job(lambda rank, local: {"RANK": str(rank), "WORLD_SIZE": "8"})
    assert with_absent_ranks(exported).missing_ranks == ()


def test_a_step_without_gpus_on_an_open_node_is_warned_of() -> None:
    record = job(slurm, launcher="srun -n4 python train.py")
    assert codes(record)["CVD_UNSET"].severity == "warning"
    assert "CVD_UNSET" not in codes(job(slurm, launcher="srun -n4 --gpus=4 python train.py"))


def test_no_ranks_is_an_error() -> None:
    with pytest.raises(UsageError, match="no ranks"):
        read_record({"ranks": []}, file="x")


@pytest.mark.parametrize(
    ("second", "word"),
    [
        ("{host: a, rank: 0, env: {}}", "rank 0"),
        ("{host: a, rank: 1, env: {SLURM_JOB_ID: '8'}}", "job 8"),
    ],
)
def test_a_folder_of_unrelated_records_is_refused(tmp_path: Path, second: str, word: str) -> None:
    (tmp_path / "a.yaml").write_text("ranks: [{host: a, rank: 0, env: {SLURM_JOB_ID: '7'}}]\n")
    (tmp_path / "b.yaml").write_text(f"ranks: [{second}]\n")
    with pytest.raises(UsageError, match=word):
        load_record(tmp_path)


def test_spawners_that_each_chose_a_port_are_one_fault_with_their_nesting() -> None:
    def nested(rank: int, local: int) -> dict[str, str]:
        own = {"RANK": str(local % 2), "LOCAL_RANK": str(local % 2), "WORLD_SIZE": "2"}
        torch = {"TORCHELASTIC_RUN_ID": "none", "GROUP_RANK": "0", "LOCAL_WORLD_SIZE": "4"}
        master = {"MASTER_ADDR": "n0", "MASTER_PORT": str(40000 + local // 2)}
        task = {"SLURM_PROCID": str(local // 2), "SLURM_LOCALID": str(local // 2)}
        return own | torch | master | task

    found = codes(job(nested))
    assert found["LAUNCHER_NESTED"].caused_by is None
    assert found["MASTER_ADDR_WRONG"].caused_by == "LAUNCHER_NESTED"


def test_the_doctor_in_a_programs_place_says_what_a_program_would_do() -> None:
    def one(identity_from: str | None) -> str:
        record = job(
            slurm,
            change=lambda r: replace(r, visible=(r.visible or ())[:1], identity_from=identity_from),
        )
        return codes(record)["CVD_LOCAL_RANK_MISMATCH"].evidence[0]

    assert "would select 1" in one("SLURM_PROCID") and "selects ordinal 1" in one(None)
