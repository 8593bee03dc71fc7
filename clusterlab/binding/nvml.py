"""The node's GPUs as NVML shows them: without CUDA, its mask, or a context."""

from __future__ import annotations

from typing import Any

from clusterlab.binding.look import Gpu


class NvmlAbsentError(Exception):
    """NVML cannot be asked, and why. Not an error of the job: the diagnosis goes on without."""


def read_gpus() -> list[Gpu]:
    """Every GPU NVML shows this process, in PCI order, ``numa`` unknown. Raises NvmlAbsentError.

    In a device cgroup or a container NVML shows only those that may be opened there, as CUDA does.
    """
    try:
        import pynvml
    except ImportError as error:
        raise NvmlAbsentError(f"{error}; pip install nvidia-ml-py") from None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise NvmlAbsentError(str(error)) from None
    try:
        count = pynvml.nvmlDeviceGetCount()
        gpus = [_gpu(pynvml, pynvml.nvmlDeviceGetHandleByIndex(i)) for i in range(count)]
    except pynvml.NVMLError as error:
        raise NvmlAbsentError(str(error)) from None
    finally:
        pynvml.nvmlShutdown()
    return sorted(gpus, key=lambda gpu: gpu.bus_id)


def _gpu(nvml: Any, handle: Any) -> Gpu:
    return Gpu(
        bus_id=sysfs_address(_text(nvml.nvmlDeviceGetPciInfo(handle).busId)),
        uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
        name=_text(nvml.nvmlDeviceGetName(handle)),
        mig=_is_cut(nvml, handle),
    )


def _is_cut(nvml: Any, handle: Any) -> bool:
    try:
        current, _ = nvml.nvmlDeviceGetMigMode(handle)
    except nvml.NVMLError_NotSupported:  # a GPU that cannot be cut
        return False
    return bool(current)


def sysfs_address(bus_id: str) -> str:
    """NVML's ``00000000:1B:00.0`` as /sys spells it: ``0000:1b:00.0``."""
    domain, _, rest = bus_id.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
