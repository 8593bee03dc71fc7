"""``clusterlab submit`` on a real Slurm without accounting: what it shows, returns and leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from clusterlab.lab import lifecycle
from clusterlab.lab.labs import Lab, enter_command, environment, run
from clusterlab.lab.machine import observe, sized
from clusterlab.records.run_dir import RunDir, open_run

CLUSTERLAB = str(Path(sys.executable).with_name("clusterlab"))
SHAPE = ("--nodes", "2", "--ranks-per-node", "2", "--fabric", "lab-2x4")
TINY = ("-b", "1K", "-e", "16K", "-f", "4", "-n", "2", "-w", "1")
LONG = ("-b", "1K", "-e", "4M", "-f", "1.2", "-n", "100", "-w", "1")
PAIR = ("--nodes", "2", "--ranks-per-node", "1", "--fabric", "lab-2x4")


@pytest.fixture(scope="module")
def small_lab(
    can_hold_labs: None, lab_base: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lab]:
    """The lab of topologies/lab-2x4.yaml."""
    share = [tmp_path_factory.getbasetemp()]
    yield lifecycle.up(sized(observe(), nodes=2, gpus=4), name="submit", base=lab_base, share=share)
    lifecycle.down(name="submit", base=lab_base)


@dataclass(frozen=True)
class Submits:
    """Runs clusterlab on the lab's login host, with a runs folder of its own."""

    lab: Lab
    runs: Path

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        env = {"CLUSTERLAB_RUNS": str(self.runs)}
        return run(self.lab, [CLUSTERLAB, *arguments], cwd=self.runs.parent, env=env, timeout_s=120)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            enter_command(self.lab, [CLUSTERLAB, *arguments], cwd=self.runs.parent),
            env=environment(self.lab) | {"CLUSTERLAB_RUNS": str(self.runs)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run_dir(self) -> RunDir:
        (only,) = self.runs.iterdir()
        return open_run(only)

    def job_id(self) -> str:
        return str(json.loads((self.run_dir().path / "submit" / "job.json").read_text())["job_id"])

    def wait_for_rows(self, count: int) -> None:
        end = time.monotonic() + 100
        while time.monotonic() < end:
            files = list(self.runs.glob("*/records.jsonl"))
            if files and files[0].read_bytes().count(b"\n") >= count:
                return
            time.sleep(0.1)
        raise AssertionError(f"no {count} rows in {list(self.runs.glob('*/submit/*'))}")

    def rank_pids(self) -> dict[int, int]:
        """The pid on this machine of every rank of the job."""
        mine = f"CLUSTERLAB_RUN_DIR={self.run_dir().path}".encode()
        found = {}
        for proc in Path("/proc").glob("[0-9]*"):
            try:
                words = (proc / "environ").read_bytes().split(b"\0")
                command = (proc / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if mine in words and b"submitit.core._submit" in command and b"srun" not in command:
                ranks = [int(w[10:]) for w in words if w.startswith(b"PMIX_RANK=")]
                found |= {rank: int(proc.name) for rank in ranks}
        return found


@pytest.fixture
def submits(small_lab: Lab, tmp_path: Path) -> Iterator[Submits]:
    """Submits in the lab; no job of the test outlives it."""
    yield Submits(small_lab, tmp_path / "runs")
    run(small_lab, ["scancel", "--full", "--me"])


def test_a_sweep_runs_as_a_job_and_shows_its_table(submits: Submits) -> None:
    done = submits("submit", "all_reduce", *SHAPE, *TINY, "--requeue")
    assert done.returncode == 0, done.stderr
    found = submits.run_dir()
    rows = found.records().rows
    assert len(rows) == found.info.planned_points == 3 * 2
    assert not any(r.wrong for r in rows)
    assert {r.world_size for r in rows} == {4}
    assert [line.split()[0] for line in done.stdout.splitlines() if not line.startswith("#")] == [
        "1024",
        "4096",
        "16384",
    ]
    assert "on         n1 device  1" in done.stdout
    assert f"job {submits.job_id()} is running on n[0-1]" in done.stderr
    said = done.stderr.splitlines()
    assert any(
        line.startswith("clusterlab: 6 of 6 points measured; verdict ") for line in said[-3:]
    )
    assert said[-1] == f"clusterlab: report {found.report_path}"
    assert found.info.attempts[0].context.environment["PMIX_RANK"] == "0"
    assert "sacct" not in done.stderr
    # a job that has ended can be followed too: its table and its verdict again
    again = submits("follow", str(found.path))
    assert (again.returncode, again.stdout) == (0, done.stdout)


def test_a_killed_task_is_named_and_the_rows_are_kept(submits: Submits) -> None:
    waiting = submits.start("submit", "all_reduce", *SHAPE, *LONG)
    submits.wait_for_rows(3)
    os.kill(submits.rank_pids()[3], signal.SIGKILL)
    _, err = waiting.communicate(timeout=60)
    assert waiting.returncode == 4
    assert "rank 3 on n1 was ended by signal 9 (SIGKILL)" in err
    assert "Traceback" not in err
    found = submits.run_dir()
    assert len(found.records().rows) >= 3
    assert found.info.attempts[-1].exit_code == 4
    assert found.report_path.exists()


def test_ctrl_c_stops_the_waiting_and_scancel_the_job(submits: Submits) -> None:
    waiting = submits.start("submit", "all_reduce", *PAIR, *LONG)
    submits.wait_for_rows(2)
    waiting.send_signal(signal.SIGINT)
    _, err = waiting.communicate(timeout=30)
    assert waiting.returncode == 130
    assert f"cancel it: scancel {submits.job_id()}" in err
    seen = len(submits.run_dir().records().rows)
    submits.wait_for_rows(seen + 1)  # the job goes on
    following = submits.start("follow", str(submits.run_dir().path))
    run(submits.lab, ["scancel", submits.job_id()])
    _, err = following.communicate(timeout=60)
    assert following.returncode == 4
    assert "it was cancelled" in err
    assert len(submits.run_dir().records().rows) > seen
    assert not submits.rank_pids()


def test_what_the_ranks_refuse_is_the_jobs_exit_code(submits: Submits) -> None:
    # the design knows no bandwidth between two ranks of one node: only the ranks can find that out
    where = ("--nodes", "1", "--ranks-per-node", "2", "--fabric", "lab-2x4")
    done = submits("submit", "all_reduce", *where, *TINY)
    assert done.returncode == 2
    assert "exit code 2" in done.stderr
    assert "no bandwidth is known between the ranks" in done.stderr


def test_a_run_directory_that_the_nodes_do_not_see_is_explained(submits: Submits) -> None:
    elsewhere = Submits(submits.lab, Path("/tmp/only-on-the-login-host/runs"))
    done = run(
        submits.lab,
        [CLUSTERLAB, "submit", "all_reduce", *SHAPE, *TINY],
        cwd=submits.runs.parent,
        env={"CLUSTERLAB_RUNS": str(elsewhere.runs)},
    )
    assert done.returncode == 4
    assert "its nodes could not write to the run directory" in done.stderr


def test_a_dry_run_prints_a_script_that_this_slurm_takes(submits: Submits, tmp_path: Path) -> None:
    printed = submits("submit", "all_gather", *SHAPE, *TINY, "--dry-run")
    assert printed.returncode == 0, printed.stderr
    assert not submits.runs.exists()
    script = tmp_path / "job.sbatch"
    script.write_text(printed.stdout)
    tested = run(submits.lab, ["sbatch", "--test-only", str(script)])
    assert tested.returncode == 0, tested.stderr
    assert "using 32 processors on nodes n[0-1]" in tested.stderr


def test_what_sbatch_refuses_leaves_nothing(submits: Submits) -> None:
    done = submits("submit", "all_reduce", *SHAPE, *TINY, "--partition", "nosuch")
    assert done.returncode == 2
    assert done.stderr.count("nosuch") == 1
    assert list(submits.runs.iterdir()) == []
