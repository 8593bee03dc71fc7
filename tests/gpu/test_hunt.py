"""A hunt over NCCL on the GPUs of this machine: messages come through; one pair alone is no verdict."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from clusterlab.records.run_dir import open_run

pytestmark = pytest.mark.gpu

HUNT = [sys.executable, "-m", "clusterlab", "hunt", "--json", "--budget", "60s"]


def test_gpus_of_one_machine(gpus: int, tmp_path: Path) -> None:
    if gpus < 2:
        pytest.skip("needs two GPUs")
    own = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "PMIX_", "OMPI_"))}
    runs = tmp_path / "runs"
    done = subprocess.run(
        [*HUNT, "-g", str(gpus)],
        env=own | {"CLUSTERLAB_RUNS": str(runs)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    # Of two GPUs there is one pair, and nothing to compare it with.
    assert found["outcome"] == ("open" if gpus == 2 else "healthy"), done.stderr
    assert done.returncode == (3 if gpus == 2 else 0)
    (run,) = runs.iterdir()
    rates = [row.algbw_GBps for row in open_run(run).records().rows]
    assert rates
    assert all(rate > 10 for rate in rates)  # both ways at once, over NVLink or PCIe 4 and later
