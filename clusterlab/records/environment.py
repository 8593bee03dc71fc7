"""Which versions ran and which environment variables mattered: allow-listed, never a secret."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

import clusterlab

ALLOWED_PREFIXES = (
    "NCCL_",
    "GLOO_",
    "UCX_",
    "FI_",
    "SLURM_",
    "PMIX_",
    "OMPI_COMM_WORLD_",
    "CUDA_",
    "NVIDIA_VISIBLE_DEVICES",
    "TORCH_",
    "OMP_",
    "CLUSTERLAB_",
)

# SLURM_JWT is a bearer token for Slurm's REST interface (slurmrestd, rest_auth/jwt).
_SECRET = re.compile(r"TOKEN|KEY|SECRET|PASSW|PASSPHRASE|CREDENTIAL|JWT|COOKIE|AUTH", re.IGNORECASE)

# The InfiniBand partition: a number one needs to explain a hang, and no secret.
_NOT_SECRET = frozenset({"NCCL_IB_PKEY"})

_USER_IN_URL = re.compile(r"(?<=://)[^/@\s]+@")

_PACKAGES = ("torch", "numpy")
_NCCL_WHEELS = ("nvidia-nccl-cu13", "nvidia-nccl-cu12")


def allowed_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of ``environ`` that a run keeps, sorted by name.

    Kept: the prefixes that change what collectives do or who a rank is. Dropped: every name that looks
    like a token, key, secret or password. A user name or password inside a URL is blanked.
    """
    return {
        name: _USER_IN_URL.sub("…@", environ[name])
        for name in sorted(environ)
        if name.startswith(ALLOWED_PREFIXES) and (name in _NOT_SECRET or not _SECRET.search(name))
    }


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
