from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.errors import ExitCode
from clusterlab.launch.devices import agree_on_devices, device_record, select_device
from clusterlab.launch.identity import RankIdentity
from clusterlab.launch.refusals import (
    DeviceRecord,
    check_arrivals,
    launcher_world_size,
    refusal_findings,
    refuse,
)
from clusterlab.launch.roll_call import RefusedError
from tests.launch.environments import recorded


def identity(rank: int, *, local_world_size: int = 4, world_size: int = 8) -> RankIdentity:
    node, local = divmod(rank, local_world_size)
    return RankIdentity(rank, world_size, local, local_world_size, node, f"n{node}", "slurm")


def healthy(world_size: int) -> list[DeviceRecord]:
    """One GPU per rank, four ranks a node, each rank isolated on its own device."""
    return [
        DeviceRecord(
            rank=r,
            host=f"n{r // 4}",
            pid=100 + r,
            world_size=world_size,
            visible_count=1,
            ordinal=0,
            gpu=f"GPU-{r:04x}",
            launcher_world_size=world_size,
            launcher_variable="SLURM_STEP_NUM_TASKS",
        )
        for r in range(world_size)
    ]


@given(st.integers(1, 64))
def test_a_healthy_job_is_not_refused(world_size: int) -> None:
    assert refusal_findings(healthy(world_size)) == []
    assert refuse(healthy(world_size)) is None


@given(st.integers(2, 32), st.data())
def test_two_ranks_on_one_gpu_are_named(world_size: int, data: st.DataObject) -> None:
    records = healthy(world_size)
    first = data.draw(st.integers(0, world_size - 2))
    second = data.draw(st.integers(first + 1, world_size - 1))
    records[second] = replace(records[second], gpu=records[first].gpu)
    (finding,) = refusal_findings(records)
    assert (finding.code, finding.ranks) == ("GPU_SHARED_BY_RANKS", (first, second))
    assert f"share GPU GPU-{first:04x}" in finding.evidence[0]


@given(st.integers(1, 8), st.integers(-2, 12))
def test_a_device_beyond_the_visible_ones_is_named(visible: int, ordinal: int) -> None:
    records = healthy(2)
    records[1] = replace(records[1], visible_count=visible, ordinal=ordinal, gpu=None)
    found = refusal_findings(records)
    if 0 <= ordinal < visible:
        assert found == []
    else:
        assert [(f.code, f.ranks) for f in found] == [("CVD_LOCAL_RANK_MISMATCH", (1,))]
        assert f"rank 1 on n0: device {ordinal} of {visible} visible" in found[0].evidence


def test_a_long_list_of_evidence_is_cut() -> None:
    error = refuse([replace(r, ordinal=9, gpu=None) for r in healthy(64)])
    assert error is not None
    assert error.message.endswith("rank 3 on n0: device 9 of 1 visible (and 60 more)")


def test_a_process_that_believes_to_be_alone_is_refused() -> None:
    alone = replace(healthy(1)[0], launcher_world_size=8)
    error = refuse([alone])
    assert error is not None
    assert error.where == "RANK_SINGLETON"
    assert "believes it is rank 0 of 1, but SLURM_STEP_NUM_TASKS=8" in str(error)
    assert error.exit_code == ExitCode.FINDING


def test_a_world_size_that_is_not_the_allocation_is_refused() -> None:
    records = [replace(r, launcher_world_size=8) for r in healthy(4)]
    (finding,) = refusal_findings(records)
    assert finding.code == "WORLD_SIZE_MISMATCH"
    assert finding.ranks == (0, 1, 2, 3)
    assert "rank 0 on n0 counts 4 ranks, but SLURM_STEP_NUM_TASKS=8" in finding.evidence


@pytest.mark.parametrize(
    ("name", "variable", "size"),
    [
        ("none", "SLURM_STEP_NUM_TASKS", 4),
        ("ompi", "OMPI_COMM_WORLD_SIZE", 2),
        ("torchrun_step", "WORLD_SIZE", 4),
    ],
)
def test_the_innermost_launcher_says_how_many_ranks_there_are(
    name: str, variable: str, size: int
) -> None:
    said = launcher_world_size(recorded(name)[0])
    assert said is not None
    assert (said.variable, said.value) == (variable, size)


def test_a_batch_script_allocates_no_ranks() -> None:
    assert launcher_world_size(recorded("batch")[0]) is None


def test_one_visible_gpu_is_device_0_whatever_the_local_rank() -> None:
    assert [select_device(identity(r), 1) for r in range(4)] == [0, 0, 0, 0]


def test_all_visible_gpus_are_taken_by_local_rank() -> None:
    assert [select_device(identity(r), 4) for r in range(8)] == [0, 1, 2, 3, 0, 1, 2, 3]
    assert select_device(identity(3), 8) == 3


def test_several_gpus_per_task_of_its_own_mean_the_first() -> None:
    assert [select_device(identity(r), 2, gpus_on_node=8) for r in range(4)] == [0, 0, 0, 0]


@pytest.mark.parametrize(("visible", "on_node"), [(0, 8), (2, 4), (3, None), (0, None)])
def test_fewer_gpus_than_ranks_are_refused(visible: int, on_node: int | None) -> None:
    with pytest.raises(RefusedError, match=f"rank 2 on n0: 4 ranks on this node, {visible} vis"):
        select_device(identity(2), visible, gpus_on_node=on_node)


@given(st.integers(0, 16), st.integers(1, 8), st.none() | st.integers(0, 16))
def test_a_chosen_device_is_always_visible(
    visible: int, local_world_size: int, on_node: int | None
) -> None:
    for rank in range(local_world_size):
        me = identity(rank, local_world_size=local_world_size, world_size=local_world_size)
        try:
            assert 0 <= select_device(me, visible, gpus_on_node=on_node) < visible
        except RefusedError:
            assert visible < local_world_size


def test_every_rank_hears_that_two_share_a_gpu() -> None:
    environs = recorded("none")
    store, results = dist.HashStore(), [""] * 4

    def one(rank: int) -> None:
        me = RankIdentity(rank, 4, rank % 2, 2, rank // 2, f"n{rank // 2}", "slurm")
        gpu = "GPU-a" if rank in (2, 3) else f"GPU-{rank}"
        record = device_record(me, environs[rank], visible_count=4, ordinal=rank % 2, gpu=gpu)
        results[rank] = refused(me, store, record)

    run([threading.Thread(target=one, args=(rank,)) for rank in range(4)])
    assert set(results) == {
        "GPU_SHARED_BY_RANKS: ranks [2-3] on n1 share GPU GPU-a;"
        " one GPU per rank: srun --gpus-per-task=1, or no more tasks on a node than it has GPUs"
    }


def refused(me: RankIdentity, store: Any, record: DeviceRecord) -> str:
    try:
        agree_on_devices(me, store, record, timeout_s=5)
    except RefusedError as error:
        return str(error)
    return "not refused"


def run(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)


def test_ranks_that_believe_in_different_sizes_are_refused() -> None:
    records = [{"rank": r, "world_size": 4 if r < 3 else 2} for r in range(4)]
    error = check_arrivals(records)
    assert error is not None
    assert "2: rank 3; 4: ranks [0-2]" in str(error)
    assert check_arrivals(records[:3]) is None
