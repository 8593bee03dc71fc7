"""What ``clusterlab submit`` refuses, prints and hands to the ranks, without a Slurm."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from clusterlab.cli.main import main
from clusterlab.core.errors import UsageError
from clusterlab.core.shipped import shipped
from clusterlab.launch.submit import SubmittedJob
from clusterlab.records.run_dir import create_run
from clusterlab.runs.sweeping.request import BenchRequest
from clusterlab.runs.sweeping.submitted import measure, submitted_job
from tests.conftest import clean_environment


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where runs would be made."""
    folder = tmp_path / "runs"
    monkeypatch.setenv("CLUSTERLAB_RUNS", str(folder))
    return folder


def site(tmp_path: Path, text: str) -> str:
    path = tmp_path / "site.toml"
    path.write_text(text)
    return str(path)


def dry_run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["submit", "all_reduce", *arguments, "--dry-run"]) == 0
    return capsys.readouterr().out


def test_a_dry_run_prints_the_script_and_leaves_nothing(
    runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    text = dry_run(
        capsys, "-N", "2", "--gpus-per-node", "4", "-b", "8", "-e", "1G", "--name", "a b"
    )
    assert text.startswith("#!/bin/bash\n")
    assert "#SBATCH --job-name=a-b\n" in text
    assert "#SBATCH --nodes=2\n" in text
    assert "#SBATCH --gpus-per-node=4\n" in text
    assert "--mpi=pmix --nodes=2 --ntasks=8 --ntasks-per-node=4" in text
    assert f"export CLUSTERLAB_RUN_DIR={runs}/" in text
    assert not runs.exists()


def test_ranks_without_gpus_ask_for_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "gpus-per-node" not in dry_run(capsys, "--ranks-per-node", "3")
    assert "--ntasks-per-node=3" in dry_run(capsys, "-g", "3", "--gpus-per-node", "4")
    assert "gpus-per-node=4" in dry_run(capsys, "-g", "3", "--gpus-per-node", "4")
    place = site(tmp_path, 'nodes = 3\ngpus_per_node = 4\npartition = "h100"\nmpi = "pmix_v4"\n')
    text = dry_run(capsys, "--site", place, "-A", "mine")
    assert "#SBATCH --partition=h100\n" in text
    assert "#SBATCH --account=mine\n" in text
    assert "--mpi=pmix_v4 --nodes=3 --ntasks=12 " in text
    assert "--partition=other" in dry_run(capsys, "--site", place, "-p", "other")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["all_redcue"], "did you mean 'all_reduce'"),
        (["all_reduce", "-b", "8Q"], "-b: not a size"),
        (["broadcast", "-N", "2", "-g", "2", "-r", "4"], "-r: root 4 of 4 ranks"),
        (["all_reduce", "--fabric", "hgx-h10"], "did you mean 'hgx-h100'"),
        (["all_reduce", "--fabric", "nosuch.yaml"], "nosuch.yaml"),
        (["all_reduce", "--time", "soon"], "--time: 'soon'"),
        (["all_reduce", "-p", "a\nb"], "partition: control characters"),
        (["all_reduce", "--corrupt", "x"], "RANK:INDEX"),
        (["all_reduce", "--site", "nosuch.toml"], "nosuch.toml"),
        (["all_reduce", "--gpus-per-node", "0"], "--ranks-per-node: the site has no GPUs"),
        (["all_reduce", "--nodes", "0"], "--nodes"),
        (["all_reduce", "--ranks", "2"], "no such option"),
        (["all_reduce", "--partion", "x"], "--partition"),
    ],
)
def test_bad_input_is_refused_before_anything_is_made(
    arguments: list[str], message: str, runs: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["submit", *arguments, "--dry-run"]) == 2
    err = capfd.readouterr().err
    assert message in err
    assert "Traceback" not in err
    assert not runs.exists()


def test_a_site_with_containers_is_sent_to_the_job_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = site(tmp_path, 'container_runtime = "pyxis"\ncontainer_image = "x"\n')
    assert main(["submit", "all_reduce", "--site", place, "--dry-run"]) == 2
    assert "clusterlab jobs render" in capsys.readouterr().err


def test_without_slurm_nothing_is_made_and_what_is_missing_is_named(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["submit", "all_reduce"]) == 2
    assert "no sbatch, no srun, no scontrol (or squeue) on PATH" in capsys.readouterr().err
    assert not runs.exists()


def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sbatch: str) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, body in {"sbatch": sbatch, "srun": "exit 1", "scontrol": "exit 1"}.items():
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_a_refused_job_leaves_no_run_directory(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm(tmp_path, monkeypatch, "echo 'sbatch: error: Invalid qos' >&2; exit 1")
    assert main(["submit", "all_reduce", "-q", "gold"]) == 2
    assert capsys.readouterr().err == "clusterlab: sbatch: Invalid qos\n"
    assert list(runs.iterdir()) == []


def test_a_job_that_is_not_waited_for_says_where_its_run_is(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm(tmp_path, monkeypatch, "echo 'Submitted batch job 41'")
    design = tmp_path / "mine.yaml"
    design.write_bytes((shipped("topologies") / "lab-2x4.yaml").read_bytes())
    typed = ["submit", "all_reduce", "-g", "2", "--fabric", str(design), "-b", "8"]
    assert main([*typed, "--no-wait"]) == 0
    (run,) = runs.iterdir()
    out, err = capsys.readouterr()
    assert out == f"{run}\n"
    assert "job 41 submitted: 4 ranks on 2 nodes" in err
    found, job = submitted_job(run)
    assert found.path == run
    assert job == SubmittedJob("41", run / "submit")
    call = pickle.loads((run / "submit" / "41_submitted.pkl").read_bytes())
    (request,) = call.function.args
    assert isinstance(request, BenchRequest)
    assert (request.collective_text, request.begin, request.backend) == ("all_reduce", "8", "auto")
    carried = Path(request.fabric or "")
    assert carried.parent == run / "submit"
    assert carried.read_bytes() == design.read_bytes()
    assert main([*typed, "--no-wait", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["job_id"] == "41"


def test_a_run_that_was_not_submitted_cannot_be_followed(runs: Path) -> None:
    run = create_run("x")
    with pytest.raises(UsageError, match="no job was submitted for it"):
        submitted_job(run.path)
    (run.path / "submit").mkdir()
    (run.path / "submit" / "job.json").write_text('{"job_id": 41}')
    with pytest.raises(UsageError, match="job_id: 41; expected a job id"):
        submitted_job(run.path)


def request(**changes: Any) -> BenchRequest:
    typed: dict[str, Any] = {
        "collective_text": "all_reduce",
        "begin": "8",
        "end": "8",
        "factor": None,
        "step": None,
        "iterations": "1",
        "warmup": "0",
        "check": True,
        "op_text": "sum",
        "dtype_text": "float",
        "root": 0,
        "ranks": 1,
        "place": "out",
        "backend": "gloo",
        "fabric": None,
        "deadline_s": 60.0,
        "name": None,
        "as_json": False,
        "strict_table": False,
        "corrupt": None,
    }
    return BenchRequest(**{**typed, **changes})


def test_a_task_ends_as_bench_does_and_dies_of_sigterm(tmp_path: Path) -> None:
    """submitit calls the task inside ``except Exception`` and with SIGTERM handled."""
    call = tmp_path / "call.pkl"
    call.write_bytes(pickle.dumps(partial(measure, request(op_text="nosuch"))))
    program = (
        "import pickle, signal, sys\n"
        "signal.signal(signal.SIGTERM, print)\n"
        "try:\n"
        f"    pickle.load(open({str(call)!r}, 'rb'))()\n"
        "except Exception:\n"
        "    print('caught')\n"
        "finally:\n"
        "    print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=clean_environment(), capture_output=True, text=True,
        check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stdout == "True\n"
    assert done.stderr.startswith("clusterlab: unknown ")
