"""Which CPUs each task gets."""

from __future__ import annotations

import pytest

from clusterlab.binding.explain.profile import NodeProfile, ProfileGpu
from tests.binding.explain.ask import ask

THREADS = NodeProfile(
    "smt",
    sockets=2,
    cores_per_socket=4,
    threads_per_core=2,
    gpus=(ProfileGpu(frozenset(range(4))), ProfileGpu(frozenset(range(4, 8)))),
    domains=(frozenset({0, 1, 2, 3, 8, 9, 10, 11}), frozenset({4, 5, 6, 7, 12, 13, 14, 15})),
)


@pytest.mark.parametrize(
    ("options", "cpus"),
    [
        ("-n4", ["0", "8", "1", "9"]),
        ("-n4 -m block:block", ["0", "1", "2", "3"]),
        ("-n2 -c4", ["0,1,2,3", "4,5,6,7"]),
        ("-n2 --cpu-bind=none", ["0,8", "0,8"]),
        ("-n16 --cpu-bind=map_cpu:5,6", ["5", "6"] * 8),
        ("-n16 --cpu-bind=mask_cpu:0x3,0x300", ["0,1", "8,9"] * 8),
    ],
)
def test_cores_of_two_sockets(options: str, cpus: list[str]) -> None:
    assert [task.cpus for task in ask(f"srun -N1 {options}").tasks] == cpus


def test_a_map_outside_the_jobs_cores_is_refused() -> None:
    found = ask("srun -N1 -n2 --exclusive --cpu-bind=map_cpu:5,6")
    assert found.rejected is not None
    assert found.rejected.startswith(
        "srun: error: CPU binding outside of job step allocation, allocated CPUs are: 0x0101."
    )


def test_threads_of_a_core_are_numbered_apart() -> None:
    found = ask("srun -N1 -n2 -c2", profile=THREADS)
    assert [task.cpus for task in found.tasks] == ["0,8", "1,9"]


def test_one_thread_of_each_core() -> None:
    found = ask("srun -N1 -n2 -c2 --hint=nomultithread", profile=THREADS)
    assert all(int(cpu) < 8 for task in found.tasks for cpu in task.cpus.split(","))


def test_cpus_of_the_job_reach_a_step_by_variable_only_outside_22_05_and_23_02() -> None:
    job, step = "sbatch -N1 -n2 -c4 --gpus-per-node=2", "srun ./x"
    sizes = {
        version: [task.cpus.count(",") + 1 for task in ask(job, step, version=version).tasks]
        for version in ("21.08", "22.05", "23.02", "23.11")
    }
    assert sizes["21.08"] == sizes["23.11"] == [4, 4]
    assert sizes["22.05"] == sizes["23.02"] != [4, 4]
    told = ask(job, "SRUN_CPUS_PER_TASK=4 srun ./x")
    assert [task.cpus.count(",") + 1 for task in told.tasks] == [4, 4]
