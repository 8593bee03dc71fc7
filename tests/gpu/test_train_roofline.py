"""A training step of one GPU: predicted from its roofline, which is probed on the spot, and measured."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from clusterlab.launch.gpus import visible_gpus

pytestmark = pytest.mark.gpu

BENCH = Path(__file__).parents[1] / "benchmarks" / "bench_train_roofline.py"


def test_a_step_takes_what_its_roofline_says() -> None:
    """Within 15 %, in bf16, with matrices that are large enough to matter."""
    if visible_gpus() < 1:
        pytest.skip("needs a GPU, none is visible")
    done = subprocess.run(
        [sys.executable, BENCH], capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    assert abs(float(last.split()[-1].rstrip("%"))) < 15, done.stdout
