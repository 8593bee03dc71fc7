"""The shipped job files by sbatch on a real Slurm: what they run, write and return, healthy and not."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import pytest

from clusterlab.core.collectives import COLLECTIVES
from clusterlab.lab import lifecycle
from clusterlab.lab.labs import Lab, run
from clusterlab.lab.machine import observe, sized
from clusterlab.runs.ending import STOPPED
from tests.slurm.conftest import SOON_DOWN, MakeLab
from tests.slurm.jobs import Submitted, submit

TINY = ("-b", "1K", "-e", "16K", "-f", "4", "-n", "2", "-w", "1", "--fabric", "lab-2x4")
LONG = ("-b", "1K", "-e", "4M", "-f", "2", "-n", "30", "-w", "1", "--fabric", "lab-2x4")
SMALL = ("-N2",)
TWO_EACH = {"RANKS_PER_NODE": "2"}
ONE_EACH = {"RANKS_PER_NODE": "1"}
"""A rank takes seconds of CPU to start: where ranks that share a node are not the question, it has one."""

SWEEPS = {
    "allreduce_sweep": "all_reduce",
    "reduce_scatter_sweep": "reduce_scatter",
    "all_gather_sweep": "all_gather",
    "all_to_all_sweep": "all_to_all",
    "broadcast_sweep": "broadcast",
    "send_recv_sweep": "send_recv",
}


@pytest.fixture(scope="module")
def small_lab(
    can_hold_labs: None, lab_base: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lab]:
    """The lab of `clusterlab lab up --nodes 2 --gpus 4`, which topologies/lab-2x4.yaml describes."""
    share = [tmp_path_factory.getbasetemp()]
    yield lifecycle.up(sized(observe(), nodes=2, gpus=4), name="jobs", base=lab_base, share=share)
    lifecycle.down(name="jobs", base=lab_base)


def check_sweep(job: Submitted, collective: str, ranks: int) -> None:
    """Everything measured, predicted and checked; ranks spread as asked."""
    assert job.exit_code() == 0, job.output()
    rows = job.rows()
    assert {r.collective for r in rows} == {collective}
    assert len(rows) == job.run_dir().info.planned_points
    assert {r.world_size for r in rows} == {ranks}
    assert not any(r.wrong for r in rows)
    assert all(r.predicted_time_us for r in rows)
    assert "MASTER_ADDR" not in job.output()


def test_the_main_job_runs_by_sbatch_on_two_nodes_as_it_is(small_lab: Lab, tmp_path: Path) -> None:
    job = submit(small_lab, tmp_path / "job", "allreduce_sweep", *TINY)
    check_sweep(job, "all_reduce", 8)
    output = job.output()
    assert "# Collective test starting: all_reduce_perf" in output
    assert "on         n0 device  0" in output
    assert "on         n1 device  3" in output


@pytest.mark.parametrize("name", [n for n in SWEEPS if n != "allreduce_sweep"])
def test_every_other_sweep_runs_by_sbatch(small_lab: Lab, tmp_path: Path, name: str) -> None:
    job = submit(small_lab, tmp_path / "job", name, *TINY, options=SMALL, **ONE_EACH)
    check_sweep(job, SWEEPS[name], 2)


def test_every_pair_of_ranks_is_measured_by_sbatch(small_lab: Lab, tmp_path: Path) -> None:
    job = submit(small_lab, tmp_path / "job", "pairs", *TINY, options=SMALL, **TWO_EACH)
    assert job.exit_code() == 0, job.output()
    rows = job.rows()
    assert len(rows) == job.run_dir().info.planned_points == 6 * (1 + 3 * 3)
    assert {r.ranks for r in rows if r.collective == "send"} == set(permutations(range(4), 2))
    assert not any(r.wrong for r in rows)
    # The design has figures for what is between the nodes only, and ranks 0, 1 and 2, 3 share one.
    across = {r.ranks for r in rows if r.predicted_time_us is not None}
    assert across == {(a, b) for a, b in permutations(range(4), 2) if (a < 2) != (b < 2)}
    assert re.search(r"latency \(us\).* \(n[01]\) ↔ [0-3] \(n[01]\)", job.output())


def test_torchrun_in_sbatch_runs_the_same_sweep(small_lab: Lab, tmp_path: Path) -> None:
    job = submit(
        small_lab, tmp_path / "job", "allreduce_sweep_torchrun", *TINY, options=SMALL, **TWO_EACH
    )
    check_sweep(job, "all_reduce", 4)


def test_the_same_file_inside_an_allocation_uses_its_nodes(small_lab: Lab, tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    job = Submitted(small_lab, folder, {}, 0)
    from clusterlab.core.shipped import shipped

    done = run(
        small_lab,
        ["salloc", "-N2", "--exclusive", "bash", str(shipped("jobs") / "all_gather_sweep.sbatch"), *TINY],
        cwd=folder,
        env={"CLUSTERLAB_RUNS": str(folder / "runs"), "CLUSTERLAB": _program(), **ONE_EACH},
        timeout_s=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert {r.world_size for r in job.rows()} == {2}
    assert len(COLLECTIVES) == 7


def _program() -> str:
    import sys

    return str(Path(sys.executable).with_name("clusterlab"))


def test_a_killed_rank_is_exit_code_4_and_keeps_the_rows(small_lab: Lab, tmp_path: Path) -> None:
    job = submit(small_lab, tmp_path / "job", "allreduce_sweep", *LONG, options=SMALL, **TWO_EACH)
    job.wait_for_rows(3)
    ranks = job.ranks()
    assert len(ranks) == 4
    os.kill(ranks[-1], signal.SIGKILL)
    assert job.exit_code() == 4, job.output()
    assert len(job.rows()) >= 3
    assert job.show()["JobState"] == "FAILED"


def test_scancel_ends_the_job_and_keeps_the_rows(small_lab: Lab, tmp_path: Path) -> None:
    job = submit(small_lab, tmp_path / "job", "allreduce_sweep", *LONG, options=SMALL, **ONE_EACH)
    job.wait_for_rows(3)
    run(small_lab, ["scancel", str(job.job_id)])
    assert job.wait()["JobState"] == "CANCELLED"
    assert job.run_dir().info.attempts[-1].exit_code == STOPPED, job.output()
    assert len(job.rows()) >= 3
    assert not job.ranks()


def test_a_time_limit_ends_the_job_and_keeps_the_rows(small_lab: Lab, tmp_path: Path) -> None:
    job = submit(small_lab, tmp_path / "job", "allreduce_sweep", *LONG, "-n", "2000", options=SMALL,
                 **ONE_EACH)  # fmt: skip
    job.wait_for_rows(1)
    # A limit in minutes takes 75 to 95 s to bite; an end time set now takes half a minute.
    run(small_lab, ["scontrol", "update", f"JobId={job.job_id}", "EndTime=now+1"])
    assert job.wait()["JobState"] == "TIMEOUT"
    assert job.run_dir().info.attempts[-1].exit_code == STOPPED, job.output()
    assert len(job.rows()) >= 1
    assert not job.ranks()


def test_draining_a_node_lets_its_job_finish(small_lab: Lab, tmp_path: Path) -> None:
    job = submit(small_lab, tmp_path / "job", "allreduce_sweep", *LONG, "-e", "64K", options=SMALL,
                 **ONE_EACH)  # fmt: skip
    job.wait_for_rows(1)
    node = job.show()["BatchHost"]
    run(small_lab, ["scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=test"])
    try:
        check_sweep(job, "all_reduce", 2)
    finally:
        run(small_lab, ["scontrol", "update", f"NodeName={node}", "State=RESUME"])


def test_a_node_without_power_requeues_the_job_which_goes_on(
    make_lab: MakeLab, tmp_path: Path, lab_base: Path
) -> None:
    lab = make_lab(name="power", nodes=3, gpus=2, cpus=4, **SOON_DOWN)
    job = submit(lab, tmp_path / "job", "allreduce_sweep", *LONG, "-n", "60", options=SMALL)
    job.wait_for_rows(3)
    before = job.rows()
    nodes = run(lab, ["scontrol", "show", "hostnames", job.show()["NodeList"]]).stdout.split()
    victim = next(n for n in nodes if n != job.show()["BatchHost"])
    lifecycle.kill_node(lab, victim)
    shown = job.wait(timeout_s=240)
    assert shown["JobState"] == "COMPLETED", job.output()
    assert shown["Restarts"] == "1"
    rows = job.rows()
    assert rows[: len(before)] == before
    assert len({r.point for r in rows}) == len(rows) == job.run_dir().info.planned_points
    assert {r.attempt for r in rows} == {1, 2}


def test_a_full_disk_is_one_message_and_keeps_the_rows(small_lab: Lab, tmp_path: Path) -> None:
    folder = tmp_path / "job"
    job = submit(
        small_lab, folder, "allreduce_sweep", *LONG, "-f", "1.1", options=SMALL, **ONE_EACH
    )
    job.wait_for_rows(2)
    records = next((folder / "runs").glob("*/records.jsonl"))
    # Mounts made now are not seen inside the lab; a limit on the size of files fails writes likewise.
    for pid in job.ranks():
        _limit_file_size(pid, records.stat().st_size + 10)
    # Rank 0 says why and leaves with 1, its peers lose it and leave with 4: srun returns the largest.
    assert job.exit_code() == 4, job.output()
    assert "records.jsonl: cannot write: File too large" in job.output()
    assert "Traceback" not in job.output()
    assert len(job.rows()) >= 2


def _limit_file_size(pid: int, size: int) -> None:
    import resource

    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, size))


def test_without_pmix_the_ranks_meet_by_the_node_list(small_lab: Lab, tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    for mpi, each in (("none", 2), ("pmi2", 1)):
        done = run(
            small_lab,
            ["srun", f"--mpi={mpi}", "-N2", f"--ntasks-per-node={each}", _program(), "bench",
             "all_reduce", *TINY],
            cwd=folder,
            env={"CLUSTERLAB_RUNS": str(folder / mpi)},
            timeout_s=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert " 0 OK" in done.stdout


def test_a_missing_libpmix_is_said_and_gone_around(small_lab: Lab, tmp_path: Path) -> None:
    done = run(
        small_lab,
        ["srun", "--mpi=pmix", "-N2", "--ntasks-per-node=1", _program(), "bench", "all_reduce", *TINY],
        cwd=tmp_path,
        env={
            "CLUSTERLAB_RUNS": str(tmp_path / "runs"),
            "CLUSTERLAB_LIBPMIX": "/nonexistent/libpmix.so",
            "CLUSTERLAB_PMIX": "ctypes",
        },
        timeout_s=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "going on without PMIx" in done.stderr
