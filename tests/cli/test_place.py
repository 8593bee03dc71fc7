"""``clusterlab place``: its answer in srun's form, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clusterlab.cli.main import main

Capture = pytest.CaptureFixture[str]
SCATTERED = ("superpod-h100-4su", "--nodes", "n[3,40,7,99,41,8,100,9]", "--routing", "hash")


def test_the_hostfile_has_a_host_for_every_task(capsys: Capture, tmp_path: Path) -> None:
    file = tmp_path / "hosts.txt"
    assert main(["place", *SCATTERED, "--pattern", "tp8,dp", "-o", str(file)]) == 0
    said = capsys.readouterr().out
    lines = file.read_text().split()
    assert len(lines) == 64
    assert sorted(set(lines)) == sorted(f"n{i}" for i in (3, 40, 7, 99, 41, 8, 100, 9))
    assert f"SLURM_HOSTFILE={file} srun --distribution=arbitrary -n 64" in said


def test_the_file_it_wrote_can_be_given_back_and_is_kept(capsys: Capture, tmp_path: Path) -> None:
    file = tmp_path / "hosts.txt"
    main(["place", *SCATTERED, "--pattern", "tp8,dp", "-o", str(file)])
    capsys.readouterr()
    words = ["superpod-h100-4su", "--nodes", f"@{file}", "-m", "arbitrary", "--routing", "hash"]
    assert main(["place", *words, "--pattern", "tp8,dp", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["gain"] == pytest.approx(1)
    assert found["best"]["hosts"] == file.read_text().split()


def test_a_lab_is_priced_for_gloo(capsys: Capture) -> None:
    """Rings whose every hop leaves the leaf put two flows on one uplink; side by side each has its own."""
    words = ["lab-2to1-4x2", "--nodes", "n0,n2,n1,n3", "--pattern", "dp:8M", "--json"]
    assert main(["place", *words]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["gain"] == pytest.approx(2)
    assert found["best"]["hosts"] == [f"n{i}" for i in (0, 0, 1, 1, 2, 2, 3, 3)]
    assert main(["place", *words, "--backend", "gloo"]) == 0
    assert json.loads(capsys.readouterr().out) == found


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["dgx-h100-2node", "--nodes", "n[0-2]", "--pattern", "dp"], "no host 'n2'"),
        (["dgx-h100-2node", "--nodes", "n0,n0", "--pattern", "dp"], "'n0' twice"),
        (["dgx-h100-2node", "--nodes", "n[0-1]", "--pattern", "dp", "-n", "17"], "at most 16"),
        (
            ["dgx-h100-2node", "--nodes", "n[0-1]", "--pattern", "dp", "-m", "zigzag"],
            "--distribution",
        ),
        (["dgx-h100-2node", "--nodes", "n[0-1]", "--pattern", "tp5,dp"], "divides 16"),
        (["dgx-h100-2node", "--nodes", "@nowhere", "--pattern", "dp"], "nowhere"),
        (["dgx-h100-2node", "--nodes", "n[0-1", "--pattern", "dp"], "--nodes"),
        (["dgx-h100-2node", "--nodes", "n[0-1]", "--pattern", "dp", "--routing", "x"], "--routing"),
        (
            ["dgx-h100-2node", "--nodes", "n[0-1]", "--pattern", "dp", "--backend", "mpi"],
            "--backend",
        ),
        (["dgx-h100-2node", "--nodes", "n[0-1]", "--pattern", "dp", "--backend", "gloo"], "cores"),
        (["lab-2x4", "--nodes", "n[0-1]", "--pattern", "dp", "-x", "NCCL_ALGO=ring"], "-x"),
    ],
)
def test_what_cannot_be_placed_is_one_line(capsys: Capture, words: list[str], said: str) -> None:
    assert main(["place", *words]) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert not captured.out
    assert len(captured.err.strip().splitlines()) == 1
