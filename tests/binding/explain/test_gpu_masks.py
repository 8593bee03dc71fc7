"""What each task's mask shows, as measured on Slurm 22.05.8 with eight GPUs and four tasks."""

from __future__ import annotations

import pytest

from tests.binding.explain.ask import ask, masks

EACH = ["0", "1", "2", "3"]
FOUR = ["0,1,2,3"] * 4


@pytest.mark.parametrize(
    ("options", "plain", "constrained", "opened"),
    [
        ("--gres=gpu:4", FOUR, FOUR, [(0, 1, 2, 3)] * 4),
        ("--gpus-per-task=1", EACH, ["0"] * 4, [(0,), (1,), (2,), (3,)]),
        ("--gres=gpu:4 --gpu-bind=single:1", EACH, ["0"] * 4, [(0,), (1,), (2,), (3,)]),
        ("--gres=gpu:4 --gpu-bind=single:2", ["0", "0", "1", "1"], ["0"] * 4,
         [(0,), (0,), (1,), (1,)]),
        ("--gres=gpu:4 --gpu-bind=none", [None] * 4, [None] * 4, [(0, 1, 2, 3)] * 4),
        ("--gres=gpu:4 --gpu-bind=map_gpu:3,2,1,0", EACH[::-1], ["0"] * 4,
         [(3,), (2,), (1,), (0,)]),
        ("--gres=gpu:4 --gpu-bind=map_gpu:0,1", ["0", "1", "0", "1"], ["0"] * 4,
         [(0,), (1,), (0,), (1,)]),
        ("--gres=gpu:4 --gpu-bind=mask_gpu:0x3,0x3,0xc,0xc", ["0,1", "0,1", "2,3", "2,3"],
         ["0,1"] * 4, [(0, 1), (0, 1), (2, 3), (2, 3)]),
        # A mask without 0x is decimal, against the man page: 10 is GPUs 1 and 3, 20 is 2 and 4.
        ("--gres=gpu:8 --gpu-bind=mask_gpu:10,20", ["1,3", "2,4"] * 2, ["0,1"] * 4,
         [(1, 3), (2, 4), (1, 3), (2, 4)]),
        ("--gres=gpu:4 --gpu-bind=map_gpu:7,6,5,4", ["0"] * 4, ["0"] * 4, [(0,)] * 4),
        ("--ntasks-per-gpu=4 --gpus=1", ["0"] * 4, ["0"] * 4, [(0,)] * 4),
    ],
)  # fmt: skip
def test_mask_and_gpus_with_and_without_the_device_cgroup(
    options: str,
    plain: list[str | None],
    constrained: list[str | None],
    opened: list[tuple[int, ...]],
) -> None:
    line = f"srun -N1 -n4 {options}"
    assert masks(ask(line)) == plain
    found = ask(line, constrain_devices=True)
    assert masks(found) == constrained
    assert [task.gpus for task in found.tasks] == opened


def test_beside_another_job_masks_name_the_nodes_gpus_unless_the_cgroup_hides_the_rest() -> None:
    line, busy = "srun -N1 -n2 --gres=gpu:2", ["n0:gpu=0-3"]
    assert masks(ask(line, nodes=1, busy=busy)) == ["4,5"] * 2
    bound = ask(f"{line} --gpu-bind=per_task:1", nodes=1, busy=busy, constrain_devices=True)
    assert [(task.cuda_visible_devices, task.gpus) for task in bound.tasks] == [
        ("0", (4,)),
        ("0", (5,)),
    ]
    assert [task.step_gpus for task in bound.tasks] == ["4", "4"]


def test_map_counts_among_the_steps_gpus_only_where_devices_are_constrained() -> None:
    line = "srun -N1 -n2 --gres=gpu:2 --gpu-bind=map_gpu:0,1"
    plain = ask(line, nodes=1, busy=["n0:gpu=0-3"])
    assert masks(plain) == ["4", "4"]
    assert any("first device in the allocation" in warning for warning in plain.warnings)
    constrained = ask(line, nodes=1, busy=["n0:gpu=0-3"], constrain_devices=True)
    assert [task.gpus for task in constrained.tasks] == [(4,), (5,)]


def test_a_step_without_gres_has_no_mask_and_all_of_the_nodes_gpus_in_reach() -> None:
    found = ask("sbatch -N1 -n2 --gres=gpu:4", "srun --gres=none")
    assert masks(found) == [None, None]
    assert [task.gpus for task in found.tasks] == [(), ()]
    assert any("every GPU of the node" in warning for warning in found.warnings)
    closed = ask("sbatch -N1 -n2 --gres=gpu:4", "srun --gres=none", constrain_devices=True)
    assert masks(closed) == [None, None]
    assert not any("every GPU of the node" in warning for warning in closed.warnings)
    # The count that --gpus-per-node leaves in the environment contradicts it.
    refused = ask("sbatch -N1 -n2 --gpus-per-node=4", "srun --gres=none")
    assert refused.rejected is not None
    assert refused.rejected.endswith("Invalid Trackable RESource (TRES) specification")


def test_no_binding_keeps_the_mask_since_23_11() -> None:
    line = "srun -N1 -n4 --gres=gpu:4 --gpu-bind=none"
    assert masks(ask(line, version="23.02")) == [None] * 4
    assert masks(ask(line, version="23.11")) == FOUR


def test_task_sharing_shows_each_task_its_own_gpu_and_opens_all() -> None:
    line = "srun -N1 -n4 --gpus-per-task=1 --gres-flags=allow-task-sharing"
    found = ask(line, version="24.11", constrain_devices=True)
    assert masks(found) == EACH
    assert not any("IPC" in warning for warning in found.warnings)
    beside = ask(line, version="24.11", constrain_devices=True, busy=["n0:gpu=0-3"], nodes=1)
    assert masks(beside) == EACH
    assert [task.gpus for task in beside.tasks] == [(4,), (5,), (6,), (7,)]
    assert ask(line).rejected == "srun: error: Invalid --gres-flags specification"
