"""``clusterlab bind explain`` as people call it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clusterlab.cli.main import main

LAB = ["bind", "explain", "--node-profile", "lab", "--nodes", "2"]


def test_json_has_tasks_refusal_and_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*LAB, "--json", "--submit", "srun -N1 -n2 --gres=gpu:2 --gpu-bind=none"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["tasks"][1] == {
        "step": 0,
        "procid": 1,
        "node": "n0",
        "localid": 1,
        "cuda_visible_devices": None,
        "gpus": [0, 1],
        "cpus": "1",
    }
    assert answer["rejected"] is None
    assert any("unset" in warning for warning in answer["warnings"])


def test_a_refused_job_is_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*LAB, "--json", "--submit", "srun -N2 --gpus-per-node=9"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["tasks"] == []
    assert "Requested node configuration is not available" in answer["rejected"]


def test_people_read_a_table_within_100_columns(capsys: pytest.CaptureFixture[str]) -> None:
    job = "sbatch -N2 --ntasks-per-node=8 --gpus-per-node=8"
    steps = ["--step", "srun -n4 ./a", "--step", "srun --gpu-bind=closest ./b"]
    assert main([*LAB, "--constrain-devices", "--submit", job, *steps]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == [
        "step",
        "task",
        "node",
        "local",
        "CUDA_VISIBLE_DEVICES",
        "GPUs",
        "CPUs",
    ]
    assert lines[1].split() == ["0", "0", "n0", "0", "0,1,2,3,4,5,6,7", "0-7", "0-3,8-11"]
    assert max(map(len, lines)) <= 100


def test_busy_moves_the_job(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--busy", "n0:gpu=0-2", "--json", "--submit", "srun -N1 -n2 --gpus-per-task=1"]
    assert main([*LAB, *arguments]) == 0
    tasks = json.loads(capsys.readouterr().out)["tasks"]
    assert all(task["gpus"][0] > 2 for task in tasks if task["node"] == "n0")


SCONTROL = """#!/bin/sh
cat <<'END'
NodeName=login Sockets=1 CoresPerSocket=4 ThreadsPerCore=1 CPUTot=4
NodeName=g1 Sockets=2 CoresPerSocket=4 ThreadsPerCore=1 CPUTot=8 Gres=gpu:4
NodeName=g2 Sockets=2 CoresPerSocket=4 ThreadsPerCore=1 CPUTot=8 Gres=gpu:4
END
"""
GRES = """Name=gpu File=/dev/nvidia[0-1] Cores=0-3
Name=gpu File=/dev/nvidia[2-3] Cores=4-7
"""


def test_without_a_profile_this_clusters_nodes_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tool = tmp_path / "scontrol"
    tool.write_text(SCONTROL)
    tool.chmod(0o755)
    (tmp_path / "gres.conf").write_text(GRES)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    words = ["bind", "explain", "--json", "--submit"]
    line = "srun -N2 --ntasks-per-node=4 --gpus-per-node=4 --gpu-bind=single:1 -m block:block"
    assert main([*words, line]) == 0
    captured = capsys.readouterr()
    answer = json.loads(captured.out)
    assert captured.err == ""
    assert {task["node"] for task in answer["tasks"]} == {"n0", "n1"}
    assert not any("unknown" in text for text in answer["warnings"])
    assert main([*words, "srun -N3 -n3 --gpus-per-node=4"]) == 0  # there are two such nodes
    assert json.loads(capsys.readouterr().out)["rejected"] is not None


def test_without_a_profile_and_slurm_the_lab_is_taken_and_said_on_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert main(["bind", "explain", "--json", "--submit", "srun -N6 -n6 --gpus-per-node=8"]) == 0
    captured = capsys.readouterr()
    assert len(json.loads(captured.out)["tasks"]) == 6
    assert captured.err.count("\n") == 1
    assert "`lab`" in captured.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--submit", "python train.py"], "does not begin with a command of Slurm"),
        (["--submit", "srun 'x"], "--submit: "),
        (["--submit", ""], "no command"),
        (["--submit", "srun a ; srun b"], "2 commands"),
        (["--submit", "srun -n2 a : -n1 b"], "a heterogeneous job: 2 components"),
        (["--submit", "srun -n1", "--step", "srun x"], "steps with sbatch or salloc only"),
        (["--submit", "sbatch -N1", "--step", "sbatch x"], "--step: sbatch"),
        (["--submit", "srun -n1", "--slurm-version", "17.02"], "Slurm '17.02' is not known"),
        (["--submit", "srun -n1", "--busy", "n0"], "--busy: 'n0'"),
        (["--submit", "srun -n1", "--busy", "n7:gpu=0"], "unknown node 'n7'"),
        (["--submit", "srun -n1", "--busy", "n0:gpu=8"], "GPUs 0 to 7"),
        (["--submit", "srun -n1", "--nodes", "0"], "--nodes: 0"),
        (["--submit", "srun -n1", "--node-profile", "lba"], "lba"),
    ],
)
def test_what_cannot_be_read_is_named(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*LAB, *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert says in captured.err
