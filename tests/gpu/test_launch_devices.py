"""Ranks that choose real GPUs, and what is refused before NCCL starts."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from clusterlab.launch.gpus import visible_gpus
from tests.slurm.launching import lines

pytestmark = pytest.mark.gpu

RANK = Path(__file__).parents[1] / "slurm" / "launch_rank.py"


def by_torchrun(ranks: int, **environ: str) -> subprocess.CompletedProcess[str]:
    if visible_gpus() < 2:
        pytest.skip("needs two GPUs")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += [f"--nproc-per-node={ranks}", str(RANK), "claim", "--timeout", "60"]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=200, env=os.environ | environ, check=False
    )


def test_each_rank_takes_its_own_gpu_and_nccl_runs() -> None:
    done = by_torchrun(2)
    assert done.returncode == 0, done.stderr
    found = lines(done.stdout)
    assert [(f["ordinal"], f["sum"]) for f in found] == [(0, 2.0), (1, 2.0)]


def test_two_ranks_on_one_gpu_are_refused_before_nccl() -> None:
    start = time.monotonic()
    done = by_torchrun(2, CUDA_VISIBLE_DEVICES="0")
    assert time.monotonic() - start < 100  # NCCL's own time-out is ten minutes
    messages = [f["message"] for f in lines(done.stdout)]
    assert messages
    assert all(m.startswith("GPU_SHARED_BY_RANKS: ranks [0-1] on ") for m in messages), messages


def test_more_ranks_than_gpus_are_refused_with_the_rank() -> None:
    ranks = visible_gpus() + 1
    done = by_torchrun(ranks)
    messages = [f["message"] for f in lines(done.stdout)]
    assert messages
    assert all(m.startswith("CVD_LOCAL_RANK_MISMATCH: rank 0 on ") for m in messages), messages
    assert all(f"{ranks} ranks on this node, {ranks - 1} visible GPUs" in m for m in messages)
