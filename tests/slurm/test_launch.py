"""Ranks that real launchers start: who they are, how they meet, and what is refused."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from clusterlab.lab.labs import Lab
from clusterlab.lab.labs import run as run_in_lab
from clusterlab.lab.processes import wait_until
from tests.slurm.launching import RANK, by_mpirun, by_srun, lines

TWO_BY_TWO = ["-N2", "--ntasks-per-node=2"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]


@pytest.mark.parametrize(
    ("mpi", "source"), [("pmix", "pmix"), ("none", "slurm"), ("pmi2", "slurm")]
)
def test_a_step_tells_every_task_who_it_is(lab: Lab, mpi: str, source: str) -> None:
    done = by_srun(lab, [f"--mpi={mpi}", *TWO_BY_TWO], ["identity"])
    assert done.returncode == 0, done.stderr
    found = lines(done.stdout)
    assert [(f["rank"], f["local"], f["node"], f["host"]) for f in found] == [
        (r, [r % 2, 2], r // 2, f"n{r // 2}") for r in range(4)
    ]
    assert {f["source"] for f in found} == {source}
    assert {f["world"] for f in found} == {4}
    assert not any(f["torch"] for f in found)  # identity does not wait for import torch


def test_uneven_and_arbitrary_placements_keep_their_local_ranks(lab: Lab) -> None:
    options = ["--mpi=pmix", "-n4", "-N3", "-m", "arbitrary", "-w", "n2,n0,n0,n1"]
    found = lines(by_srun(lab, options, ["identity"]).stdout)
    assert [(f["rank"], f["host"], f["local"]) for f in found] == [
        (0, "n2", [0, 1]),
        (1, "n0", [0, 2]),
        (2, "n0", [1, 2]),
        (3, "n1", [0, 1]),
    ]


def test_a_step_inside_a_pmix_step_does_not_use_the_outer_steps_pmix(lab: Lab) -> None:
    inner = ["srun", "--overlap", "--mpi=none", "-N1", "-n2", *RANK, "identity"]
    outer = ["salloc", "-N1", "-n2", "srun", "--overlap", "--mpi=pmix", "-n1", *inner]
    found = lines(run_in_lab(lab, outer).stdout)
    assert [(f["rank"], f["world"], f["source"]) for f in found] == [
        (0, 2, "slurm"),
        (1, 2, "slurm"),
    ]


def batch(lab: Lab, folder: Path, body: str, *options: str, wait_s: float = 60) -> tuple[str, str]:
    """Submit ``body``; its output and the line of scontrol with state and exit code."""
    script, output = folder / "job.sbatch", folder / "job.out"
    script.write_text(f"#!/bin/bash\n{body}\n")
    submit = ["sbatch", "--parsable", f"--output={output}", *options, str(script)]
    job = run_in_lab(lab, submit, cwd=folder).stdout.strip()

    def show() -> str:
        return run_in_lab(lab, ["scontrol", "show", "job", job, "-o"]).stdout

    ended = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")
    over = wait_until(
        lambda: any(f"JobState={state} " in show() for state in ended),
        timeout_s=wait_s,
        step_s=0.2,
    )
    assert over, show()
    return output.read_text(), show()


def test_a_batch_script_is_no_rank(lab: Lab, tmp_path: Path) -> None:
    command = " ".join([*RANK, "identity"])
    text, _ = batch(lab, tmp_path, command, "-N2", "--ntasks-per-node=2")
    assert lines(text) == [{"rank": None}]


def test_pmix_ranks_with_a_gpu_each_meet_and_reduce_without_a_master_address(lab: Lab) -> None:
    options = ["--mpi=pmix", *TWO_BY_TWO, "--gpus-per-task=1", "--export=ALL,OMP_NUM_THREADS=1"]
    done = by_srun(lab, options, ["reduce"])
    assert done.returncode == 0, done.stdout + done.stderr
    found = lines(done.stdout)
    assert [(f["sum"], f["source"], f["master"]) for f in found] == [(6.0, "pmix", None)] * 4
    assert [f["gpu"] for f in found] == ["n0/0", "n0/1", "n1/0", "n1/1"]


def test_without_pmix_ranks_meet_although_rank_0_is_not_on_the_first_node(lab: Lab) -> None:
    options = ["--mpi=none", "-n3", "-N2", "-m", "arbitrary", "-w", "n1,n0,n0"]
    done = by_srun(lab, options, ["reduce"])
    assert done.returncode == 0, done.stdout + done.stderr
    found = lines(done.stdout)
    assert [(f["sum"], f["source"], f["master"]) for f in found] == [(3.0, "slurm", None)] * 3


def test_a_missing_libpmix_is_noted_and_done_without(lab: Lab) -> None:
    missing = "CLUSTERLAB_PMIX=ctypes,CLUSTERLAB_LIBPMIX=libnosuch.so"
    options = ["--mpi=pmix", "-N2", "--ntasks-per-node=1", f"--export=ALL,{missing}"]
    done = by_srun(lab, options, ["reduce"])
    assert done.returncode == 0, done.stdout + done.stderr
    found = lines(done.stdout)
    assert [(f["sum"], f["source"]) for f in found] == [(1.0, "slurm")] * 2
    assert all("going on without PMIx: libpmix cannot be" in " ".join(f["notes"]) for f in found)


def test_mpirun_starts_ranks_that_meet_by_pmix() -> None:
    done = by_mpirun(2, ["reduce"], OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [(f["sum"], f["source"]) for f in lines(done.stdout)] == [(1.0, "pmix")] * 2


def test_torchrun_in_a_one_task_step_meets_at_its_own_store(lab: Lab) -> None:
    rendezvous = ["--nnodes=2", "--nproc-per-node=1", "--rdzv-backend=c10d"]
    command = ["srun", "--mpi=pmix", "-N2", "--ntasks-per-node=1", "--export=ALL,OMP_NUM_THREADS=1"]
    command += [*TORCHRUN, *rendezvous, "--rdzv-endpoint=n0:29533", *RANK[1:], "meet"]
    done = run_in_lab(lab, command)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [f["rank"] for f in lines(done.stdout)] == [0, 1]
    assert {f["source"] for f in lines(done.stdout)} == {"torchrun"}


def test_two_ranks_on_one_gpu_are_refused_on_every_rank(lab: Lab) -> None:
    options = ["--mpi=pmix", "-N1", "--ntasks-per-node=2", "--gres=gpu:2", "--gpu-bind=map_gpu:1,1"]
    done = by_srun(lab, options, ["devices"])
    assert done.returncode == 1
    messages = [f["message"] for f in lines(done.stdout)]
    assert [m.partition(";")[0] for m in messages] == [
        "GPU_SHARED_BY_RANKS: ranks [0-1] on n0 share GPU n0/1"
    ] * 2


@pytest.mark.parametrize("mpi", ["pmix", "none"])
def test_a_rank_that_never_arrives_is_named_in_seconds(lab: Lab, mpi: str) -> None:
    start = time.monotonic()
    late = ["meet", "--late", "2", "sleep", "--timeout", "12"]
    options = ["-K1", f"--mpi={mpi}", "-N2", "-n3", "-m", "arbitrary", "-w", "n0,n1,n1"]
    done = by_srun(lab, options, late)
    assert time.monotonic() - start < 55  # the late rank would have slept for 60
    assert done.returncode not in (0, 1)
    errors = lines(done.stdout)
    assert errors, done.stderr
    assert {f["error"] for f in errors} == {"DeadlineError"}
    assert any("rank 2 of 3 did not arrive" in f["message"] for f in errors), errors


def test_a_rank_dead_before_the_rendezvous_ends_the_step(lab: Lab) -> None:
    start = time.monotonic()
    late = ["meet", "--late", "1", "kill", "--timeout", "20"]
    done = by_srun(lab, ["-K1", "--mpi=pmix", "-N2", "--ntasks-per-node=1"], late)
    assert time.monotonic() - start < 55
    assert done.returncode != 0
    assert "task 1: Killed" in done.stderr
