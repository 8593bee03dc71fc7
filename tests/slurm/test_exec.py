"""``clusterlab exec`` as every task of a real step: tags, exit codes, scancel, masks as Slurm gives them."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

from clusterlab.core.shipped import shipped
from clusterlab.lab.labs import Lab, run
from clusterlab.lab.processes import wait_until

CLUSTERLAB = str(Path(sys.executable).with_name("clusterlab"))
TWO_BY_TWO = ("--mpi=pmix", "-N2", "-wn0,n1", "--ntasks-per-node=2", "--gpus-per-node=2")


def srun(lab: Lab, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return run(lab, ["srun", *words], timeout_s=120, cwd=cwd)


def test_lines_of_both_streams_carry_rank_host_and_gpu(lab: Lab) -> None:
    script = "echo out; echo err >&2"
    done = srun(lab, *TWO_BY_TWO, CLUSTERLAB, "exec", "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    tags = [f"[rank {r} n{r // 2} gpu nvidia{r % 2}]" for r in range(4)]
    assert sorted(done.stdout.splitlines()) == [f"{tag} out" for tag in tags]
    said = [
        line for line in done.stderr.splitlines() if not line.startswith("srun: job ")
    ]  # queued
    assert sorted(said) == [f"{tag} err" for tag in tags]


def test_the_gpu_is_the_one_the_mask_leaves(lab: Lab) -> None:
    options = ("--mpi=none", "-N1", "-n2", "--gpus=4", "--gpu-bind=map_gpu:3,1")
    done = srun(lab, *options, CLUSTERLAB, "exec", "--", "printenv", "CUDA_VISIBLE_DEVICES")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [
        "[rank 0 n0 gpu nvidia3] 3",
        "[rank 1 n0 gpu nvidia1] 1",
    ]


def test_binding_leaves_each_rank_one_gpu_and_cores_of_its_own_next_to_it(lab: Lab) -> None:
    show = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'], *sorted(os.sched_getaffinity(0)))"
    bind = (CLUSTERLAB, "exec", "--bind", "gpu,cpu", "--", sys.executable, "-c", show)
    options = ("--mpi=pmix", "-N1", "-n4", "-c4", "--gpus=8", "--cpu-bind=none")
    done = srun(lab, *options, *bind)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    found = sorted(line.split() for line in done.stdout.splitlines())
    assert [line[5] for line in found] == ["0", "1", "2", "3"]
    cores = [set(map(int, line[6:])) for line in found]
    assert all(cores), found
    assert sum(map(len, cores)) == len(set().union(*cores))


def test_a_rank_that_exits_with_3_gives_3(lab: Lab) -> None:
    script = "exit $((SLURM_PROCID == 2 ? 3 : 0))"
    done = srun(lab, *TWO_BY_TWO, CLUSTERLAB, "exec", "--", "bash", "-c", script)
    assert done.returncode == 3, done.stderr


def test_a_rank_that_a_signal_ends_is_reported_as_without_exec(lab: Lab) -> None:
    script = '[ "$SLURM_PROCID" != 1 ] || kill -SEGV $$'
    alone = srun(lab, *TWO_BY_TWO, "bash", "-c", script)
    done = srun(lab, *TWO_BY_TWO, CLUSTERLAB, "exec", "--", "bash", "-c", script)
    assert done.returncode == alone.returncode == 128 + 11
    said = [re.search(r"task 1: .*", text) for text in (alone.stderr, done.stderr)]
    assert said[0] and said[1], done.stderr
    assert said[0][0] == said[1][0]


def test_the_command_hears_of_a_signal_once_and_scancel_ends_everything(
    lab: Lab, tmp_path: Path
) -> None:
    heard = tmp_path / "heard"
    script = tmp_path / "rank.sh"
    script.write_text(
        f"trap 'echo usr1 >> {heard}.$SLURM_PROCID' USR1\n"
        f"touch {heard}.up.$SLURM_PROCID\nwhile :; do sleep 0.1; done\n"
    )
    job = tmp_path / "job.sh"
    step = f"srun {' '.join(TWO_BY_TWO)} {CLUSTERLAB} exec -- bash {script}"
    job.write_text(f"#!/bin/bash\nexport CLUSTERLAB_TEST={heard}\n{step}\n")
    options = ["-N2", "-wn0,n1", "--ntasks-per-node=2", "--gpus-per-node=2", f"-o{tmp_path}/out"]
    done = run(lab, ["sbatch", *options, str(job)], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    job_id = done.stdout.split()[-1]
    up = [tmp_path / f"heard.up.{rank}" for rank in range(4)]
    assert wait_until(lambda: all(p.exists() for p in up), timeout_s=60), done.stdout
    assert len(processes(heard)) >= 4 * 3
    said = [tmp_path / f"heard.{rank}" for rank in range(4)]
    for times in (
        1,
        2,
    ):  # to the step alone: a job's SIGTERM reaches the tasks through srun as well
        run(lab, ["scancel", "--signal=USR1", f"{job_id}.0"])
        wanted = "usr1\n" * times
        assert wait_until(
            lambda wanted=wanted: all(p.exists() and p.read_text() >= wanted for p in said),
            timeout_s=60,
        )
    time.sleep(0.5)  # long enough for a second one to arrive
    assert [p.read_text() for p in said] == ["usr1\nusr1\n"] * 4
    run(lab, ["scancel", job_id])
    assert wait_until(lambda: not processes(heard), timeout_s=60), processes(heard)


def test_launch_sh_tags_what_the_rank_prints(lab: Lab) -> None:
    launch = str(shipped("slurm") / "launch.sh")
    given = f"--export=ALL,CLUSTERLAB={CLUSTERLAB}"
    done = srun(lab, *TWO_BY_TWO, given, launch, "sh", "-c", "echo out")
    assert sorted(done.stdout.splitlines())[3] == "[rank 3 n1 gpu nvidia1] out", done.stderr
    only = srun(
        lab, *TWO_BY_TWO, given, launch, "--tag=stderr", "sh", "-c", "echo out; echo err >&2"
    )
    assert only.stdout.splitlines() == ["out"] * 4
    assert "[rank 2 n1 gpu nvidia0] err" in only.stderr.splitlines()


def processes(marker: Path) -> list[int]:
    """Processes on this machine whose environment carries the job's marker."""
    word, found = f"CLUSTERLAB_TEST={marker}".encode(), []
    for proc in Path("/proc").glob("[0-9]*"):
        try:
            if word in (proc / "environ").read_bytes().split(b"\0"):
                found.append(int(proc.name))
        except OSError:
            continue
    return found
