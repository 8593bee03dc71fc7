"""``clusterlab bringup`` over NCCL: phases, NCCL's own split, communicators that leave nothing behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clusterlab.launch.gpus import visible_gpus
from tests.conftest import CLI, clean_environment

pytestmark = pytest.mark.gpu

PARTS = ("kernels", "bootstrap", "allgathers", "topo", "graphs", "connections")


def needs(gpus: int) -> None:
    if visible_gpus() < gpus:
        pytest.skip(f"needs {gpus} GPUs, {visible_gpus()} are visible")


def environment(folder: Path) -> dict[str, str]:
    own = clean_environment(CLUSTERLAB_RUNS=str(folder))
    return {k: v for k, v in own.items() if not k.startswith("NCCL_DEBUG")}


def document(folder: Path, *words: str) -> dict[str, Any]:
    done = subprocess.run(
        [*CLI, "bringup", "--backend", "nccl", "--json", *words],
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "NCCL INFO" not in done.stderr  # nobody asked for it
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def check(found: dict[str, Any], ranks: int) -> None:
    assert found["world_size"] == ranks
    for rank in found["ranks"]:
        phases = rank["phases"]
        assert phases["device"] > 0
        init = rank["init"]
        assert init["function"].startswith("ncclCommInit")
        assert set(PARTS) <= set(init["parts"])
        # The communicator was made in its own phase, by the same clock NCCL has, not by the first call.
        assert phases["communicator"] >= init["total_s"] - 0.02
        assert phases["second_call"] <= phases["first_call"]


def check_repeated(found: dict[str, Any], times: int) -> None:
    assert found["verdict"] == "pass", found["growth"]
    assert {g["resource"] for g in found["growth"]} == {
        "device_bytes", "rss_bytes", "fds", "threads",
    }  # fmt: skip
    for rank in found["ranks"]:
        repeated = rank["repeated"]
        assert len(repeated["create_s"]) == times
        assert len(repeated["init_s"]) == times  # NCCL made one each time
        assert repeated["function"].startswith("ncclComm")


def test_one_rank_comes_up_and_200_communicators_leave_nothing(tmp_path: Path) -> None:
    needs(1)
    found = document(tmp_path, "-g", "1", "--repeat-communicators", "200")
    check(found, 1)
    check_repeated(found, 200)


def test_two_ranks_come_up_and_200_communicators_leave_nothing(tmp_path: Path) -> None:
    needs(2)
    found = document(tmp_path, "-g", "2", "--repeat-communicators", "200")
    check(found, 2)
    check_repeated(found, 200)


def test_a_users_own_debug_file_is_written_and_read(tmp_path: Path) -> None:
    needs(1)
    done = subprocess.run(
        [*CLI, "bringup", "-g", "1", "--backend", "nccl"],
        env=environment(tmp_path)
        | {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": str(tmp_path / "n.%h.%p")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "# NCCL's own split of ncclCommInit" in done.stdout
    (log,) = tmp_path.glob("n.*")
    assert "Init timings" in log.read_text()


def test_two_ranks_of_torchrun_on_one_gpu_are_refused(tmp_path: Path) -> None:
    """Two ranks that share a GPU are named before NCCL's init can hang on them."""
    needs(1)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    first = (os.environ.get("CUDA_VISIBLE_DEVICES") or "0").split(",")[0]
    done = subprocess.run(
        [*torchrun, "-m", "clusterlab", "bringup", "--backend", "nccl"],
        env=environment(tmp_path) | {"CUDA_VISIBLE_DEVICES": first, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode != 0
    assert "GPU" in done.stderr
    assert "clusterlab:" in done.stderr
