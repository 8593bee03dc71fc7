"""What differs between Slurm's versions, as data. The default, 22.05, is the one that was measured.

Each rule names the change that made it.
"""

from __future__ import annotations

from dataclasses import dataclass

from clusterlab.core.errors import UsageError


@dataclass(frozen=True, slots=True)
class SlurmRules:
    """How one version behaves where versions differ."""

    version: str
    srun_reads_cpus_per_task: bool
    """srun takes -c from SLURM_CPUS_PER_TASK, which sbatch sets: not from 22.05 to 23.02."""
    gpu_bind_none_keeps_mask: bool
    """gpu-bind=none shows every GPU of the step, not an unset mask: since 23.11.0 (657efad356)."""
    has_allow_task_sharing: bool
    """--gres-flags=allow-task-sharing: since 23.11.3 (79780501e1)."""
    tasks_in_topology_order: bool
    """Tasks follow the topology's order unless CR_NO_DIST_TOPO_BLOCK: since 26.05."""


def _rules(version: str) -> SlurmRules:
    number = tuple(map(int, version.split(".")))
    return SlurmRules(
        version,
        srun_reads_cpus_per_task=number < (22, 5) or number >= (23, 11),
        gpu_bind_none_keeps_mask=number >= (23, 11),
        has_allow_task_sharing=number >= (23, 11),
        tasks_in_topology_order=number >= (26, 5),
    )


VERSIONS = ("21.08", "22.05", "23.02", "23.11", "24.05", "24.11", "25.05", "25.11", "26.05")
MEASURED = "22.05"


def slurm_rules(version: str) -> SlurmRules:
    """The rules of ``22.05`` or ``22.05.8``. Raises UsageError for a version not known here."""
    short = ".".join(version.split(".")[:2])
    if short not in VERSIONS:
        raise UsageError(
            f"Slurm {version!r} is not known", where="--slurm-version", expected=", ".join(VERSIONS)
        )
    return _rules(short)
