"""``clusterlab doctor`` on a real Slurm: healthy steps silent, broken ones named."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clusterlab.lab.labs import Lab, run
from tests.slurm.jobs import submit

DOCTOR = str(Path(sys.executable).with_name("clusterlab"))
TWO_BY_TWO = ("-N2", "--ntasks-per-node=2")


def srun(lab: Lab, *words: str) -> subprocess.CompletedProcess[str]:
    return run(lab, ["srun", *words], timeout_s=120)


def found(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_the_job_of_two_nodes_with_four_ranks_each_is_silent(lab: Lab, tmp_path: Path) -> None:
    job = submit(
        lab, tmp_path / "job", "doctor", options=("-N2", "--gpus-per-node=4"), RANKS_PER_NODE="4"
    )
    assert job.exit_code() == 0, job.output()
    lines = job.output().splitlines()
    assert lines[0] == (
        "# clusterlab doctor: 8 ranks on 2 hosts (n[0-1]), identity from pmix (slurm > pmix)"
    )
    rows = [line.split() for line in lines if not line.startswith("#")][1:]
    assert [row[:3] for row in rows] == [[str(r), f"n{r // 4}", str(r % 4)] for r in range(8)]
    assert lines[-1] == "# no findings"
    assert not (tmp_path / "job/runs").exists()


def test_without_pmix_the_ranks_are_joined_too(lab: Lab) -> None:
    done = srun(lab, "--mpi=none", "-N2", "-n2", "--gpus-per-task=1", DOCTOR, "doctor", "--json")
    assert done.returncode == 0, done.stderr
    report = found(done)
    assert (report["ranks"], report["missing_ranks"]) == (2, [])
    # one core per task, as asked for: told, no alarm
    assert {f["severity"] for f in report["findings"]} <= {"info"}
    assert done.stderr == ""


@pytest.mark.parametrize("late", [2, 0])
def test_a_rank_that_never_arrives_is_named_and_the_others_are_shown(
    lab: Lab, tmp_path: Path, late: int
) -> None:
    over = tmp_path / "over"
    script = (
        f'if [ "$SLURM_PROCID" = {late} ]; then until [ -e {over} ]; do sleep 0.1; done; exit 0; fi;'
        f" {DOCTOR} doctor --deadline 4; code=$?; touch {over}; exit $code"
    )
    options = ["--mpi=pmix", "-N2", "-n3", "-m", "arbitrary", "-w", "n0,n1,n1"]
    done = srun(lab, *options, "bash", "-c", script)
    assert done.returncode == 4, done.stdout + done.stderr
    assert f"fatal RANK_MISSING (rank {late})" in done.stdout, done.stdout + done.stderr
    assert f"1 of 3 ranks did not arrive: {late}" in done.stdout
    rows = [line.split()[:2] for line in done.stdout.splitlines() if line[:1].isdigit()]
    assert rows == [[str(r), "n0" if r == 0 else "n1"] for r in range(3) if r != late]
    assert "Traceback" not in done.stderr


def test_one_core_for_all_is_found(lab: Lab) -> None:
    done = srun(lab, "--mpi=pmix", "-N1", "-n2", "--cpu-bind=map_cpu:0", DOCTOR, "doctor", "--json")
    assert done.returncode == 1, done.stderr
    codes = [(f["code"], f["ranks"]) for f in found(done)["findings"]]
    assert codes == [("CPU_SINGLE_CORE", [0, 1])]


def test_launchers_that_contradict_each_other_are_joined_and_named(lab: Lab) -> None:
    exported = "--export=ALL,RANK=0,WORLD_SIZE=1"
    done = srun(lab, "--mpi=none", *TWO_BY_TWO, exported, DOCTOR, "doctor", "--json")
    assert done.returncode == 1, done.stderr
    report = found(done)
    assert (report["ranks"], report["missing_ranks"]) == (4, [])
    codes = {f["code"]: f for f in report["findings"]}
    assert codes["RANK_SINGLETON"]["ranks"] == [0, 1, 2, 3]
    order = ["code", "severity", "ranks", "evidence", "fix", "caused_by"]
    assert all(list(f) == order for f in report["findings"])
