"""What each launcher says about this process: claims read from environment variables and PMIx facts.

A claim keeps the name of the variable behind every value, so that two claims that disagree can be
shown side by side.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from clusterlab.core.errors import UsageError
from clusterlab.formats.hostlist import expand_counts
from clusterlab.launch.pmix_types import PmixFacts

Environ = Mapping[str, str]

_SLURM_NAMESPACE = re.compile(r"slurm\.pmix\.([0-9]+)\.([0-9]+)")
_NO_TASK_STEPS = 0xFFFFFFF0  # batch, interactive and extern steps have ids above (slurm.h)
_MAX_NUMBER = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Said:
    """One value and the variable that carries it."""

    variable: str
    value: int

    def __str__(self) -> str:
        return f"{self.variable}={self.value}"


@dataclass(frozen=True, slots=True)
class Claim:
    """What one launcher says of this process; None where it is silent."""

    source: str
    rank: Said | None = None
    world_size: Said | None = None
    local_rank: Said | None = None
    local_world_size: Said | None = None
    node_rank: Said | None = None

    @property
    def complete(self) -> bool:
        """Whether the claim alone is enough for an identity."""
        return None not in (self.rank, self.world_size, self.local_rank, self.local_world_size)


def said(environ: Environ, name: str, *, minimum: int = 0) -> Said | None:
    """The number in variable ``name``, or None when it is unset or empty. Raises UsageError."""
    text = environ.get(name, "").strip()
    if not text:
        return None
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else -1
    if not minimum <= number <= _MAX_NUMBER:
        shown = text if len(text) <= 40 else text[:37] + "…"
        raise UsageError(f"{shown!r}", where=name, expected=f"a whole number from {minimum} on")
    return Said(name, number)


def in_slurm_task(environ: Environ) -> bool:
    """Whether this process is a task of a Slurm step.

    A batch script is none, although it has SLURM_PROCID=0 and SLURM_NTASKS=N. Nor is one submitted
    from inside a step: sbatch hands that step's variables on, and they then contradict the job's own
    SLURM_NTASKS.
    """
    step = environ.get("SLURM_STEP_ID", "").strip()
    if not environ.get("SLURM_JOB_ID") or not (step.isascii() and step.isdigit()):
        return False
    if int(step) >= _NO_TASK_STEPS:
        return False
    tasks, step_tasks = environ.get("SLURM_NTASKS"), environ.get("SLURM_STEP_NUM_TASKS")
    return not (tasks and step_tasks and tasks != step_tasks)


def slurm_claim(environ: Environ) -> Claim | None:
    """What the Slurm step says; None outside a step's task."""
    if not in_slurm_task(environ):
        return None
    node = said(environ, "SLURM_NODEID")
    return Claim(
        "slurm",
        rank=said(environ, "SLURM_PROCID"),
        world_size=said(environ, "SLURM_STEP_NUM_TASKS", minimum=1)
        or said(environ, "SLURM_NTASKS", minimum=1),
        local_rank=said(environ, "SLURM_LOCALID"),
        local_world_size=_slurm_local_size(environ, node),
        node_rank=node,
    )


def _slurm_local_size(environ: Environ, node: Said | None) -> Said | None:
    name = "SLURM_STEP_TASKS_PER_NODE"
    text = environ.get(name)
    if not text or node is None:
        return None
    counts = expand_counts(text, where=name)
    if node.value >= len(counts):
        raise UsageError(f"{text!r} has no entry for {node}", where=name)
    return Said(f"{name}[{node.value}]", counts[node.value])


def torchrun_claim(environ: Environ) -> Claim | None:
    """What torchrun's agent says; None when no agent started this process."""
    if not environ.get("TORCHELASTIC_RUN_ID"):
        return None
    return _torch_variables(environ, "torchrun")


def exported_claim(environ: Environ) -> Claim | None:
    """RANK, WORLD_SIZE, … exported by hand, without torchrun; None when neither is set."""
    if environ.get("TORCHELASTIC_RUN_ID"):
        return None
    if not environ.get("RANK") and not environ.get("WORLD_SIZE"):
        return None
    return _torch_variables(environ, "environment")


def _torch_variables(environ: Environ, source: str) -> Claim:
    return Claim(
        source,
        rank=said(environ, "RANK"),
        world_size=said(environ, "WORLD_SIZE", minimum=1),
        local_rank=said(environ, "LOCAL_RANK"),
        local_world_size=said(environ, "LOCAL_WORLD_SIZE", minimum=1),
        node_rank=said(environ, "GROUP_RANK"),
    )


def openmpi_claim(environ: Environ) -> Claim | None:
    """What Open MPI's mpirun says. (OMPI_COMM_WORLD_NODE_RANK is a rank within a node, not a node's.)"""
    if not environ.get("OMPI_COMM_WORLD_SIZE"):
        return None
    return Claim(
        "openmpi",
        rank=said(environ, "OMPI_COMM_WORLD_RANK"),
        world_size=said(environ, "OMPI_COMM_WORLD_SIZE", minimum=1),
        local_rank=said(environ, "OMPI_COMM_WORLD_LOCAL_RANK"),
        local_world_size=said(environ, "OMPI_COMM_WORLD_LOCAL_SIZE", minimum=1),
    )


def pmix_claim(environ: Environ, facts: PmixFacts | None) -> Claim | None:
    """What the PMIx server says; without its facts the environment still tells the rank."""
    if facts is None:
        rank = said(environ, "PMIX_RANK")
        return Claim("pmix", rank=rank) if rank else None
    return Claim(
        "pmix",
        rank=Said("PMIX_RANK", facts.rank),
        world_size=Said("pmix.job.size", facts.job_size),
        local_rank=_known("pmix.lrank", facts.local_rank),
        local_world_size=_known("pmix.local.size", facts.local_size),
        node_rank=_known("pmix.nodeid", facts.node_id),
    )


def _known(key: str, value: int | None) -> Said | None:
    return None if value is None else Said(key, value)


def foreign_pmix(environ: Environ) -> str | None:
    """Why the PMIx variables here are another process's, or None when they are ours (or absent).

    A torchrun worker inherits its agent's; a step inside a step, and a job submitted from a step,
    inherit the outer step's. Connecting with them would make several processes one PMIx rank.
    """
    namespace = environ.get("PMIX_NAMESPACE")
    if not namespace:
        return None
    if environ.get("TORCHELASTIC_RUN_ID"):
        return f"PMIX_NAMESPACE={namespace} is the torchrun agent's"
    match = _SLURM_NAMESPACE.fullmatch(namespace)
    if match is None or environ.get("SLURM_HET_SIZE"):
        return None
    if not in_slurm_task(environ):
        return f"PMIX_NAMESPACE={namespace} is inherited: this process is no task of a step"
    here = environ.get("SLURM_JOB_ID", ""), environ.get("SLURM_STEP_ID", "")
    if match.groups() == here:
        return None
    return f"PMIX_NAMESPACE={namespace} is inherited: this is step {here[0]}.{here[1]}"
