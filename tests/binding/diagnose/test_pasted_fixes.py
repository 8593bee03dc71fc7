"""What a pasted fix then does: filters match devices, node ranks differ, masks mean the same GPUs."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from clusterlab.binding.diagnose.rendezvous import nccl_matches
from clusterlab.binding.records import RankRecord
from tests.binding.diagnose.jobs import codes, job, node, slurm_env


def filters(*values: str) -> str:
    """The filter that the fix exports for ranks with ``values``."""
    record = job(lambda rank, local: {"NCCL_IB_HCA": values[local % len(values)]})
    fix = codes(record)["NIC_FILTER_DIVERGENT"].fix
    return fix.partition("export NCCL_IB_HCA=")[2].partition("\n")[0]


@pytest.mark.parametrize(
    "values", [("mlx5", "mlx5_0"), ("=mlx5_0", "mlx5_1:1"), ("^mlx5_0", "mlx5")]
)
def test_one_filter_for_all_ranks_matches_all_that_theirs_did(values: tuple[str, ...]) -> None:
    names = [f"mlx5_{i}" for i in range(4)]
    wanted = {n for v in values for n in nccl_matches(v, names)}
    assert set(nccl_matches(filters(*values), names)) == wanted


def test_without_known_devices_a_prefix_stays_a_prefix() -> None:
    nodes = {"n0": replace(node("n0"), nics=())}
    record = job(lambda rank, local: {"NCCL_IB_HCA": "mlx5" if local else "mlx5_1"}, nodes=nodes)
    fix = codes(record)["NIC_FILTER_DIVERGENT"].fix
    assert fix.startswith("export NCCL_IB_HCA=mlx5,mlx5_1\n")


def nested(rank: int, local: int) -> dict[str, str]:
    """Two tasks on each of two nodes, both of which started a torchrun with two processes."""
    task = rank // 2
    return {
        "SLURM_PROCID": str(task),
        "SLURM_LOCALID": str(task % 2),
        "TORCHELASTIC_RUN_ID": "none",
        "GROUP_RANK": str(task),
        "LOCAL_WORLD_SIZE": "2",
        "RANK": str(rank),
        "LOCAL_RANK": str(local % 2),
    }


def test_a_node_rank_is_expanded_by_each_task_and_not_by_the_batch_script() -> None:
    def one_gpu(rank: RankRecord) -> RankRecord:
        return replace(rank, selected_device=0)

    found = codes(job(nested, hosts=("n0", "n1"), change=one_gpu))
    for code in ("LAUNCHER_NESTED", "IDENTITY_CONFLICT"):
        command = found[code].fix.partition("\n")[0]
        assert re.match(r"srun .*bash -c '[^']*--node_rank=\$SLURM_NODEID[^']*'$", command), code


def bind_fix(bind: str, gpu: int) -> str:
    """The advice on ``bind`` for tasks of which task i got GPU ``gpu`` + i of eight."""

    def own(rank: RankRecord) -> RankRecord:
        return replace(rank, visible=((rank.visible or ())[gpu + rank.rank],), selected_device=0)

    nodes = {"n0": node("n0", models=("H100",) * 8)}
    record = job(
        slurm_env, nodes=nodes, change=own, launcher=f"srun --gpu-bind=mask_gpu:{bind} ./app"
    )
    return codes(record)["GPU_BIND_OUT_OF_ALLOC"].fix


def test_decimal_masks_that_do_what_they_say_keep_their_gpus() -> None:
    assert bind_fix("16,32,64,128", 4).endswith("mask_gpu:0x10,0x20,0x40,0x80")


def test_decimal_masks_that_only_make_sense_in_hexadecimal_are_read_so() -> None:
    assert bind_fix("10,20,40,80", 4).endswith("mask_gpu:0x10,0x20,0x40,0x80")
