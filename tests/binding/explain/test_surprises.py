"""Warnings: each has a layout that earns it, and layouts that do what they seem to earn none."""

from __future__ import annotations

import pytest

from tests.binding.explain.ask import ask


def warned(
    *lines: str, nodes: int = 4, constrain_devices: bool = False, version: str = "22.05"
) -> str:
    found = ask(*lines, nodes=nodes, constrain_devices=constrain_devices, version=version)
    assert found.rejected is None
    return "\n".join(found.warnings)


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["srun -N4 -n16 --gpus-per-node=8"], "13+1+1+1; --ntasks-per-node=4 --gpus-per-node=4 makes"),
        (["srun -N2 -n5"], "5 tasks on 2 nodes are 4+1"),
        (["srun -N1 -n4 --gpus-per-node=8"], "4 tasks all see GPUs 0-7; with one each 4 stay idle"),
        (["srun -N1 -n2 --gpus-per-node=8 --gpu-bind=single:1"], "GPUs 1-4,6-7 idle"),
        (["srun -N1 -n4 --gpus-per-node=2"], "share GPUs 0-1: two or more tasks on a GPU"),
        (["srun -N1 -n2 --gres=gpu:2 --gpu-bind=map_gpu:0"], "share GPU 0"),
        (["srun -N1 -n2 --gres=gpu:4 --gpu-bind=mask_gpu:0x3,0x6"], "GPU 1: in masks that differ"),
        (["srun -N1 -n2 --gpus-per-task=1"], "tasks see their GPUs as device 0"),
        (["srun -N1 -n2 --gres=gpu:2 --gpu-bind=map_gpu:6,7"], "first device in the allocation"),
        (["srun -N1 -n2 --gres=gpu:2 --gpu-bind=none"], "leaves CUDA_VISIBLE_DEVICES unset"),
        (["srun -N1 -n1 --gres=gpu:4 --gpu-bind=map_gpu:2"], "alone on its node is not bound"),
        (["srun -N1 -n8 --overcommit --gres=gpu:8 --cpu-bind=map_cpu:0"], "8 tasks (local 0-7) share CPU 0"),
        (["srun -N1 --ntasks-per-node=1 --gpus-per-node=8"], "8 GPUs has 1 CPU (8)"),
        (["srun -N1 -n2 --gpus-per-node=8 --gpu-bind=map_gpu:4,5 -m block:block"], "far from the GPU"),
        (["sbatch -N1 -n2 -c4 --gpus-per-node=2", "srun ./x"], "SRUN_CPUS_PER_TASK"),
        (["sbatch -N2 -n2 --gpus-per-node=8", "srun -N1 -n1 ./x"], "n1: allocated, but no task"),
        (["sbatch -N2 --gpus-per-node=8 job.sh"], "the job gets n[0-1] with GPUs 0-7 each"),
    ],
)  # fmt: skip
def test_what_surprises_is_said(lines: list[str], says: str) -> None:
    assert says in warned(*lines)


@pytest.mark.parametrize(
    "lines",
    [
        ["srun -N2 --ntasks-per-node=8 --gpus-per-node=8"],
        ["srun -N4 --ntasks-per-node=8 --gres=gpu:8 -c2"],
        ["srun -N2 --ntasks-per-node=1 --gpus-per-node=8 -c16"],
        ["sbatch -N2 --ntasks-per-node=8 --gpus-per-node=8", "srun ./train"],
        ["sbatch -N2 --ntasks-per-node=1 --gpus-per-node=8 --exclusive", "srun -c16 torchrun x.py"],
    ],
)
@pytest.mark.parametrize("constrain_devices", [False, True])
def test_a_layout_that_does_what_it_seems_to_earns_none(
    lines: list[str], constrain_devices: bool
) -> None:
    assert warned(*lines, constrain_devices=constrain_devices) == ""


def test_the_device_cgroup_breaks_ipc_and_the_cure_fits_the_version() -> None:
    line = "srun -N1 -n2 --gpus-per-task=1"
    assert "IPC" not in warned(line)
    assert "--gpu-bind=none opens" in warned(line, constrain_devices=True)
    assert "allow-task-sharing" in warned(line, constrain_devices=True, version="24.05")


def test_step_gpus_is_wrong_only_under_the_device_cgroup() -> None:
    line = "srun -N1 -n2 --gpus-per-task=1"
    assert "SLURM_STEP_GPUS" not in warned(line)
    assert "wrong GPU in 1 of 2 tasks (task 1: 0 for GPU 1)" in warned(line, constrain_devices=True)


def test_the_order_by_topology_is_said_since_26_05() -> None:
    line = "srun -N2 --ntasks-per-node=8 --gpus-per-node=8"
    assert warned(line, version="25.11") == ""
    assert "CR_NO_DIST_TOPO_BLOCK" in warned(line, version="26.05")
