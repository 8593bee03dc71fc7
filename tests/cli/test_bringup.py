"""``clusterlab bringup`` as people start it: local ranks, torchrun, exported variables, a shared file."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import CLI, clean_environment

ranks = pytest.mark.ranks
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
BEFORE_TOTAL = {"start", "identity", "torch", "rendezvous", "communicator", "first_call"}


def start(*words: str, folder: Path, **environ: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*CLI, "bringup", *words],
        env=clean_environment(CLUSTERLAB_RUNS=str(folder / "runs"), OMP_NUM_THREADS="1", **environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def bringup(*words: str, folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    process = start(*words, folder=folder, **environ)
    out, err = process.communicate(timeout=120)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def reported(run: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CLI, "report", str(run), *words], capture_output=True, text=True, check=False, timeout=60,
        env=clean_environment(),
    )  # fmt: skip


def document(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def check_phases(found: dict[str, Any], world_size: int) -> None:
    assert [r["rank"] for r in found["ranks"]] == list(range(world_size))
    for rank in found["ranks"]:
        phases = rank["phases"]
        assert set(phases) == BEFORE_TOTAL | {"second_call"}  # no device with gloo
        assert all(seconds >= 0 for seconds in phases.values())
        assert rank["total_s"] == pytest.approx(sum(phases[p] for p in BEFORE_TOTAL))
        assert phases["torch"] > 0.2
    for name, spread in found["phases"].items():
        each = [r["total_s"] if name == "total" else r["phases"][name] for r in found["ranks"]]
        assert (spread["min_s"], spread["max_s"]) == (min(each), max(each))
        assert each[spread["slowest_rank"]] == max(each)


@ranks
def test_local_ranks_are_timed_from_the_start_of_the_command(tmp_path: Path) -> None:
    begin = time.monotonic()
    found = document(bringup("-g", "3", "--json", folder=tmp_path))
    wall_s = time.monotonic() - begin
    check_phases(found, 3)
    assert (found["rendezvous"], found["identity_source"]) == ("local", "local")
    assert max(r["total_s"] for r in found["ranks"]) < wall_s
    assert found["job_s"] < wall_s
    # One process imports and then forks: the ranks share its start.
    assert len({r["phases"]["start"] for r in found["ranks"]}) == 1
    assert len({r["pid"] for r in found["ranks"]}) == 3
    (run,) = (tmp_path / "runs").iterdir()
    assert json.loads((run / "bringup.json").read_text()) == found
    assert json.loads((run / "findings.json").read_text())["findings"] == []
    attempt = json.loads((run / "run.json").read_text())["attempts"][-1]
    assert attempt["exit_code"] == 0


@ranks
def test_communicators_are_made_judged_and_kept(tmp_path: Path) -> None:
    done = bringup("-g", "2", "--repeat-communicators", "30", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1] == "# pass: nothing grows over 30 communicators"
    titles = [line[:14].strip() for line in lines]
    for title in ("create", "first call", "destroy", "file descripto", "threads"):
        assert title in titles, done.stdout
    assert max(map(len, lines)) <= 120
    (run,) = (tmp_path / "runs").iterdir()
    kept = json.loads((run / "bringup.json").read_text())
    assert [len(r["repeated"]["create_s"]) for r in kept["ranks"]] == [30, 30]
    assert {g["resource"] for g in kept["growth"]} == {"rss_bytes", "fds", "threads"}
    again = reported(run, "--no-html")
    assert (again.returncode, again.stdout) == (0, done.stdout), (
        "the same table, from what was kept"
    )
    assert json.loads(reported(run, "--json").stdout) == kept
    (run / "bringup.json").write_text(json.dumps({**kept, "ranks": [{"rank": 0}]}))
    damaged = reported(run)
    assert damaged.returncode == 2 and "bringup.json: ranks[0]: lacks host" in damaged.stderr
    assert "Traceback" not in damaged.stderr


@ranks
def test_too_few_communicators_give_no_verdict(tmp_path: Path) -> None:
    done = bringup("-g", "2", "--repeat-communicators", "3", folder=tmp_path)
    assert done.returncode == 3, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("# no_verdict: 3 communicators are too few")


@ranks
def test_torchruns_ranks_meet_at_its_store(tmp_path: Path) -> None:
    done = subprocess.run(
        [*TORCHRUN, "-m", "clusterlab", "bringup", "--json"],
        env=clean_environment(CLUSTERLAB_RUNS=str(tmp_path), OMP_NUM_THREADS="1"),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    found = document(done)
    check_phases(found, 2)
    assert (found["rendezvous"], found["identity_source"]) == ("torchrun", "torchrun")


def exported(rank: int, world_size: int) -> dict[str, str]:
    size = str(world_size)
    return {
        "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size,
    }  # fmt: skip


@ranks
def test_ranks_without_a_launcher_meet_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "store"
    words = ("--json", "--rendezvous-file", str(file))
    others = [start(*words, folder=tmp_path, **exported(r, 2)) for r in (1,)]
    found = document(bringup(*words, folder=tmp_path, **exported(0, 2)))
    for other in others:
        out, err = other.communicate(timeout=60)
        assert (other.returncode, out, err) == (0, "", "")
    check_phases(found, 2)
    assert (found["rendezvous"], found["identity_source"]) == ("file", "environment")
    assert not file.exists()


@ranks
def test_a_file_serves_one_job_after_the_other_on_this_machine(tmp_path: Path) -> None:
    words = ("-g", "2", "--json", "--rendezvous-file", str(tmp_path / "store"))
    for _ in range(2):
        assert document(bringup(*words, folder=tmp_path))["rendezvous"] == "file"


@ranks
def test_a_rank_that_stays_away_is_named_and_its_file_is_refused_afterwards(tmp_path: Path) -> None:
    words = ("--deadline", "1", "--rendezvous-file", str(tmp_path / "store"))
    done = bringup(*words, folder=tmp_path, **exported(0, 2))
    assert done.returncode == 4
    assert "rank 1 of 2 did not arrive" in done.stderr
    again = bringup(*words, folder=tmp_path, **exported(0, 2))
    assert again.returncode == 2
    assert "an earlier job's" in again.stderr
    for one in (done, again):
        assert "Traceback" not in one.stderr
        assert one.stdout == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--backend", "mpi"), "--backend"),
        (("-g", "0"), "--ranks"),
        (("-g", "100000"), "--ranks"),
        (("--repeat-communicators", "-1"), "--repeat-communicators"),
        (("--deadline", "0"), "--deadline"),
        (("-g", "1", "--rendezvous-file", "/no/such/folder/store"), "/no/such/folder"),
        (("-g", "1", "--rendezvous-file", "/proc/store"), "/proc/store"),
    ],
)
def test_bad_input_is_one_line(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = bringup(*words, folder=tmp_path)
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert said in line
    assert done.stdout == ""
    assert not (tmp_path / "runs").exists()


def test_what_counts_as_start_imports_no_torch() -> None:
    code = (
        "import sys, clusterlab.cli.app, clusterlab.runs.probing.bringup;"
        "print([m for m in ('torch', 'pandas', 'scipy', 'networkx') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
