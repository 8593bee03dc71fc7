"""What NVML shows this process: GPUs and MIG instances. No CUDA, no context."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from clusterlab.topology.discover.facts import GpuFact
from clusterlab.topology.discover.nvml import read_gpus
from clusterlab.topology.discover.pci import sysfs_address


def ask_nvml() -> tuple[Sequence[GpuFact], Sequence[tuple[str, str]]]:
    """GPUs in PCI order, and (MIG UUID, bus id of its GPU) pairs. Raises NvmlAbsentError."""
    gpus = read_gpus()
    return gpus, list(_slices()) if any(gpu.mig for gpu in gpus) else ()


def _slices() -> Iterator[tuple[str, str]]:
    import pynvml

    pynvml.nvmlInit()
    try:
        for i in range(pynvml.nvmlDeviceGetCount()):
            gpu = pynvml.nvmlDeviceGetHandleByIndex(i)
            bus_id = sysfs_address(_text(pynvml.nvmlDeviceGetPciInfo(gpu).busId))
            for k in range(_most(pynvml, gpu)):
                try:
                    instance = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, k)
                    uuid = _text(pynvml.nvmlDeviceGetUUID(instance))
                except pynvml.NVMLError:
                    continue  # no instance of that number, or not this process's
                if bus_id:
                    yield uuid, bus_id
    finally:
        pynvml.nvmlShutdown()


def _most(nvml: Any, gpu: Any) -> int:
    try:
        return int(nvml.nvmlDeviceGetMaxMigDeviceCount(gpu))
    except nvml.NVMLError:
        return 0


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
