"""The doctor on real GPUs: what it says CUDA shows is what CUDA shows; broken layouts are named."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from clusterlab.binding.probe import probe_here
from clusterlab.launch.gpus import visible_gpus
from clusterlab.launch.identity import single_identity

pytestmark = pytest.mark.gpu

RANK = Path(__file__).with_name("ordinal_rank.py")
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
DOCTOR = [sys.executable, "-m", "clusterlab", "doctor"]
SHOWN = "import torch; print([str(torch.cuda.get_device_properties(i).uuid) for i in" \
    " range(torch.cuda.device_count())])"  # fmt: skip
_WAITS_S = 20.0


@pytest.fixture(autouse=True)
def two_gpus() -> None:
    if visible_gpus() < 2:
        pytest.skip("needs two GPUs")


def uuids() -> list[str]:
    """The node's GPUs in PCI order, by NVIDIA's own tool."""
    done = subprocess.run(
        ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"], capture_output=True, text=True,
        check=True, timeout=60,
    )  # fmt: skip
    return done.stdout.split()


def environ_with(**extra: str) -> dict[str, str]:
    own = {k: v for k, v in os.environ.items() if k != "CUDA_VISIBLE_DEVICES"}
    return own | {"OMP_NUM_THREADS": "8"} | extra


def by_torchrun(*words: str, **environ: str) -> dict[str, Any]:
    """The doctor's findings as two ranks of torchrun."""
    command = [*TORCHRUN, "-m", "clusterlab", "doctor", "--json", *words]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=200,
        env=environ_with(**environ),
        check=False,
    )
    line = next(x for x in done.stdout.splitlines() if x.startswith('{"ranks"'))
    report: dict[str, Any] = json.loads(line)
    return report


def alarms(report: dict[str, Any]) -> list[str]:
    return [f["code"] for f in report["findings"] if f["severity"] != "info"]


def test_two_ranks_of_torchrun_are_silent_and_named_by_their_hardware(tmp_path: Path) -> None:
    report = by_torchrun("--bundle", str(tmp_path))
    assert (report["ranks"], report["missing_ranks"], alarms(report)) == (2, [], [])
    record = json.loads((tmp_path / "record.json").read_text())
    (node,) = record["nodes"].values()
    assert [gpu["uuid"] for gpu in node["gpus"]][:2] == uuids()[:2]
    assert [rank["selected_device"] for rank in record["ranks"]] == [0, 1]


def test_one_gpu_for_two_ranks_is_shared() -> None:
    assert "GPU_SHARED_BY_RANKS" in alarms(by_torchrun(CUDA_VISIBLE_DEVICES="0"))


def test_uuids_in_reverse_are_healthy_and_drive_the_other_gpu(tmp_path: Path) -> None:
    first, second = uuids()[:2]
    report = by_torchrun("--bundle", str(tmp_path), CUDA_VISIBLE_DEVICES=f"{second},{first}")
    assert alarms(report) == []
    record = json.loads((tmp_path / "record.json").read_text())
    (node,) = record["nodes"].values()
    pci = {gpu["uuid"]: gpu["pci"] for gpu in node["gpus"]}
    assert record["ranks"][0]["visible"] == [pci[second], pci[first]]


@pytest.mark.parametrize(
    ("mask", "code"),
    [
        ("0,0", "CVD_DUPLICATE_ENTRY"),
        ("0,9,1", "CVD_TRUNCATED"),
        ("", "CVD_EMPTY"),
        ("0-1", "CVD_SYNTAX"),
        ("GPU-ffffffff-ffff-ffff-ffff-ffffffffffff", "CVD_EMPTY"),
    ],
)
def test_masks_that_hide_gpus_are_named(mask: str, code: str) -> None:
    assert code in alarms(by_torchrun(CUDA_VISIBLE_DEVICES=mask))


@pytest.mark.parametrize(
    "mask", [None, "1,0", "1", "0,-1,1", "{1},{0}", "{1:short}", "{0},{9}", "0,0"]
)
def test_what_the_doctor_says_cuda_shows_is_what_cuda_shows(mask: str | None) -> None:
    known = uuids()
    environ = environ_with()
    if mask is not None:
        text = mask.replace("{0}", known[0]).replace("{1}", known[1]).replace("{9}", "GPU-9")
        environ["CUDA_VISIBLE_DEVICES"] = text.replace("{1:short}", known[1][:12])
    done = subprocess.run(
        [sys.executable, "-c", SHOWN], capture_output=True, text=True, env=environ, check=True,
        timeout=120,
    )  # fmt: skip
    shown = [f"GPU-{uuid}" for uuid in json.loads(done.stdout.replace("'", '"'))]
    record = probe_here(single_identity(), environ)
    (node,) = record.nodes.values()
    uuid_of = {gpu.pci: gpu.uuid for gpu in node.gpus}
    assert [uuid_of[pci] for pci in record.ranks[0].visible or ()] == shown


def test_looking_makes_no_cuda_context() -> None:
    code = (
        "from clusterlab.binding.probe import probe_here;"
        "from clusterlab.launch.identity import single_identity;"
        "print(probe_here(single_identity(), {}).ranks[0].visible);"
        "import os;"
        "names = [os.readlink(f.path) for f in os.scandir('/proc/self/fd') if f.is_symlink() "
        "and os.path.exists(f.path)];"
        "print(any('nvidia-uvm' in name for name in names))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    visible, unified_memory_open = done.stdout.splitlines()
    assert visible not in ("None", "()")
    # NVML itself may map libcuda; a CUDA context also opens the unified memory device.
    assert unified_memory_open == "False"


def test_a_rank_dead_of_an_invalid_ordinal_while_the_other_waits_in_nccl(tmp_path: Path) -> None:
    """Rank 0 waits for rank 1 in NCCL's init; the doctor names the rank, and the layout beside it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    ranks = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "CUDA_VISIBLE_DEVICES": "0"}
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "NCCL_DEBUG": "INFO"}
    logs = [tmp_path / f"rank{r}.txt" for r in (0, 1)]
    started = []
    for rank, log in enumerate(logs):
        mine = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        with log.open("w") as out:
            started.append(
                subprocess.Popen(
                    [sys.executable, str(RANK)], env=environ_with(**ranks, **where, **mine),
                    stdout=out, stderr=subprocess.STDOUT,
                )
            )  # fmt: skip
    try:
        assert started[1].wait(timeout=120) != 0
        end = time.monotonic() + _WAITS_S
        while "NCCL INFO" not in logs[0].read_text() and time.monotonic() < end:
            time.sleep(0.2)
        assert started[0].poll() is None, logs[0].read_text()  # it waits
        beside = _doctor_beside(ranks, tmp_path)
    finally:
        for process in started:
            process.kill()
            process.wait()
    assert "GPU_SHARED_BY_RANKS" in alarms(beside)
    log = tmp_path / "job.out"
    lines = [f"{r}: {x}" for r in (0, 1) for x in logs[r].read_text().splitlines()]
    log.write_text("\n".join(lines))
    done = subprocess.run(
        [*DOCTOR, "--log", str(log), "--json"], capture_output=True, text=True, check=False,
        timeout=60,
    )  # fmt: skip
    named = {f["code"]: f["ranks"] for f in json.loads(done.stdout)["findings"]}
    assert named["CVD_LOCAL_RANK_MISMATCH"] == [1]


def _doctor_beside(ranks: dict[str, str], folder: Path) -> dict[str, Any]:
    """The doctor as two ranks in the same environment, joined by files."""
    options = ["--json", "--deadline", "20", "--bundle", str(folder)]
    doctors = [
        subprocess.Popen(
            [*DOCTOR, *options], env=environ_with(**ranks, RANK=str(r), LOCAL_RANK=str(r)),
            stdout=subprocess.PIPE, text=True,
        )
        for r in (0, 1)
    ]  # fmt: skip
    report: dict[str, Any] = json.loads("".join(d.communicate(timeout=60)[0] for d in doctors))
    return report
