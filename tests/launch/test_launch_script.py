"""slurm/launch.sh: what it hands to the command, by `clusterlab exec` and, where there is none, by itself."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from clusterlab.core.shipped import shipped

LAUNCH = str(shipped("slurm") / "launch.sh")
WAYS = {"by exec": str(Path(sys.executable).with_name("clusterlab")), "by itself": "/nowhere"}
STEP = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_ID": "0",
    "SLURM_NODEID": "0",
    "SLURM_PROCID": "1",
    "SLURM_LOCALID": "1",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
    "SLURMD_NODENAME": "n0",
}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    """CLUSTERLAB as launch.sh gets it."""
    return WAYS[request.param]


def launch(way: str, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run it as local rank 1 of 2; untagged, unless ``command`` begins with a tag of its own."""
    words = command if command and command[0].startswith("--tag") else ("--tag=none", *command)
    return subprocess.run(
        [LAUNCH, *words], env={"PATH": os.environ["PATH"], "CLUSTERLAB": way, **STEP, **environment},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


def test_exit_code_and_arguments_are_the_commands_own(way: str) -> None:
    done = launch(way, "bash", "-c", 'printf "%s|" "$@"; exit 7', "x", "a b", "c'd", "")
    assert (done.returncode, done.stdout) == (7, "a b|c'd||")


def test_signals_arrive_and_end_it_as_they_end_the_command(way: str) -> None:
    process = subprocess.Popen(
        [LAUNCH, "bash", "-c", "echo up; exec sleep 60"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "CLUSTERLAB": way},
    )
    assert process.stdout is not None
    assert process.stdout.readline().endswith("up\n")
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == -signal.SIGTERM
    process.stdout.close()


def test_by_exec_lines_are_tagged_as_asked() -> None:
    say, way = ("sh", "-c", "echo out; echo err >&2"), WAYS["by exec"]
    both = launch(way, "--tag=both", *say)
    tag = launch(way, "printenv", "CLUSTERLAB_LOG_TAG").stdout.strip()
    assert (both.stdout, both.stderr) == (f"[{tag}] out\n", f"[{tag}] err\n")
    only = launch(way, "--tag=stderr", *say)
    assert (only.stdout, only.stderr) == ("out\n", f"[{tag}] err\n")


def test_without_exec_nothing_is_tagged() -> None:
    assert launch(WAYS["by itself"], "--tag=both", "echo", "out").stdout == "out\n"


def test_threads_are_shared_among_the_nodes_tasks(way: str) -> None:
    cores = len(os.sched_getaffinity(0))
    crowded = {"SLURM_STEP_TASKS_PER_NODE": f"{cores}(x2)", "SLURM_STEP_NUM_TASKS": str(2 * cores)}
    assert launch(way, "printenv", "OMP_NUM_THREADS", **crowded).stdout.strip() == "1"
    kept = launch(way, "printenv", "OMP_NUM_THREADS", OMP_NUM_THREADS="5")
    assert kept.stdout.strip() == "5"


def test_the_log_tag_names_rank_and_node(way: str) -> None:
    assert re.fullmatch(
        r"rank 1 n0( gpu.*)?\n", launch(way, "printenv", "CLUSTERLAB_LOG_TAG").stdout
    )


def test_the_mask_is_never_touched(way: str) -> None:
    done = launch(way, "printenv", "CUDA_VISIBLE_DEVICES", CUDA_VISIBLE_DEVICES="3,1")
    assert done.stdout.strip() == "3,1"


def test_nics_are_named_exactly_and_a_rank_without_one_is_refused(way: str) -> None:
    given = launch(way, "printenv", "NCCL_IB_HCA", CLUSTERLAB_NICS="mlx5_0,mlx5_1")
    assert given.stdout == "=mlx5_1\n"
    done = launch(way, "true", CLUSTERLAB_NICS="mlx5_0")
    assert done.returncode == 2
    assert "names 1 NICs, local rank 1 has none" in done.stderr


def test_verbose_says_what_was_decided(way: str) -> None:
    done = launch(way, "true", CLUSTERLAB_LAUNCH_VERBOSE="1")
    assert "[rank 1 n0" in done.stderr
    assert "OMP_NUM_THREADS=" in done.stderr


def test_without_a_command_it_says_how_to_be_used(way: str) -> None:
    done = launch(way)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: srun")
