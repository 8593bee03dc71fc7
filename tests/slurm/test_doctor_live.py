"""The doctor in a live lab of 4 nodes × 8 pretend GPUs: healthy layouts silent, broken ones named.

Every layout here is made by a real srun; what is wrong with it is what Slurm, torchrun or the shell really
did to the ranks.
"""

from __future__ import annotations

import ctypes.util
import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from clusterlab.lab.labs import Lab, run
from tests.slurm.conftest import refuse

DOCTOR = str(Path(sys.executable).with_name("clusterlab"))
TORCHRUN = f"{sys.executable} -m torch.distributed.run"

PACKED = ("-c2", "-m", "block:block")
WHOLE = ("-N4", "--ntasks-per-node=8", "--gpus-per-node=8", *PACKED)
TWO_BY_TWO = ("-N2", "--ntasks-per-node=2", "--gpus-per-node=2", *PACKED)
FOUR = ("-N1", "--ntasks-per-node=4", "--gpus-per-node=4", *PACKED)


@dataclass(frozen=True)
class Layout:
    """How the doctor is started, and the code that must be among its findings, of which ranks.

    ``task`` is a line of bash that each task runs first; {doctor} stands for the doctor.
    """

    code: str
    srun: tuple[str, ...]
    ranks: list[int]
    task: str = "exec {doctor}"
    environ: dict[str, str] = field(default_factory=dict)
    mpi: str = "pmix"


BROKEN = {
    "map_gpu of GPUs that the job has not": Layout(
        "GPU_BIND_OUT_OF_ALLOC",
        ("-N4", "--ntasks-per-node=4", "--gpus-per-node=4", *PACKED, "--gpu-bind=map_gpu:7,6,5,4"),
        list(range(16)),
    ),
    "map_gpu too short, so it wraps": Layout(
        "GPU_SHARED_BY_RANKS", (*FOUR, "--gpu-bind=map_gpu:0,1"), [0, 1, 2, 3]
    ),
    "one mask for all ranks": Layout(
        "GPU_SHARED_BY_RANKS", FOUR, [0, 1, 2, 3], "export CUDA_VISIBLE_DEVICES=0; exec {doctor}"
    ),
    "more ranks than GPUs": Layout(
        "CVD_LOCAL_RANK_MISMATCH",
        ("-N1", "--ntasks-per-node=4", "--gpus-per-node=2", *PACKED),
        [2, 3],
    ),
    "gpu-bind=none of this Slurm": Layout(
        "CVD_UNSET", (*TWO_BY_TWO, "--gpu-bind=none"), [0, 1, 2, 3]
    ),
    "a GPU listed twice": Layout(
        "CVD_DUPLICATE_ENTRY", TWO_BY_TWO, [0, 1, 2, 3],
        "export CUDA_VISIBLE_DEVICES=0,0; exec {doctor}",
    ),
    "a mask that names a GPU of another job": Layout(
        "CVD_STALE_INDEX_SPACE",
        ("-N1", "-n2", "-c2", "-m", "block:block", "--gpus-per-task=1"),
        [0, 1],
        "export CUDA_VISIBLE_DEVICES=$((SLURM_LOCALID+4)); exec {doctor}",
    ),
    "an empty mask": Layout(
        "CVD_EMPTY", TWO_BY_TWO, [0, 1, 2, 3], "export CUDA_VISIBLE_DEVICES=; exec {doctor}"
    ),
    "one core for all": Layout(
        "CPU_SINGLE_CORE",
        ("-N1", "-n4", "--gpus-per-node=8", "--cpu-bind=map_cpu:0"),
        [0, 1, 2, 3],
    ),
    "a CPU mask inherited from an outer step": Layout(
        "CPU_MASK_INHERITED",
        ("-N1", "-n4", "-c4", "--gpus-per-node=4"),
        [0, 1, 2, 3],
        environ={"SLURM_CPU_BIND": "quiet,mask_cpu:0x0003", "SLURM_CPU_BIND_LIST": "0x0003"},
    ),
    "cores on the other socket": Layout(
        "CPU_NUMA_REMOTE",
        ("-N1", "-n2", "-c8", "--gpus-per-node=8", "--cpu-bind=mask_cpu:0xff00,0xff00"),
        [0, 1],
    ),
    "more OpenMP threads than cores": Layout(
        "OMP_THREADS", TWO_BY_TWO, [0, 1, 2, 3], environ={"OMP_NUM_THREADS": "16"}
    ),
    "an interface that is not there": Layout(
        "IFACE_WRONG", TWO_BY_TWO, [0, 1, 2, 3], environ={"NCCL_SOCKET_IFNAME": "ib0"}
    ),
    "NCCL's grammar given to gloo": Layout(
        "IFACE_WRONG", TWO_BY_TWO, [0, 1, 2, 3], environ={"GLOO_SOCKET_IFNAME": "^lo"}
    ),
    "another NIC filter in every rank": Layout(
        "NIC_FILTER_DIVERGENT", TWO_BY_TWO, [0, 1, 2, 3],
        "export NCCL_IB_HCA=mlx5_$SLURM_LOCALID; exec {doctor}",
    ),
    "a loopback master for two hosts": Layout(
        "MASTER_ADDR_WRONG", TWO_BY_TWO, [0, 1, 2, 3],
        environ={"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"},
    ),
    "RANK and WORLD_SIZE of an older job": Layout(
        "IDENTITY_CONFLICT", TWO_BY_TWO, [0, 1, 2, 3],
        environ={"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "3"},
    ),
    "ranks that believe they are alone": Layout(
        "RANK_SINGLETON", TWO_BY_TWO, [0, 1, 2, 3], environ={"RANK": "0", "WORLD_SIZE": "1"},
        mpi="none",
    ),
    "a torchrun in every task": Layout(
        "LAUNCHER_NESTED",
        ("-N1", "--ntasks-per-node=2", "--gpus-per-node=2", *PACKED),
        [0, 1, 2, 3],
        f"exec {TORCHRUN} --standalone --nproc-per-node=2 -m {{doctor_module}}",
    ),
    "13 tasks on one node and 1 on each other": Layout(
        "UNEVEN_TASKS", ("-N4", "-n16"), list(range(16))
    ),
}  # fmt: skip


CLOSEST = Layout(
    "GPU_BIND_CLOSEST_MULTI",
    ("-N1", "--ntasks-per-node=8", "--gpus-per-node=8", "-c2", "--gpu-bind=closest"),
    list(range(8)),
)


def start(lab: Lab, layout: Layout, *words: str) -> subprocess.CompletedProcess[str]:
    """The doctor under srun. ``doctor_module`` is for launchers that start Python modules."""
    options = " ".join(["doctor", "--json", "--deadline", "30", *words])
    task = layout.task.format(doctor=f"{DOCTOR} {options}", doctor_module=f"clusterlab {options}")
    command = ["srun", f"--mpi={layout.mpi}", *layout.srun, "bash", "-c", task]
    return run(lab, command, env=layout.environ, timeout_s=120)


def found(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def alarms(report: dict[str, Any]) -> list[tuple[str, str]]:
    return [(f["code"], f["severity"]) for f in report["findings"] if f["severity"] != "info"]


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_layout_is_named(lab: Lab, name: str) -> None:
    layout = BROKEN[name]
    done = start(lab, layout)
    report = found(done)
    assert report["missing_ranks"] == [], done.stderr
    named = {f["code"]: f for f in report["findings"]}
    assert layout.code in named, report
    assert named[layout.code]["ranks"] == layout.ranks
    assert all(f["fix"] and f["evidence"] for f in report["findings"])
    bad = any(severity in ("error", "fatal") for _, severity in alarms(report))
    assert done.returncode == (1 if bad else 0), done.stderr


@pytest.mark.parametrize(
    ("srun", "task"),
    [
        ((*TWO_BY_TWO, "--gpus-per-task=1"), "exec {doctor}"),
        ((*TWO_BY_TWO, "--gpu-bind=map_gpu:1,0"), "exec {doctor}"),
        ((*FOUR, "--gpu-bind=mask_gpu:0x1,0x2,0x4,0x8"), "exec {doctor}"),
        (
            ("-N2", "--ntasks-per-node=1", "--gpus-per-node=8", "-c16"),
            f"exec {TORCHRUN} --nnodes=2 --nproc-per-node=2 --node-rank=$SLURM_NODEID"
            " --master-addr=n0 --master-port=29571 -m {doctor_module}",
        ),
    ],
    ids=["a GPU per task", "permuted", "masks", "torchrun per node"],
)
def test_a_healthy_layout_is_silent(lab: Lab, srun: tuple[str, ...], task: str) -> None:
    done = start(lab, Layout("", srun, [], task))
    assert done.returncode == 0, done.stdout + done.stderr
    assert alarms(found(done)) == []


def test_32_healthy_ranks_are_silent_and_the_table_names_host_gpu_numa_and_cores(
    lab: Lab, tmp_path: Path
) -> None:
    bundle = tmp_path / "bundle"
    options = ["doctor", "--bundle", str(bundle)]
    done = run(lab, ["srun", "--mpi=pmix", *WHOLE, DOCTOR, *options], timeout_s=120)
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 100
    rows = [line.split() for line in lines if line[:1].isdigit()]
    assert [row[:2] for row in rows] == [[str(r), f"n{r // 8}"] for r in range(32)]
    assert [row[4:8] for row in rows[:8]] == [
        [f"nvidia{i}", str(i // 4), f"{2 * i}-{2 * i + 1}", str(i // 4)] for i in range(8)
    ]
    assert lines[-1] == "# no findings"
    again = subprocess.run(
        [DOCTOR, "doctor", str(bundle)], capture_output=True, text=True, check=True, timeout=60
    )
    assert again.stdout == done.stdout


def test_gpu_bind_closest_is_named_live_and_from_the_bundle(lab: Lab, tmp_path: Path) -> None:
    live = found(start(lab, CLOSEST, "--bundle", str(tmp_path)))
    assert {f["code"]: f["ranks"] for f in live["findings"]}[CLOSEST.code] == CLOSEST.ranks
    again = subprocess.run(
        [DOCTOR, "doctor", str(tmp_path), "--json"], capture_output=True, text=True, check=False,
        timeout=60,
    )  # fmt: skip
    assert json.loads(again.stdout) == live


def test_a_rank_that_never_starts_is_named_and_the_others_are_judged(
    lab: Lab, tmp_path: Path
) -> None:
    over = tmp_path / "over"
    task = (
        "export CUDA_VISIBLE_DEVICES=0;"
        f" if [ $SLURM_PROCID = 3 ]; then until [ -e {over} ]; do sleep 0.1; done; exit 0; fi;"
        f" {{doctor}} --deadline 5; code=$?; touch {over}; exit $code"
    )
    done = start(lab, Layout("", TWO_BY_TWO, [], task))
    report = found(done)
    assert done.returncode == 4
    assert report["missing_ranks"] == [3]
    named = {f["code"]: f["ranks"] for f in report["findings"]}
    assert named["RANK_MISSING"] == [3]
    assert named["GPU_SHARED_BY_RANKS"] == [0, 1]


def test_an_mpi_program_without_mpi_pmix_is_diagnosed_from_its_log(
    lab: Lab, tmp_path: Path
) -> None:
    if ctypes.util.find_library("mpi") is None:
        refuse("Open MPI is not installed (openmpi-bin)")
    program = [sys.executable, str(Path(__file__).with_name("mpi_hello.py"))]
    done = run(lab, ["srun", "--mpi=none", "-N1", "-n2", *program])
    assert done.returncode != 0
    log = tmp_path / "slurm.out"
    log.write_text(done.stdout + done.stderr)
    said = subprocess.run(
        [DOCTOR, "doctor", "--log", str(log), "--json"], capture_output=True, text=True,
        check=False, timeout=60,
    )  # fmt: skip
    assert "PMI_MISMATCH" in [f["code"] for f in json.loads(said.stdout)["findings"]]
    right = run(lab, ["srun", "--mpi=pmix", "-N1", "-n2", *program])
    assert sorted(right.stdout.splitlines()) == ["MPI rank 0 of 2", "MPI rank 1 of 2"]
