"""slurm/launch.sh: what it hands to the command it becomes."""

from __future__ import annotations

import os
import signal
import subprocess

from clusterlab.core.shipped import shipped

LAUNCH = str(shipped("slurm") / "launch.sh")


def launch(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    base = {"PATH": os.environ["PATH"]}
    return subprocess.run(
        [LAUNCH, *command], env=base | environment, capture_output=True, text=True, check=False,
        timeout=60,
    )  # fmt: skip


def test_exit_code_and_arguments_are_the_commands_own() -> None:
    done = launch("bash", "-c", 'printf "%s|" "$@"; exit 7', "x", "a b", "c'd", "")
    assert (done.returncode, done.stdout) == (7, "a b|c'd||")


def test_it_becomes_the_command_so_signals_arrive() -> None:
    process = subprocess.Popen(
        [LAUNCH, "bash", "-c", "echo $$; exec sleep 60"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert int(process.stdout.readline()) == process.pid
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == -signal.SIGTERM
    process.stdout.close()


def test_threads_are_shared_among_the_nodes_tasks() -> None:
    cores = len(os.sched_getaffinity(0))
    done = launch("printenv", "OMP_NUM_THREADS", SLURM_STEP_TASKS_PER_NODE=f"{cores}(x2)")
    assert done.stdout.strip() == "1"
    kept = launch("printenv", "OMP_NUM_THREADS", OMP_NUM_THREADS="5")
    assert kept.stdout.strip() == "5"


def test_the_log_tag_names_rank_and_node() -> None:
    done = launch("printenv", "CLUSTERLAB_LOG_TAG", PMIX_RANK="5", SLURMD_NODENAME="n1")
    assert done.stdout.strip() == "rank 5 n1"


def test_the_mask_is_never_touched() -> None:
    done = launch("printenv", "CUDA_VISIBLE_DEVICES", CUDA_VISIBLE_DEVICES="3,1", SLURM_LOCALID="1")
    assert done.stdout.strip() == "3,1"


def test_nics_are_named_exactly_and_a_rank_without_one_is_refused() -> None:
    nics = {"CLUSTERLAB_NICS": "mlx5_0,mlx5_1"}
    assert launch("printenv", "NCCL_IB_HCA", SLURM_LOCALID="1", **nics).stdout == "=mlx5_1\n"
    done = launch("true", SLURM_LOCALID="2", **nics)
    assert done.returncode == 2
    assert "names 2 NICs, local rank 2 has none" in done.stderr


def test_without_a_command_it_says_how_to_be_used() -> None:
    done = launch()
    assert done.returncode == 2
    assert done.stderr.startswith("usage: srun")
