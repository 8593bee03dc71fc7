"""A lab that is up, as its user sees it."""

from __future__ import annotations

import csv
import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.lab import labs, lifecycle
from clusterlab.lab.labs import Lab, run
from clusterlab.lab.machine import observe, sized
from clusterlab.lab.processes import wait_until
from tests.support import shared_dir

HERE = Path(__file__).parent


def task(code: str) -> list[str]:
    """A task of Python code that needs the standard library only."""
    return [sys.executable, "-S", "-c", code]


def test_every_node_is_idle_and_the_daemons_run(lab: Lab) -> None:
    now = labs.status(lab)
    assert now.healthy
    assert [node.state for node in now.nodes] == ["idle"] * 4
    assert now.daemons == {"munged": "running", "slurmctld": "running"}


def test_srun_starts_tasks_on_hosts_that_know_their_own_names(lab: Lab) -> None:
    code = "import socket; h = socket.gethostname(); print(h, socket.gethostbyname(h))"
    found = run(lab, ["srun", "-N4", "--ntasks-per-node=2", *task(code)])
    assert found.returncode == 0, found.stderr
    expected = [f"n{i} 10.77.0.{10 + i}" for i in range(4)]
    assert sorted(found.stdout.splitlines()) == sorted(expected * 2)


def test_sbatch_runs_a_script_from_the_working_directory(lab: Lab, tmp_path: Path) -> None:
    script = tmp_path / "job.sbatch"
    script.write_text("#!/bin/sh\nsrun -l hostname\necho $SLURM_JOB_GPUS\nexit 3\n")
    found = run(
        lab, ["sbatch", "-N2", "--gpus-per-node=2", "--parsable", script.name], cwd=tmp_path
    )
    job = found.stdout.strip()
    assert found.returncode == 0, found.stderr

    def show() -> str:
        return run(lab, ["scontrol", "show", "job", job]).stdout

    assert wait_until(lambda: "JobState=FAILED" in show(), timeout_s=30, step_s=0.1), show()
    assert "ExitCode=3:0" in show()
    lines = (tmp_path / f"slurm-{job}.out").read_text().splitlines()
    assert sorted(line.split(": ")[0] for line in lines[:2]) == ["0", "1"]
    assert lines[2] == "0,1"


def test_pmix_carries_data_between_nodes(lab: Lab) -> None:
    client = [sys.executable, "-S", str(HERE / "pmix_client.py")]
    found = run(lab, ["srun", "--mpi=pmix", "-N2", "--ntasks-per-node=4", *client])
    assert found.returncode == 0, found.stderr
    lines = sorted(found.stdout.splitlines())
    blobs = " ".join(f"{rank}@n{rank // 4}" for rank in range(8))
    assert [line.partition(" ")[2] for line in lines] == [blobs] * 8
    assert [line.partition(" ")[0] for line in lines] == [str(rank) for rank in range(8)]


SEEN = (
    "import os, json; e = os.environ; print(json.dumps([int(e['SLURM_LOCALID']), "
    "e.get('CUDA_VISIBLE_DEVICES'), sorted(os.sched_getaffinity(0))]))"
)


@pytest.mark.parametrize(
    ("group", "label"),
    [
        ("1_ask", "gres8"),
        ("1_ask", "gpus_per_task1"),
        ("1_ask", "ntasks_per_gpu1_gpus16"),
        ("1_ask", "no_gpu"),
        ("2_gpubind_gpn8", "single1"),
        ("2_gpubind_gres8", "closest"),
        ("2_gpubind_x_cpubind", "closest+none"),
        ("2_gpubind_x_dist", "single1_block-block_c1"),
        ("2_gpubind_gpt1", "none"),
        ("4_cpubind", "cpt2_map_cpu_15-14-13-12"),
        ("4_cpubind", "cpt1_rank"),
    ],
)
def test_tasks_get_the_gpus_and_cpus_that_slurm_gave_before(
    lab: Lab, group: str, label: str
) -> None:
    """Against a table of what real srun invocations gave each task."""
    with (shared_dir() / "cases" / "bind_tables" / "plain.csv").open(newline="") as stream:
        rows = [
            row for row in csv.DictReader(stream) if (row["group"], row["label"]) == (group, label)
        ]
    found = run(lab, [*shlex.split(rows[0]["submit_line"]), *task(SEEN)])
    assert found.returncode == int(rows[0]["rc"]), found.stderr
    # Which nodes were free is not the question: local rank by local rank.
    expected = sorted(
        [
            int(row["localid"]),
            row["CUDA_VISIBLE_DEVICES"] if row["cvd_is_set"] == "True" else None,
            cpu_list(row["affinity"]),
        ]
        for row in rows
        if row["procid"]
    )
    assert sorted(map(json.loads, found.stdout.splitlines())) == expected


def cpu_list(text: str) -> list[int]:
    parts = [part.partition("-") for part in text.split(",")]
    return [cpu for a, _, b in parts for cpu in range(int(a), int(b or a) + 1)]


def test_taskset_and_nproc_agree_with_slurm_about_a_tasks_cpus(lab: Lab) -> None:
    command = ["srun", "-N1", "-n1", "--cpus-per-task=3", "sh", "-c", "taskset -pc $$; nproc"]
    found = run(lab, command)
    assert found.returncode == 0, found.stderr
    assert found.stdout.split()[-2:] == ["0-2", "3"]


def test_tmp_and_shm_are_each_nodes_own_and_the_rest_is_shared(lab: Lab, tmp_path: Path) -> None:
    script = (
        f"for d in /tmp /dev/shm {tmp_path}; do echo here > $d/from-$(hostname); done;"
        f"sleep 0.3; ls -d /tmp/from-* /dev/shm/from-* {tmp_path}/from-*"
    )
    found = run(lab, ["srun", "-N2", "--ntasks-per-node=1", "-l", "sh", "-c", script])
    assert found.returncode == 0, found.stderr
    for rank, node in enumerate(("n0", "n1")):
        lines = [line.split(": ") for line in found.stdout.splitlines()]
        assert sorted(path for task, path in lines if task == str(rank)) == sorted(
            [
                f"/dev/shm/from-{node}",
                f"/tmp/from-{node}",
                f"{tmp_path}/from-n0",
                f"{tmp_path}/from-n1",
            ]
        )
    assert list(Path("/tmp").glob("from-n*")) == list(Path("/dev/shm").glob("from-n*")) == []
    assert (lab.layout.node_tmp("n1") / "from-n1").read_text() == "here\n"


def test_exec_gives_back_exit_status_and_working_directory_on_any_host(
    lab: Lab, tmp_path: Path
) -> None:
    for node, host in ((None, "ctl"), ("ctl", "ctl"), ("n3", "n3")):
        found = run(lab, ["sh", "-c", "hostname; pwd; exit 9"], node=node, cwd=tmp_path)
        assert (found.stdout.split(), found.returncode) == ([host, str(tmp_path)], 9)
    with pytest.raises(UsageError, match="unknown node 'n7'"):
        run(lab, ["true"], node="n7")


def test_a_signal_to_exec_ends_the_command_inside(lab: Lab) -> None:
    line = labs.enter_command(lab, ["sh", "-c", "echo on; exec sleep 987"], node="n2")
    child = subprocess.Popen(line, env=labs.environment(lab), stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    child.terminate()
    assert child.wait(timeout=10) == 143
    child.stdout.close()
    assert run(lab, ["pgrep", "-f", "sleep 98[7]"], node="n2").stdout == ""


def test_a_step_in_which_a_task_dies_gives_its_status(lab: Lab) -> None:
    found = run(lab, ["srun", "-N2", "-n2", "sh", "-c", "exit $((SLURM_PROCID * 5))"])
    assert found.returncode == 5


def test_up_again_is_the_same_lab_and_another_shape_is_refused(lab: Lab, lab_base: Path) -> None:
    again = lifecycle.up(lab.spec, name=lab.name, base=lab_base)
    assert again.holder == lab.holder
    with pytest.raises(UsageError, match="nodes 4 not 3"):
        lifecycle.up(sized(observe(), nodes=3), name=lab.name, base=lab_base)


def test_a_lab_cannot_be_taken_down_from_inside(lab: Lab, lab_base: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from clusterlab.lab import lifecycle\n"
        f"lifecycle.down(name={lab.name!r}, base=Path({str(lab_base)!r}))"
    )
    found = run(lab, [sys.executable, "-c", code])
    assert found.returncode != 0
    assert "not inside a lab" in found.stderr
    assert labs.status(lab).healthy


def test_the_variables_of_an_outer_job_do_not_leak_in(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "4242")
    monkeypatch.setenv("SLURM_NTASKS", "99")
    found = run(lab, ["srun", "-n1", "sh", "-c", "echo $SLURM_NTASKS"])
    assert (found.stdout, found.returncode) == ("1\n", 0), found.stderr
