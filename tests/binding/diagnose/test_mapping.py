"""Rules about which rank drives which GPU, and what Slurm's binding did."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clusterlab.binding.records import RankRecord, Slurm
from clusterlab.core.findings import Severity
from tests.binding.diagnose.jobs import (
    codes,
    job,
    loud,
    mpi_env,
    node,
    own_gpu,
    slurm_env,
    torch_env,
)

GPUS = node("n0").gpus
EVERYTHING = tuple(g.pci for g in GPUS)


def test_two_ranks_on_one_gpu_and_the_idle_one_that_follows() -> None:
    record = job(torch_env, change=lambda r: replace(r, selected_device=max(r.rank, 1)))
    found = codes(record)
    assert found["GPU_SHARED_BY_RANKS"].ranks == (0, 1)
    assert GPUS[1].pci in found["GPU_SHARED_BY_RANKS"].evidence[0]
    assert found["GPU_IDLE"].caused_by == "GPU_SHARED_BY_RANKS"


def test_equal_addresses_on_two_hosts_and_equal_gpus_of_two_jobs_are_no_sharing() -> None:
    hosts = job(lambda r, i: torch_env(r, i, size=8), hosts=("n0", "n1"))
    assert loud(hosts) == []
    jobs = job(
        lambda r, i: {"SLURM_JOB_ID": str(r), "WORLD_SIZE": "1", "CUDA_VISIBLE_DEVICES": "0"},
        per_node=2,
        change=lambda r: replace(
            own_gpu(r), rank=0, local_rank=0, openable=(own_gpu(r).visible or ())[:1]
        ),
    )
    assert loud(jobs) == []


def test_sharing_through_mps_is_meant_until_nccl_refuses() -> None:
    record = job(lambda r, i: mpi_env(r, i, CUDA_MPS_PIPE_DIRECTORY="/tmp/mps"), selected_device=0)
    assert codes(record)["GPU_SHARED_BY_RANKS"].severity is Severity.INFO


def test_more_ranks_than_visible_gpus() -> None:
    record = job(
        torch_env, change=lambda r: replace(r, visible=EVERYTHING[:2], selected_device=r.rank)
    )
    assert "GPU_SHARED_BY_RANKS" in codes(record)


def test_ranks_that_stay_on_ordinal_zero_although_told_their_local_ranks() -> None:
    finding = codes(job(mpi_env, selected_device=0))["DEVICE_NOT_SET"]
    assert "OMPI_COMM_WORLD_LOCAL_RANK" in finding.fix


def test_a_record_that_does_not_say_what_ranks_select_accuses_nobody() -> None:
    assert loud(job(slurm_env, selected_device=None)) == []
    asked = job(slurm_env, selected_device=None, launcher="srun -n4 --gpus-per-task=1 ./app")
    assert "DEVICE_NOT_SET" in loud(asked)


def test_contexts_on_ordinal_zero() -> None:
    record = job(torch_env, change=lambda r: replace(r, contexts=(0, r.rank)))
    assert codes(record)["DEVICE_NOT_SET"].ranks == (1, 2, 3)
    assert loud(job(torch_env, change=lambda r: replace(r, contexts=(r.rank,)))) == []


@pytest.mark.parametrize("modulus", [4, 8])
def test_devices_by_global_rank_with_uneven_hosts(modulus: int) -> None:
    uneven = job(
        hosts=("n0", "n1"),
        per_node=3,
        change=lambda r: replace(r, selected_device=r.rank % modulus, cpus=None),
    )
    found = codes(uneven)
    assert "RANK_MODULO_MISMAP" in found
    even = job(hosts=("n0", "n1"), change=lambda r: replace(r, selected_device=r.rank % 4))
    assert loud(even) == []


def test_what_a_process_leaves_idle_when_it_says_what_it_uses() -> None:
    record = job(per_node=1, used=EVERYTHING[:1])
    assert "GPU_IDLE" in loud(record)
    assert loud(job(per_node=1, used=EVERYTHING)) == []


BIND_ERROR = (
    "Bind request gpu:map_gpu:7,6 does not specify any devices within the allocation for task 0."
)


def test_a_bind_error_counts_only_where_tasks_share_a_gpu() -> None:
    shared = job(slurm_env, visible=EVERYTHING[:1], selected_device=0, error=BIND_ERROR)
    assert codes(shared)["GPU_SHARED_BY_RANKS"].caused_by == "GPU_BIND_OUT_OF_ALLOC"
    apart = job(slurm_env, change=own_gpu, error=BIND_ERROR)
    assert "GPU_BIND_OUT_OF_ALLOC" not in codes(apart)


def test_bind_ids_beyond_a_constrained_allocation_without_any_message() -> None:
    record = job(
        slurm_env,
        visible=EVERYTHING[:1],
        selected_device=0,
        launcher="srun -n4 --gpus=4 --gpu-bind=map_gpu:4,5,6,7",
        slurm=Slurm(constrain_devices=True),
    )
    finding = codes(record)["GPU_BIND_OUT_OF_ALLOC"]
    assert "map_gpu:0,1,2,3" in finding.fix


def test_a_mask_without_0x_is_said_to_be_decimal() -> None:
    record = job(slurm_env, change=own_gpu, launcher="srun --gpu-bind=mask_gpu:10,20 ./app")
    assert codes(record)["GPU_BIND_OUT_OF_ALLOC"].severity is Severity.INFO
    hexadecimal = job(slurm_env, change=own_gpu, launcher="srun --gpu-bind=mask_gpu:0x1,0x2 ./app")
    assert "GPU_BIND_OUT_OF_ALLOC" not in codes(hexadecimal)


def test_closest_gives_each_task_its_whole_domain() -> None:
    def near(rank: RankRecord) -> RankRecord:
        half = 2 * (rank.rank // 2)
        return replace(rank, visible=EVERYTHING[half : half + 2], selected_device=0)

    asked = job(slurm_env, change=near, launcher="srun -n4 --gpu-bind=closest ./app")
    assert codes(asked)["GPU_SHARED_BY_RANKS"].caused_by == "GPU_BIND_CLOSEST_MULTI"
    unsaid = job(slurm_env, change=near)
    assert "GPU_BIND_CLOSEST_MULTI" in codes(unsaid)
    one_each = job(slurm_env, per_node=1, change=near, launcher="srun --gpu-bind=closest ./app")
    assert loud(one_each) == []


def isolated(rank: RankRecord) -> RankRecord:
    alone = own_gpu(rank)
    return replace(alone, openable=alone.visible)


def test_isolation_is_information_until_something_complains() -> None:
    quiet = codes(job(slurm_env, change=isolated))
    assert quiet["IPC_ISOLATED"].severity is Severity.INFO
    failing = codes(job(slurm_env, change=isolated, error="cuIpcOpenMemHandle: invalid argument"))
    assert failing["IPC_ISOLATED"].severity is Severity.FATAL
    soft = job(slurm_env, change=lambda r: replace(own_gpu(r), openable=EVERYTHING))
    assert codes(soft) == {}


@pytest.mark.parametrize(
    ("version", "cure"),
    [("23.11.4", "allow-task-sharing"), ("22.05", "CUDA_VISIBLE_DEVICES=$SLURM_LOCALID")],
)
def test_the_cure_of_isolation_is_right_for_the_version(version: str, cure: str) -> None:
    record = job(slurm_env, change=isolated, slurm=Slurm(constrain_devices=True, version=version))
    fix = codes(record)["IPC_ISOLATED"].fix
    assert cure in fix and ("allow-task-sharing" in fix) == (version > "23")


def test_step_gpus_that_name_another_gpu_are_information() -> None:
    record = job(lambda r, i: slurm_env(r, i, SLURM_STEP_GPUS="0"), change=isolated)
    finding = codes(record)["STEP_GPUS_UNRELIABLE"]
    assert finding.ranks == (1, 2, 3) and finding.severity is Severity.INFO
    unbound = job(lambda r, i: slurm_env(r, i, SLURM_STEP_GPUS="0,1,2,3"))
    assert codes(unbound) == {}
