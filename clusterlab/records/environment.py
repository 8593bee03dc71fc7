"""Which versions ran."""

from __future__ import annotations

import platform
import re
from importlib import metadata
from pathlib import Path

import clusterlab

_PACKAGES = ("torch", "numpy")
_NCCL_WHEELS = ("nvidia-nccl-cu13", "nvidia-nccl-cu12")


def versions() -> dict[str, str | None]:
    """Version of everything that can change a measurement; None where it is not there.

    Read from package metadata, so that nothing heavy is imported. ``nccl`` is the NCCL wheel beside
    torch; the library a rank really loads may differ (LD_LIBRARY_PATH), and rank 0 says so itself.
    """
    return {
        "clusterlab": clusterlab.__version__,
        "python": platform.python_version(),
        **{name: _installed(name) for name in _PACKAGES},
        "nccl": next((v for v in map(_installed, _NCCL_WHEELS) if v), None),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "nvidia_driver": _nvidia_driver(),
    }


def _installed(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _nvidia_driver(path: Path = Path("/proc/driver/nvidia/version")) -> str | None:
    """The version in the kernel module's own line: ``NVRM version: … Kernel Module  570.86.15 …``."""
    try:
        text = path.read_text()
    except OSError:
        return None
    match = re.search(r"\b(\d{3,}\.\d+(?:\.\d+)*)\b", text)
    return match.group(1) if match else None
