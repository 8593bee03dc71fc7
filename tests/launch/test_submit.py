"""Submitting through submitit without a Slurm: small programs stand for sbatch, srun and scontrol."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.formats.scontrol import JobRecord
from clusterlab.launch.site import Site
from clusterlab.launch.submit import Submission, SubmittedJob, parameters, render, submit
from clusterlab.launch.submit_end import judge_job
from clusterlab.launch.submit_state import SilentError, ask_job

Program = Callable[[str, str], None]
"""Puts a shell program of that name on PATH."""

TASK = partial(print, "a task")
SITE = Site(
    partition="h100", account="my account", qos="high", gres_style="gres", modules=("cuda/12.4", "m x")
)  # fmt: skip


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """PATH holds a shell and nothing of Slurm but what the test puts there."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "cat", "env", "bash"):
        (folder / name).symlink_to(f"/usr/bin/{name}")
    monkeypatch.setenv("PATH", str(folder))

    def put(name: str, body: str) -> None:
        path = folder / name
        path.write_text(f"#!/usr/bin/sh\n{body}\n")
        path.chmod(0o755)

    return put


@pytest.fixture
def job(tmp_path: Path) -> Submission:
    folder = tmp_path / "run" / "submit"
    folder.mkdir(parents=True)
    return Submission(
        name="all_reduce",
        folder=folder,
        site=Site(),
        nodes=2,
        ranks_per_node=4,
        gpus_per_node=4,
        time_limit="00:30:00",
        exports={"CLUSTERLAB_RUN_DIR": str(folder.parent)},
    )


def directives(text: str) -> dict[str, str]:
    """Every #SBATCH line, unquoted as sbatch does."""
    lines = [x for x in text.splitlines() if x.startswith("#SBATCH ")]
    words = [shlex.split(line.removeprefix("#SBATCH --")) for line in lines]
    assert all(len(w) == 1 for w in words)
    return {name: value for name, _, value in (w[0].partition("=") for w in words)}


def srun_of(text: str) -> list[str]:
    (line,) = [x for x in text.splitlines() if x.startswith("srun ")]
    return shlex.split(line)


def test_the_script_asks_for_the_nodes_and_starts_every_rank_by_pmix(job: Submission) -> None:
    text = render(job, TASK)
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    asked = directives(text)
    assert (asked["nodes"], asked["ntasks-per-node"], asked["gpus-per-node"]) == ("2", "4", "4")
    assert (asked["time"], asked["job-name"]) == ("00:30:00", "all_reduce")
    assert (asked["chdir"], asked["requeue"]) == (str(job.folder), "")
    assert {"partition", "account", "qos", "gres", "wckey", "no-requeue"}.isdisjoint(asked)
    srun = srun_of(text)
    assert {"--mpi=pmix", "--nodes=2", "--ntasks=8", "--ntasks-per-node=4"} <= set(srun)
    launcher = srun.index(sys.executable) - 2
    assert srun[launcher].endswith("slurm/launch.sh")
    assert srun[-3:] == ["-m", "submitit.core._submit", str(job.folder)]
    assert f"export CLUSTERLAB_RUN_DIR={job.folder.parent}" in text
    assert "run_step" in text


def test_the_sites_words_are_in_the_script(job: Submission) -> None:
    text = render(replace(job, site=SITE, requeue=False), TASK)
    asked = directives(text)
    assert (asked["partition"], asked["account"], asked["qos"]) == ("h100", "my account", "high")
    assert (asked["gres"], asked["no-requeue"]) == ("gpu:4", "")
    assert {"gpus-per-node", "requeue"}.isdisjoint(asked)
    assert "module load cuda/12.4\nmodule load 'm x'\n" in text
    assert "gres" not in directives(render(replace(job, site=SITE, gpus_per_node=0), TASK))


words = st.text(st.characters(codec="ascii", categories=["L", "N", "P", "S", "Zs"]), min_size=1)


@given(words, words)
def test_hostile_values_stay_one_word(partition: str, value: str) -> None:
    site = Site(partition=partition, modules=(value,))
    submission = Submission(
        "x", Path("/run/submit"), site, 1, 1, 0, "5", exports={"CLUSTERLAB_X": value}
    )
    setup = parameters(submission)["setup"]
    assert ["module", "load", value] in [shlex.split(x) for x in setup[1:2]]
    assert ["export", f"CLUSTERLAB_X={value}"] in [shlex.split(x) for x in setup[2:3]]


def test_rendering_needs_no_slurm_and_submits_nothing(
    job: Submission, program: Program, tmp_path: Path
) -> None:
    before = dict(os.environ)
    assert "srun " in render(job, TASK)
    program("sbatch", f"echo called > {tmp_path}/called")
    assert "srun " in render(job, TASK)
    assert not (tmp_path / "called").exists()
    assert dict(os.environ) == before


def submit_here(
    job: Submission, program: Program, tmp_path: Path
) -> tuple[SubmittedJob, dict[str, str]]:
    """Submit with an sbatch that keeps its environment."""
    program("sbatch", f"env -0 > {tmp_path}/environ; echo 'Submitted batch job 41 on cluster x'")
    program("srun", "exit 1")
    program("scontrol", "exit 1")
    submitted = submit(job, TASK)
    pairs = (tmp_path / "environ").read_text().split("\0")[:-1]
    return submitted, dict(p.split("=", 1) for p in pairs)


def test_a_submitted_job_has_its_id_its_script_and_its_call(
    job: Submission, program: Program, tmp_path: Path
) -> None:
    submitted, _ = submit_here(job, program, tmp_path)
    assert submitted == SubmittedJob("41", job.folder)
    assert submitted.script.read_text() == render(job, TASK).replace("/0_", "/41_")
    assert (job.folder / "41_submitted.pkl").exists()
    assert directives(submitted.script.read_text())["output"].endswith("/%j_batch.log")
    assert submitted.batch_log == job.folder / "41_batch.log"


def test_what_this_process_is_part_of_does_not_reach_the_job(
    job: Submission, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inherited = {
        "SLURM_JOB_ID": "7",
        "SLURM_NTASKS": "99",
        "PMIX_RANK": "3",
        "RANK": "3",
        "MASTER_ADDR": "n9",
        "SBATCH_WAIT": "1",
        "SBATCH_TIMELIMIT": "1",
        "SBATCH_GPUS_PER_NODE": "1",
    }
    kept = {"SLURM_CONF": "/etc/x", "SBATCH_PARTITION": "mine", "NCCL_DEBUG": "WARN"}
    for name, value in {**inherited, **kept}.items():
        monkeypatch.setenv(name, value)
    before = dict(os.environ)
    _, seen = submit_here(job, program, tmp_path)
    assert not set(inherited) & set(seen)
    assert {k: seen.get(k) for k in kept} == kept
    assert dict(os.environ) == before
    # sbatch lets SBATCH_PARTITION overrule the script, so a partition that was asked for hides it
    _, seen = submit_here(replace(job, site=SITE), program, tmp_path)
    assert "SBATCH_PARTITION" not in seen


def test_what_sbatch_refuses_is_said_once(
    job: Submission, program: Program, capfd: pytest.CaptureFixture[str]
) -> None:
    program("sbatch", "echo 'sbatch: error: Batch job submission failed: No partition' >&2; exit 1")
    program("srun", "exit 1")
    program("squeue", "exit 1")
    with pytest.raises(UsageError) as error:
        submit(job, TASK)
    assert str(error.value) == "sbatch: Batch job submission failed: No partition"
    assert capfd.readouterr().err == ""


def test_a_host_without_slurm_is_told_what_is_missing(job: Submission, program: Program) -> None:
    with pytest.raises(UsageError, match="no sbatch, no srun, no scontrol") as error:
        submit(job, TASK)
    assert "clusterlab lab up" in str(error.value)
    program("sbatch", "")
    program("squeue", "")
    with pytest.raises(UsageError, match=r"^submit: no srun on PATH"):
        submit(job, TASK)


RUNNING = "JobId=41 JobName=x UserId=me(1) JobState=RUNNING Reason=None NodeList=n0 ExitCode=0:0"


def test_the_state_comes_from_scontrol_and_else_from_squeue(program: Program) -> None:
    program("squeue", "echo '41|PENDING||Priority'")
    assert ask_job("41") == JobRecord("41", "PENDING", "Priority")
    program("scontrol", f'[ "$*" = "show job --oneliner 41" ] && echo "{RUNNING}"')
    asked = ask_job("41")
    assert asked is not None
    assert (asked.state, asked.nodes) == ("RUNNING", "n0")


def test_a_forgotten_job_is_none_and_a_silent_slurmctld_an_error(program: Program) -> None:
    program("scontrol", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    assert ask_job("41") is None
    program(
        "scontrol", "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1"
    )
    with pytest.raises(SilentError, match="Unable to contact"):
        ask_job("41")
    program("scontrol", "exit 1")
    with pytest.raises(SilentError, match="exit code 1"):
        ask_job("41")


def failed(exit_status: int | None, exit_signal: int = 0, state: str = "FAILED") -> JobRecord:
    fields = {"TimeLimit": "00:30:00"}
    return JobRecord("41", state, "why", "n[0-1]", exit_status, exit_signal, fields=fields)


KILLED = "srun: error: n0: task 0: Terminated\nsrun: error: n1: task 3: Killed\n"
HEEDED = "srun: error: n1: tasks 2-3: Exited with exit code 143\n"
FOUR = "srun: error: n0: tasks 0-1: Exited with exit code 4\n"


@pytest.mark.parametrize(
    ("job", "log", "sweep", "code", "reason"),
    [
        (failed(0, state="COMPLETED"), "", 0, 0, None),
        (failed(0, state="COMPLETED"), "", None, 4, "its sweep did not end"),
        (failed(0, state="COMPLETED"), "", 4, 4, "its sweep did not end"),
        (failed(4), KILLED + FOUR, 4, 4, "rank 3 on n1 was ended by signal 9 (SIGKILL)"),
        (failed(4), FOUR + KILLED, None, 4, "rank 3 on n1 was ended by signal 9 (SIGKILL)"),
        (failed(4), FOUR, 4, 4, "ranks [0-1] on n0 ended with exit code 4"),
        (failed(4), FOUR + FOUR.replace("4", "1"), 1, 1, "exit code 1"),
        (failed(4), FOUR.replace("4", "127"), None, 4, "exit code 127"),
        (failed(4), "srun: error: n0: task 0: Terminated", None, 4, "signal 15 (SIGTERM)"),
        (failed(4), HEEDED + KILLED, 143, 4, "rank 3 on n1 was ended by signal 9 (SIGKILL)"),
        (failed(4), HEEDED + FOUR, 4, 4, "ranks [0-1] on n0 ended with exit code 4"),
        (failed(1), HEEDED + FOUR.replace("4", "1"), 1, 1, "exit code 1"),
        (failed(4), HEEDED, 143, 4, "exit code 143"),
        (failed(2), "", None, 2, "exit code 2"),
        (failed(None), "", 1, 1, "exit code 1"),
        (failed(127), "", None, 4, "exit code 127"),
        (failed(None), "", None, 4, "job 41 failed"),
        (failed(0, 53), "", None, 4, "all nodes share"),
        (failed(0, 9), "", None, 4, "its script was ended by signal 9 (SIGKILL)"),
        (failed(0, 15, "CANCELLED"), KILLED, 143, 4, "it was cancelled"),
        (failed(0, 15, "TIMEOUT"), "", None, 4, "it reached its time limit (00:30:00)"),
        (failed(0, 9, "NODE_FAIL"), "", None, 4, "a node failed (one of n[0-1])"),
        (failed(0, 9, "NODE_FAIL"), "srun: error: Node failure on n1", 4, 4, "a node failed (n1)"),
        (failed(0, 0, "OUT_OF_MEMORY"), "", None, 4, "it ran out of memory"),
        (failed(4, state="COMPLETING"), FOUR, 4, 4, "exit code 4"),
        (None, "", 0, 0, None),
        (None, "", 1, 1, "exit code 1"),
        (None, "", None, 4, "no longer knows job 41"),
    ],
)
def test_what_an_end_means(
    job: JobRecord | None, log: str, sweep: int | None, code: int, reason: str | None
) -> None:
    end = judge_job("41", job, log, sweep)
    assert end.exit_code == code
    assert (end.reason is None) == (code == 0)
    assert reason is None or reason in (end.reason or "")


def test_the_log_that_says_more_is_named() -> None:
    assert judge_job("41", failed(4), FOUR, 4).rank == 0
    assert judge_job("41", failed(4), KILLED, 4).rank is None
    assert judge_job("41", failed(127), "", None).see_batch_log
    assert not judge_job("41", failed(0, 15, "CANCELLED"), "", None).see_batch_log


@given(st.integers(0, 255), st.integers(0, 64), st.sampled_from(["FAILED", "TIMEOUT", "CANCELLED"]))
def test_a_job_that_failed_is_never_fine(status: int, number: int, state: str) -> None:
    end = judge_job("41", failed(status, number, state), "", None)
    assert end.exit_code in (1, 2, 3, 4)
    assert end.reason
    assert json.dumps(end.exit_code)
