"""The variables by which launchers tell a process who it is, and what reads which. Data and look-ups.

Sources: the launchers' own documentation and source (Slurm srun(1), Open MPI 4/5 mpirun, MPICH Hydra,
Intel MPI, HPE PALS mpiexec(1), IBM jsrun, Flux flux-run(1), MVAPICH2, torch.distributed.run).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Source:
    """A launcher's variables. ``depth``: launchers of greater depth are started by lesser ones."""

    name: str
    depth: int
    rank: str | None
    local_rank: str | None
    size: tuple[str, ...] = ()


SLURM = Source(
    "slurm", 0, "SLURM_PROCID", "SLURM_LOCALID", ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")
)
TORCH = Source("torch", 2, "RANK", "LOCAL_RANK", ("WORLD_SIZE",))
OPENMPI = Source(
    "openmpi",
    1,
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    ("OMPI_COMM_WORLD_SIZE",),
)
SOURCES = (
    SLURM,
    Source("flux", 0, "FLUX_TASK_RANK", "FLUX_TASK_LOCAL_ID", ("FLUX_JOB_SIZE",)),
    Source("jsm", 0, "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_LOCAL_RANK", ("JSM_NAMESPACE_SIZE",)),
    Source("pals", 1, "PALS_RANKID", "PALS_LOCAL_RANKID", ("PMI_SIZE",)),
    Source("pmi", 1, "PMI_RANK", "MPI_LOCALRANKID", ("PMI_SIZE",)),
    Source("pmix", 1, "PMIX_RANK", None),
    Source(
        "mvapich", 1, "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_RANK", ("MV2_COMM_WORLD_SIZE",)
    ),
    OPENMPI,
    TORCH,
)

# Local-rank variables that frameworks commonly look for; others need to be told (LOCAL_RANK=…).
WELL_KNOWN_LOCAL = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK")
RARE_LOCAL = (
    "MPI_LOCALRANKID",
    "MV2_COMM_WORLD_LOCAL_RANK",
    "PALS_LOCAL_RANKID",
    "FLUX_TASK_LOCAL_ID",
    "JSM_NAMESPACE_LOCAL_RANK",
)

# What a program that finds no launcher by itself looks for: (framework, variables of which one is enough).
# jax: jax/_src/clusters/{ompi_cluster,slurm_cluster}.py; accelerate: utils/environment.py.
DETECTS = {
    "jax": ("OMPI_MCA_orte_hnp_uri", "SLURM_JOB_ID", "SLURM_STEP_NODELIST"),
    "accelerate": ("LOCAL_RANK", "MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK"),
    "torch": ("LOCAL_RANK", "RANK"),
    "lightning": ("LOCAL_RANK", "SLURM_NTASKS", "LSB_HOSTS"),
}

MASKS = (
    "CUDA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ZE_AFFINITY_MASK",
)

IDENTITY_PREFIXES = (
    "SLURM_",
    "PMI",
    "OMPI_",
    "MV2_",
    "MPI_",
    "PALS_",
    "FLUX_",
    "MASTER_",
    "NCCL_",
    "GLOO_",
    "UCX_",
)
IDENTITY_NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK")


def number(env: Mapping[str, str], name: str | None) -> int | None:
    """The whole number in a variable; None when unset or no number."""
    text = env.get(name, "").strip() if name else ""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else None


def size_of(env: Mapping[str, str], source: Source) -> tuple[str, int] | None:
    """The variable and the world size in it, as ``source`` says; None where it is silent."""
    for name in source.size:
        value = number(env, name)
        if value is not None:
            return name, value
    return None


def decides_identity(name: str) -> bool:
    """Whether a variable changes who a process is or what its collectives do."""
    return name in IDENTITY_NAMES or name.startswith(IDENTITY_PREFIXES)
