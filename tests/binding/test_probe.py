"""What a rank sees of a pretend machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from clusterlab.binding.look import Gpu, Look, look_from_json
from clusterlab.binding.probe import look_here, nvml_gpus
from clusterlab.launch.identity import RankIdentity, single_identity
from clusterlab.topology.discover.nvml import NvmlAbsentError
from tests.binding.machines import gpu, two_socket_sys

STEP = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_CPUS_ON_NODE": "16"}


def rank_of_two(rank: int) -> RankIdentity:
    return RankIdentity(rank, 2, rank, 2, 0, "n0", "slurm")


def two_gpus() -> list[Gpu]:
    return [gpu(0), gpu(1)]


def no_nvml() -> list[Gpu]:
    raise NvmlAbsentError("NVML Shared Library Not Found")


def look(
    tmp_path: Path,
    rank: int = 0,
    *,
    gpus: Callable[[], list[Gpu]] = two_gpus,
    cores: tuple[int, ...] = (0, 1),
    **environ: str,
) -> Look:
    sys = two_socket_sys(tmp_path)
    return look_here(rank_of_two(rank), environ, sys=sys, gpus_of_node=gpus, cores=cores)


def test_a_rank_knows_its_hardware(tmp_path: Path) -> None:
    found = look(tmp_path, 1, cores=(8, 9), NCCL_DEBUG="INFO", AWS_TOKEN="x", **STEP)
    assert found.gpu is not None
    assert (found.gpu.bus_id, found.gpu.numa, found.ordinal) == (gpu(1).bus_id, 1, 1)
    assert (found.mask, found.visible_count) == (None, 2)
    assert (found.numa, found.numa_cores) == ((1,), tuple(range(8, 16)))
    assert [nic.name for nic in found.nics if nic.near] == ["mlx5_1"]
    assert found.cpus_here == 16
    assert found.environment == {"NCCL_DEBUG": "INFO", **STEP}
    assert found.notes == ()


def test_an_isolated_rank_takes_the_one_gpu_it_sees(tmp_path: Path) -> None:
    found = look(tmp_path, 1, CUDA_VISIBLE_DEVICES=gpu(1).uuid)
    assert found.gpu is not None
    assert (found.ordinal, found.gpu.uuid) == (0, gpu(1).uuid)


def test_too_few_visible_gpus_are_a_problem_of_this_rank(tmp_path: Path) -> None:
    found = look(tmp_path, 1, CUDA_VISIBLE_DEVICES="")
    assert (found.gpu, found.problem) == (None, "2 ranks on this node, 0 visible GPUs")


def test_without_nvml_the_look_says_so_and_goes_on(tmp_path: Path) -> None:
    found = look(tmp_path, gpus=no_nvml, CUDA_VISIBLE_DEVICES="0,1")
    assert (found.gpus, found.gpu, found.problem) == (None, None, None)
    assert found.notes == (
        "NVML not available, the node's GPUs are not known: NVML Shared Library Not Found",
    )


def test_a_node_without_gpus_is_no_problem(tmp_path: Path) -> None:
    found = look(tmp_path, gpus=list)
    assert (found.gpus, found.gpu, found.problem, found.notes) == ((), None, None, ())


def test_an_odd_mask_is_read_as_the_driver_reads_it(tmp_path: Path) -> None:
    found = look(tmp_path, CUDA_VISIBLE_DEVICES="1-3")
    assert (found.gpu, found.visible_count) == (replace(gpu(1), numa=1), 1)
    unseen = look(tmp_path / "other", gpus=no_nvml, CUDA_VISIBLE_DEVICES="1-3")
    assert "'1-3' is no plain list" in unseen.notes[1]


def test_cores_that_sys_does_not_know_have_no_domain(tmp_path: Path) -> None:
    assert look(tmp_path, cores=(0, 99)).numa is None


def test_a_look_survives_the_way_through_json(tmp_path: Path) -> None:
    found = look(tmp_path, **STEP)
    assert look_from_json(json.loads(json.dumps(found.to_json()))) == found


def test_nvml_is_asked_without_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    import pynvml

    calls = []

    class Info:
        busId = b"00000000:1B:00.0"

    def unsupported(handle: int) -> None:
        raise pynvml.NVMLError_NotSupported

    monkeypatch.setattr(pynvml, "nvmlInit", lambda: calls.append("init"))
    monkeypatch.setattr(pynvml, "nvmlShutdown", lambda: calls.append("shutdown"))
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", lambda: 1)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", lambda i: i)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetPciInfo", lambda h: Info)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetUUID", lambda h: "GPU-1")
    monkeypatch.setattr(pynvml, "nvmlDeviceGetName", lambda h: b"NVIDIA H100")
    monkeypatch.setattr(pynvml, "nvmlDeviceGetMigMode", unsupported)
    assert nvml_gpus() == [Gpu("0000:1b:00.0", "GPU-1", "NVIDIA H100")]
    assert calls == ["init", "shutdown"]


def test_this_machine_can_be_looked_at_whatever_it_is() -> None:
    import os

    found = look_here(single_identity(), {})
    assert found.cores == tuple(sorted(os.sched_getaffinity(0)))
    assert found.gpus is not None or "NVML not available" in found.notes[0]
