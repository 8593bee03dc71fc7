"""Which task runs where: counts, distributions, nodes left out, steps beside each other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.binding.explain.distribution import read_distribution
from clusterlab.binding.explain.layout import lay_out
from tests.binding.explain.ask import ask, by_node


@pytest.mark.parametrize(
    ("options", "counts"),
    [
        ("-N4 -n16 --gpus-per-node=8", [13, 1, 1, 1]),
        ("-N2 -n4", [3, 1]),
        ("-N4 --ntasks-per-node=4", [4, 4, 4, 4]),
        ("-n24", [16, 8]),
        ("-N2 -n4 --distribution=cyclic", [3, 1]),
        ("-N2 -n4 --ntasks-per-node=2", [2, 2]),
        ("-N1 -n4", [4]),
    ],
)
def test_tasks_per_node(options: str, counts: list[int]) -> None:
    assert [len(tasks) for tasks in by_node(ask(f"srun {options}").tasks).values()] == counts


@pytest.mark.parametrize(
    ("distribution", "first"),
    [
        ("block", [0, 1, 2, 3]),
        ("cyclic", [0, 2, 4, 6]),
        ("plane=2", [0, 1, 4, 5]),
    ],
)
def test_order_of_tasks_on_two_nodes(distribution: str, first: list[int]) -> None:
    found = ask(f"srun -N2 --ntasks-per-node=4 -m {distribution}")
    assert by_node(found.tasks)["n0"] == first


def test_named_and_excluded_nodes() -> None:
    assert set(by_node(ask("srun -w n2,n3 -N2 -n2").tasks)) == {"n2", "n3"}
    assert set(by_node(ask("srun -x n0 -N3 -n3").tasks)) == {"n1", "n2", "n3"}
    missing = ask("srun -w n9 -n1")
    assert missing.rejected is not None
    assert "Invalid node name specified" in missing.rejected


SIDE_BY_SIDE = (
    "srun -n4 --gpus-per-task=1 {0} --exact ./a & srun -n4 --gpus-per-task=1 {0} --exact ./b & wait"
)


def test_steps_beside_each_other_take_gpus_and_cores_that_are_free() -> None:
    job = "sbatch -N1 -n8 --gpus-per-node=8"
    found = ask(job, SIDE_BY_SIDE.format("--gpus-per-node=4"))
    assert [task.gpus for task in found.tasks] == [(i,) for i in range(8)]
    assert len({task.cpus for task in found.tasks}) == 8


def test_a_step_that_takes_the_jobs_gpu_count_waits_for_the_one_before() -> None:
    job = "sbatch -N1 -n8 --gpus-per-node=8"
    found = ask(job, SIDE_BY_SIDE.format(""))
    assert [task.gpus for task in found.tasks] == [(i,) for i in range(4)] * 2
    assert any("step 1 starts only when" in warning for warning in found.warnings)
    # --gres leaves no variable behind, so these steps ask for their own GPUs only.
    free = ask("sbatch -N1 -n8 --gres=gpu:8", SIDE_BY_SIDE.format(""))
    assert [task.gpus for task in free.tasks] == [(i,) for i in range(8)]


def test_after_a_wait_everything_is_free_again() -> None:
    job, step = "sbatch -N1 -n4 --gres=gpu:4", "srun -n2 --gpus-per-task=1 --exact ./x &"
    found = ask(job, step, "wait", step)
    assert [task.gpus for task in found.tasks] == [(0,), (1,)] * 2


def test_steps_one_after_the_other_get_the_same_gpus() -> None:
    found = ask("sbatch -N1 -n4 --gpus-per-node=4", "srun ./a", "srun ./b")
    assert [task.step for task in found.tasks] == [0] * 4 + [1] * 4
    assert {task.gpus for task in found.tasks} == {(0, 1, 2, 3)}


def test_a_step_takes_the_jobs_counts_from_the_environment_and_its_own_options_first() -> None:
    job = "sbatch -N2 --ntasks-per-node=4 --gpus-per-node=8"
    assert len(ask(job, "srun ./x").tasks) == 8
    assert len(ask(job, "srun -n2 ./x").tasks) == 2
    # SLURM_NTASKS of the job wins over --ntasks-per-node, which srun says it ignores.
    ignored = ask(job, "srun --ntasks-per-node=2 ./x")
    assert len(ignored.tasks) == 8
    assert any("Ignoring --ntasks-per-node" in warning for warning in ignored.warnings)


def test_the_srun_that_salloc_starts_is_a_step() -> None:
    inside = ask("salloc -N1 -n2 --gpus-per-node=2 srun --gpu-bind=single:1 ./x")
    assert [task.gpus for task in inside.tasks] == [(0,), (1,)]


@given(
    tasks=st.integers(1, 64),
    slots=st.lists(st.integers(1, 16), min_size=1, max_size=8),
    word=st.sampled_from(["block", "cyclic", "plane=1", "plane=2", "plane=3", "plane=5"]),
    pack=st.booleans(),
)
def test_every_task_is_placed_once_whatever_the_room(
    tasks: int, slots: list[int], word: str, pack: bool
) -> None:
    placed = lay_out(tasks, slots, read_distribution(word, plane_size=None), pack=pack)
    assert sorted(task for node in placed for task in node) == list(range(tasks))
    assert all(node == sorted(node) for node in placed)
    if word == "block" and sum(slots) >= tasks >= len(slots):
        assert all(1 <= len(node) <= room for node, room in zip(placed, slots, strict=True))
