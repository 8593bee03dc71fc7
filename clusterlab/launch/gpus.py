"""How many GPUs this process may use, asked without a CUDA context (a forked rank could not use CUDA)."""

from __future__ import annotations

from pathlib import Path

_DRIVER = Path("/proc/driver/nvidia/version")


def visible_gpus() -> int:
    """GPUs that CUDA would show this process, its CUDA_VISIBLE_DEVICES applied; 0 without a driver."""
    if not _DRIVER.exists():
        return 0
    import torch

    # Counts through NVML and applies the mask itself, without initialising CUDA.
    return torch.cuda.device_count()
