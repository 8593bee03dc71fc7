"""A lab of eight nodes in trouble: slow links, a stopped rank, wrong data, dead ranks, a dead node."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusterlab.core.findings import Finding
from clusterlab.lab import faults, lifecycle
from clusterlab.lab.labs import Lab, enter_command, environment, run
from clusterlab.records.documents import read_findings, read_placement
from tests.slurm.conftest import wait_for_state
from tests.slurm.fabric_labs import fabric_lab
from tests.slurm.jobs import Submitted, program

FABRIC = "lab-8x1"


@pytest.fixture(scope="module")
def eight(
    can_hold_labs: None, lab_base: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lab]:
    """The lab of lab-8x1. A test leaves it whole and idle."""
    with fabric_lab(FABRIC, "eight", lab_base, tmp_path_factory.getbasetemp()) as lab:
        yield lab


class Step:
    """``clusterlab bench ARGUMENTS`` by srun, a rank on each of ``nodes`` nodes."""

    def __init__(self, lab: Lab, folder: Path, nodes: int, *arguments: str) -> None:
        folder.mkdir()
        self.job = Submitted(lab, folder, {}, 0)
        # The last rank is waited for 2 s, not the job files' 30.
        command = ["srun", "--mpi=pmix", "--wait=2", f"-N{nodes}", "--ntasks-per-node=1", program(),
                   "bench", *arguments, "--fabric", FABRIC]  # fmt: skip
        self.process = subprocess.Popen(
            enter_command(lab, command, cwd=folder),
            env=environment(lab) | {"CLUSTERLAB_RUNS": str(folder / "runs")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self) -> tuple[str, tuple[Finding, ...]]:
        """Wait for it; what it said on stderr, and its findings."""
        said = self.process.communicate(timeout=100)[1]
        return said, read_findings(self.job.run_dir().path)

    def host_of(self, rank: int) -> str:
        """Where a rank is."""
        placement = read_placement(self.job.run_dir().path)
        assert placement is not None
        return placement.ranks[rank].host


def sweep(lab: Lab, folder: Path, *more: str) -> Step:
    """An all_reduce sweep over 4 nodes, longer than a test, that has three rows."""
    step = Step(lab, folder, 4, "all_reduce", "-b", "1K", "-e", "4M", "-f", "2", "-n", "60", *more)
    step.job.wait_for_rows(3)
    return step


def ended_with_4(step: Step) -> bool:
    """Every finished row is there, and run.json has the end."""
    (attempt,) = step.job.run_dir().info.attempts
    whole = len(step.job.rows()) >= 3 and attempt.ended_utc is not None
    return whole and attempt.exit_code == 4


def test_slow_links_are_named_by_pairs(eight: Lab, tmp_path: Path) -> None:
    """A NIC's cable and an uplink; the fabric that is named is whole."""
    faults.degrade(eight, ["n6/nic0"], "half")
    faults.degrade(eight, ["leaf0/spine1"], "30%")
    try:
        step = Step(
            eight, tmp_path / "job", 8, "pairs", "-b", "256K", "-e", "256K", "-n", "2", "-w", "1"
        )
        said, findings = step.end()
    finally:
        faults.heal(eight, [])
    assert step.process.returncode == 0, said
    named = [line.split("slow link: ")[1] for line in said.splitlines() if "slow link: " in line]
    assert sorted(line.split(":")[0] for line in named) == ["leaf0 ↔ spine1", "n6/nic0 ↔ leaf3"]
    assert {f.code for f in findings} == {"SLOW_LINK"}


@pytest.mark.parametrize("victim", [0, 2])
def test_a_stopped_rank_is_named_with_host_and_pid(eight: Lab, tmp_path: Path, victim: int) -> None:
    step = sweep(eight, tmp_path / "job", "--deadline", "3")
    os.kill(step.job.pid_of_rank(victim), signal.SIGSTOP)
    said, (found,) = step.end()
    assert step.process.returncode != 0
    assert (found.code, found.ranks) == ("RANK_DOES_NOT_ANSWER", (victim,))
    assert f"rank {victim} on {step.host_of(victim)} (pid " in found.evidence[0]
    assert "its host does, it is stopped or held up" in found.evidence[0]
    assert found.evidence[0] in said
    assert found.evidence[1].startswith("last finished: all_reduce float32 sum ")
    assert ended_with_4(step)
    left = step.job.run_dir().path / "trouble" / "attempt-1"
    others = {f"rank-{r}.stacks.txt" for r in range(4) if r != victim}
    assert {p.name for p in left.glob("*.txt")} == others
    report = run(eight, [program(), "report", str(step.job.run_dir().path), "--no-html"])
    assert f"fatal: RANK_DOES_NOT_ANSWER ranks {victim}" in report.stdout


@pytest.mark.parametrize("victim", [0, 2])
def test_a_killed_rank_is_named_by_those_that_lost_it(
    eight: Lab, tmp_path: Path, victim: int
) -> None:
    step = sweep(eight, tmp_path / "job")
    os.kill(step.job.pid_of_rank(victim), signal.SIGKILL)
    said, (found,) = step.end()
    assert (found.code, found.ranks) == ("RANK_DIED", (victim,)), said
    assert f"rank {victim} on {step.host_of(victim)} (pid " in found.evidence[0]
    assert ended_with_4(step)


def test_wrong_data_ends_the_job_with_the_first_wrong_element(eight: Lab, tmp_path: Path) -> None:
    step = Step(eight, tmp_path / "job", 4, "all_reduce", "-b", "1K", "-e", "64K", "-f", "4", "-n", "1",
                "-w", "0", "--corrupt", "3:17")  # fmt: skip
    said, (found,) = step.end()
    assert step.process.returncode == 1, said
    (row,) = step.job.rows()
    assert (row.wrong, row.wrong_rank, row.wrong_index) == (1, 3, 17)
    assert "the first on rank 3 at index 17: expected" in found.evidence[0]


def test_a_dead_node_is_named_before_slurm_notices(eight: Lab, tmp_path: Path) -> None:
    step = sweep(eight, tmp_path / "job", "--deadline", "3")
    host = step.host_of(3)
    lifecycle.kill_node(eight, host)
    try:
        said, (found,) = step.end()
        # Power cut: the node's kernel may still have answered for the process when it was asked for.
        assert found.code in ("NODE_UNREACHABLE", "RANK_DIED"), said
        assert found.ranks == (3,)
        assert f"rank 3 on {host} (pid " in found.evidence[0]
        assert ended_with_4(step)
    finally:
        lifecycle.boot_node(eight, host)
        wait_for_state(eight, host, "idle")
