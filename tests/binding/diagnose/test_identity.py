"""Rules about who a process is, on the variables of many launchers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clusterlab.binding.records import Container, RankRecord
from clusterlab.core.findings import Severity
from tests.binding.diagnose.jobs import codes, job, loud, mpi_env, own_gpu, slurm_env, torch_env


def nested(rank: RankRecord, each: int = 2) -> RankRecord:
    task = rank.rank // each
    env = slurm_env(task, task) | torch_env(rank.rank, rank.rank % each, size=4)
    env |= {"TORCHELASTIC_RUN_ID": "x", "LOCAL_WORLD_SIZE": str(each), "GROUP_RANK": str(task)}
    return replace(rank, env=env, local_rank=rank.rank % each, selected_device=rank.rank % each)


def test_a_spawner_in_every_task_and_what_follows() -> None:
    found = codes(job(change=nested))
    assert found["GPU_SHARED_BY_RANKS"].caused_by == "LAUNCHER_NESTED"
    assert "--ntasks-per-node=1" in found["LAUNCHER_NESTED"].fix


def test_one_spawner_per_socket_with_gpus_of_its_own_is_fine() -> None:
    def halves(rank: RankRecord) -> RankRecord:
        first = 2 * (rank.rank // 2)
        return replace(nested(rank), visible=(rank.visible or ())[first : first + 2])

    assert "LAUNCHER_NESTED" not in codes(job(change=halves))


def test_torchrun_in_a_task_of_its_own_differs_from_slurm_rightly() -> None:
    record = job(lambda r, i: slurm_env(0, 0) | torch_env(r, i), launcher="srun -n1 torchrun")
    assert loud(record) == []


def test_launchers_that_disagree_on_each_process() -> None:
    record = job(lambda r, i: mpi_env(r, i) | {"LOCAL_RANK": "0"}, selected_device=0)
    found = codes(record)
    assert found["GPU_SHARED_BY_RANKS"].caused_by == "IDENTITY_CONFLICT"
    assert "LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK" in found["IDENTITY_CONFLICT"].fix


def test_local_rank_zero_for_the_one_device_a_task_sees_is_no_conflict() -> None:
    record = job(lambda r, i: slurm_env(r, i) | torch_env(r, 0), change=own_gpu)
    assert loud(record) == []


def test_mpi_variables_of_the_launching_shell() -> None:
    env = {
        "OMPI_COMM_WORLD_RANK": "0",
        "OMPI_COMM_WORLD_LOCAL_RANK": "0",
        "OMPI_COMM_WORLD_SIZE": "1",
    }
    record = job(lambda r, i: slurm_env(r, i) | env)
    assert {"STALE_ENV", "IDENTITY_CONFLICT"} <= set(codes(record))


def test_rank_variables_the_shell_already_had() -> None:
    left = torch_env(3, 3, size=8)
    record = job(lambda r, i: left, per_node=1, parent_env=left, error="waiting for workers")
    assert "STALE_ENV" in codes(record)


def test_pmix_variables_of_another_step() -> None:
    env = {
        "SLURM_JOB_ID": "7",
        "SLURM_STEP_ID": "2",
        "PMIX_NAMESPACE": "slurm.pmix.7.0",
        "PMIX_RANK": "0",
    }
    record = job(lambda r, i: slurm_env(r, i) | env, app_size=1, app_rank=0)
    assert "STALE_ENV" in codes(record)


def test_slurm_variables_of_a_job_on_other_nodes() -> None:
    away = {"SLURM_JOB_NODELIST": "m[1-4]", "SLURM_JOB_ID": "5"}
    assert "STALE_ENV" in codes(job(lambda r, i: torch_env(r, i) | away))
    here = {"SLURM_JOB_NODELIST": "n[0-3]", "SLURM_JOB_ID": "5"}
    assert loud(job(lambda r, i: torch_env(r, i) | here)) == []


def test_world_sizes_that_do_not_fit() -> None:
    launcher = job(lambda r, i: mpi_env(r, i) | torch_env(r, i, size=2))
    assert "WORLD_SIZE_MISMATCH" in codes(launcher)
    differ = job(lambda r, i: torch_env(r, i, size=4 + (r == 3)))
    assert "WORLD_SIZE_MISMATCH" in codes(differ)
    too_few = job(lambda r, i: torch_env(r, i, size=16))
    assert "WORLD_SIZE_MISMATCH" in codes(too_few)
    partial = job(
        lambda r, i: torch_env(r, i, size=16), change=lambda r: replace(r, rank=4 * r.rank)
    )
    assert "WORLD_SIZE_MISMATCH" not in codes(partial)


def test_missing_ranks_are_named_and_no_world_is_blamed() -> None:
    record = replace(job(lambda r, i: torch_env(r, i, size=5)), missing_ranks=(4,))
    assert list(codes(record)) == ["RANK_MISSING"]


def test_one_rank_twice() -> None:
    record = job(lambda r, i: torch_env(r % 2, i), hosts=("n0", "n1"), per_node=2)
    assert "RANK_DUPLICATE" in codes(record)


def test_everyone_alone() -> None:
    alone = job(lambda r, i: slurm_env(r, i, SLURM_NTASKS="4"), app_rank=0, app_size=1)
    assert "--mpi=pmix" in codes(alone)["RANK_SINGLETON"].fix
    together = job(lambda r, i: slurm_env(r, i, SLURM_NTASKS="4"), app_size=4)
    assert loud(together) == []


PMI = {"PMI_SIZE": "4", "PMI_FD": "9", "SLURM_MPI_TYPE": "pmi2"}
PMIX = {"PMIX_SERVER_URI4": "x", "SLURM_MPI_TYPE": "pmix_v4"}


@pytest.mark.parametrize(
    ("offered", "error", "option"),
    [
        (PMI, "No PMIx server was reachable, but a PMI1/2 was detected.", "--mpi=pmix"),
        (PMI, "", "--mpi=pmix"),
        (PMIX, "PMI2_Init failed to initialize", "--mpi=pmi2"),
        (PMIX, "", "--mpi=pmi2"),
        ({}, "PMI server not found. Please set I_MPI_PMI_LIBRARY", "--mpi=pmi2"),
    ],
)
def test_pmi_offered_and_pmix_spoken_or_the_reverse(
    offered: dict[str, str], error: str, option: str
) -> None:
    record = job(lambda r, i: slurm_env(r, i) | offered, app_rank=0, app_size=1, error=error)
    found = codes(record)
    assert option in found["PMI_MISMATCH"].fix
    assert found["RANK_SINGLETON"].caused_by == "PMI_MISMATCH"


@pytest.mark.parametrize(
    "error",
    [
        "mpi/pmix_v4: init: can not load PMIx library",
        "A requested component was not found ... Framework: psec Component: munge",
        "PMIX ERROR: NOT-FOUND in file gds_ds12_base.c",
    ],
)
def test_pmix_pieces_that_are_missing(error: str) -> None:
    assert "PMIX_COMPONENT" in codes(job(slurm_env, error=error))


def test_a_launcher_whose_local_rank_nobody_looks_for() -> None:
    record = job(
        lambda r, i: {"PALS_RANKID": str(r), "PALS_LOCAL_RANKID": str(i)}, selected_device=0
    )
    found = codes(record)
    assert "LOCAL_RANK=$PALS_LOCAL_RANKID" in found["LOCAL_RANK_UNDETECTED"].fix
    picked = job(lambda r, i: {"PALS_RANKID": str(r), "PALS_LOCAL_RANKID": str(i)})
    assert loud(picked) == []


def test_a_framework_that_does_not_know_this_launcher() -> None:
    record = job(
        lambda r, i: mpi_env(r, i, PRTE_LAUNCHED="1"), framework="jax", app_rank=0, app_size=1
    )
    found = codes(record)
    assert found["RANK_SINGLETON"].caused_by == "LOCAL_RANK_UNDETECTED"


def test_counts_taken_for_numbers() -> None:
    assert "SLURM_VAR_FORMAT" in codes(
        job(slurm_env, error="ValueError: invalid literal for int(): '4(x2)'")
    )
    assert "SLURM_VAR_FORMAT" in codes(job(lambda r, i: torch_env(r, i) | {"WORLD_SIZE": "2(x2)"}))
    normal = job(lambda r, i: slurm_env(r, i, SLURM_TASKS_PER_NODE="4(x2)"), hosts=("n0", "n1"))
    assert loud(normal) == []


@pytest.mark.parametrize("address", ["n5]", "n[001", "n001-004", "n", "n001,n003", "n1"])
def test_addresses_that_a_broken_parser_left(address: str) -> None:
    env = {"SLURM_STEP_NODELIST": "n[001-004]", "MASTER_ADDR": address, "MASTER_PORT": "29500"}
    record = job(lambda r, i: slurm_env(r, i) | env, hosts=("n001", "n002"))
    assert "scontrol show hostnames" in codes(record)["NODELIST_PARSE"].fix


@pytest.mark.parametrize(
    "address", ["n001", "n001-ib0", "n001.cluster", "10.1.0.1", "login", "fe80::1", "[::1]"]
)
def test_addresses_that_are_hosts_of_any_kind(address: str) -> None:
    env = {"SLURM_STEP_NODELIST": "n[001-004]", "MASTER_ADDR": address, "MASTER_PORT": "29500"}
    record = job(lambda r, i: slurm_env(r, i) | env, hosts=("n001", "n002"))
    assert "NODELIST_PARSE" not in codes(record)


def test_the_jobs_counts_and_nodes_in_a_smaller_step() -> None:
    sizes = {"SLURM_NTASKS": "8", "SLURM_STEP_NUM_TASKS": "4"}
    mixed = job(lambda r, i: slurm_env(r, i) | sizes | torch_env(r, i, size=8))
    found = codes(mixed)
    assert found["WORLD_SIZE_MISMATCH"].caused_by == "SCOPE_MIX"
    lists = {"SLURM_JOB_NODELIST": "n[0-3]", "SLURM_STEP_NODELIST": "n[2-3]", "MASTER_ADDR": "n0"}
    assert "SCOPE_MIX" in codes(job(lambda r, i: slurm_env(r, i) | lists, hosts=("n2", "n3")))


def test_a_program_in_the_batch_script() -> None:
    env = {"SLURM_JOB_ID": "5", "SLURM_NTASKS": "8", "SLURM_NNODES": "2"}
    batch = job(lambda r, i: slurm_env(0, 0) | env, per_node=1)
    assert "SCOPE_MIX" in codes(batch)
    task = job(lambda r, i: slurm_env(0, 0) | env | {"SLURM_STEP_ID": "0"}, per_node=1)
    assert "SCOPE_MIX" not in codes(task)


def test_components_of_a_heterogeneous_job() -> None:
    def env(rank: int, local: int) -> dict[str, str]:
        size = 4 if rank < 4 else 2
        return slurm_env(
            rank, local, SLURM_HET_SIZE="2", SLURM_NTASKS=str(size), WORLD_SIZE=str(size)
        )

    record = job(env, hosts=("n0", "n1"))
    assert "SCOPE_MIX" in codes(record)
    right = job(
        lambda r, i: slurm_env(r, i, SLURM_HET_SIZE="2", SLURM_NTASKS="4", WORLD_SIZE="8"),
        hosts=("n0", "n1"),
    )
    assert "SCOPE_MIX" not in loud(right)


def test_uneven_hosts_hurt_only_who_assumed_even_ones() -> None:
    def uneven(size: str) -> list[str]:
        record = job(
            lambda r, i: torch_env(r, i, LOCAL_WORLD_SIZE=size), per_node=3, hosts=("n0", "n1")
        )
        kept = tuple(replace(r, env=r.env | {"WORLD_SIZE": "4"}) for r in record.ranks[:4])
        if not size:
            kept = tuple(
                replace(r, env={k: v for k, v in r.env.items() if k != "LOCAL_WORLD_SIZE"})
                for r in kept
            )
        return loud(replace(record, ranks=kept))

    assert uneven("2") == ["UNEVEN_TASKS"]
    assert uneven("") == []


def test_rank_zero_away_from_the_master() -> None:
    env = {"MASTER_ADDR": "n1", "MASTER_PORT": "29500"}
    found = codes(job(lambda r, i: torch_env(r, i, size=8) | env, hosts=("n0", "n1")))
    assert found["MASTER_ADDR_WRONG"].caused_by == "RANK_PLACEMENT"


def test_hosts_that_alternate_are_information() -> None:
    record = job(
        hosts=("n0", "n1"), change=lambda r: replace(r, rank=2 * (r.rank % 4) + r.rank // 4)
    )
    assert codes(record)["RANK_PLACEMENT"].severity is Severity.INFO


@pytest.mark.parametrize(
    ("first", "second", "collide"),
    [
        ({"boot_id": "b"}, {"boot_id": "b"}, True),
        ({"boot_id": "b"}, {"boot_id": "c"}, False),
        ({"hostname_short": "gpu"}, {"hostname_short": "gpu"}, True),
        (
            {"hostname_short": "gpu", "boot_id": "b"},
            {"hostname_short": "gpu", "boot_id": "c"},
            False,
        ),
    ],
)
def test_machines_that_look_alike(
    first: dict[str, str], second: dict[str, str], collide: bool
) -> None:
    record = job(
        lambda r, i: torch_env(r, i, size=8),
        hosts=("a.rack1", "b.rack2"),
        change=lambda r: replace(r, **(first if r.host == "a.rack1" else second)),  # type: ignore[arg-type]
    )
    assert ("HOSTNAME_COLLISION" in codes(record)) is collide


def test_containers_that_drop_keep_or_inject_variables() -> None:
    host = slurm_env(0, 0, NCCL_IB_HCA="mlx5")
    dropped = job(per_node=1, container=Container("docker"), host_env=host)
    assert "-e SLURM_PROCID" in codes(dropped)["CONTAINER_ENV"].fix
    stale = job(
        lambda r, i: host | {"NCCL_IB_HCA": "mlx5_1"},
        per_node=1,
        container=Container("enroot"),
        host_env=host,
    )
    found = codes(stale)
    assert "--container-env=NCCL_IB_HCA" in found["CONTAINER_ENV"].fix
    assert found["NIC_FAR"].caused_by == "CONTAINER_ENV"
    passed = job(lambda r, i: host, per_node=1, container=Container("docker"), host_env=host)
    assert loud(passed) == []
