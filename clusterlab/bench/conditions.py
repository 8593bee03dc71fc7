"""The GPU's state around a point, as NVML tells it: SM clock, temperature, and why it is held back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from clusterlab.core.measurement import Conditions

if TYPE_CHECKING:
    import torch

UNKNOWN = -1.0

REASONS: dict[int, str] = {
    0x2: "applications_clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake",
    0x100: "display_clock_setting",
}
"""nvml.h nvmlClocksEventReason*, but for 0x1: that the GPU is idle holds nothing back."""


class GpuState:
    """One GPU's handle at NVML. What NVML refuses is UNKNOWN: a MIG slice has no clock of its own."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml = nvml
        self._handle = handle
        # renamed in NVML 12.4; both are there since
        self._reasons: Any = getattr(
            nvml, "nvmlDeviceGetCurrentClocksEventReasons", None
        ) or getattr(nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", None)

    def read(self) -> tuple[float, float, float]:
        """SM clock (MHz), temperature (°C) and the reasons' bits. Three questions to the driver, some 10 µs
        each.
        """
        nvml, handle = self._nvml, self._handle
        return (
            self._ask(lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
            self._ask(lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
            self._ask(lambda: self._reasons(handle)),
        )

    def _ask(self, question: Any) -> float:
        try:
            return float(question())
        except (self._nvml.NVMLError, TypeError):
            return UNKNOWN


def open_gpu_state(device: torch.device) -> GpuState | None:
    """NVML's handle of ``device``; None on a CPU, and where NVML does not know it."""
    if device.type != "cuda":
        return None
    import torch

    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        uuid = str(torch.cuda.get_device_properties(device).uuid)
        name = uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"
        return GpuState(pynvml, pynvml.nvmlDeviceGetHandleByUUID(name))
    except (pynvml.NVMLError, AttributeError):
        return None


def read_state(gpu: GpuState | None) -> tuple[float, float, float]:
    """As ``GpuState.read``; UNKNOWN without one."""
    return gpu.read() if gpu is not None else (UNKNOWN, UNKNOWN, UNKNOWN)


def conditions_of(readings: Sequence[Sequence[float]]) -> Conditions:
    """The Conditions of ranks of which each read its GPU's state (three figures) one or more times."""
    states = [row[i : i + 3] for row in readings for i in range(0, len(row), 3)]
    clocks, temperatures, masks = (
        [state[i] for state in states if state[i] != UNKNOWN] for i in range(3)
    )
    return Conditions(
        gpu_clock_mhz=min(clocks, default=None),
        gpu_temp_c=max(temperatures, default=None),
        throttled=throttle_names(masks),
    )


def throttle_names(masks: Sequence[float]) -> str | None:
    """The names of all reasons among ``masks``, with commas; empty for none, None when nobody knows."""
    if not masks:
        return None
    every = 0
    for mask in masks:
        every |= int(mask)
    return ",".join(name for bit, name in REASONS.items() if every & bit)
