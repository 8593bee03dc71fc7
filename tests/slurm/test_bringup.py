"""``clusterlab bringup`` as steps of a real Slurm: how the ranks met is what the step offered."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from clusterlab.lab.labs import Lab
from clusterlab.lab.labs import run as run_in_lab

BRINGUP = [str(Path(sys.executable).with_name("clusterlab")), "bringup", "--json"]


@pytest.mark.parametrize(
    ("mpi", "words", "rendezvous"),
    [
        ("pmix", (), "pmix"),
        ("none", (), "node_list"),
        ("pmix", ("--rendezvous-file", "store"), "file"),
    ],
)
def test_a_step_says_how_its_ranks_met(
    lab: Lab, tmp_path: Path, mpi: str, words: tuple[str, ...], rendezvous: str
) -> None:
    step = ["srun", f"--mpi={mpi}", "-N2", "--ntasks-per-node=1", "--export=ALL,OMP_NUM_THREADS=1"]
    done = run_in_lab(lab, [*step, *BRINGUP, *words], cwd=tmp_path, timeout_s=120)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
    assert found["rendezvous"] == rendezvous
    assert [(r["rank"], r["host"]) for r in found["ranks"]] == [(0, "n0"), (1, "n1")]
    assert all(r["total_s"] > r["phases"]["torch"] > 0 for r in found["ranks"])
    assert len(list((tmp_path / "runs").iterdir())) == 1
    assert not (tmp_path / "store").exists()
