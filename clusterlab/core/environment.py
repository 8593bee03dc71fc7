"""Which environment variables may be kept or shown: allow-listed, never a secret."""

from __future__ import annotations

import re
from collections.abc import Mapping

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


def allowed_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of ``environ`` that a run keeps and a diagnosis shows, sorted by name.

    Kept: the prefixes that change what collectives do or who a rank is. Dropped: every name that looks
    like a token, key, secret or password. A user name or password inside a URL is blanked.
    """
    return {
        name: _USER_IN_URL.sub("…@", environ[name])
        for name in sorted(environ)
        if name.startswith(ALLOWED_PREFIXES) and (name in _NOT_SECRET or not _SECRET.search(name))
    }
